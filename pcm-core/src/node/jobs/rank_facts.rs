//! What ranks and the effects on them report, for the part of the daemon it concerns; and what ranks are told.

use crate::job::participant::Input;
use crate::node::context::Context;
use crate::node::event::RankNews;
use crate::node::jobs::machine::Jobs;
use crate::node::ranks::effect::{RankEffect, RankFact};
use crate::node::store::ahead::{Ahead, ahead};
use crate::node::store::input::StoreInput;
use crate::node::timer::Timer;
use crate::reconfiguration::effects as reform;
use pcm_proto::app::DaemonToApp;
use pcm_proto::ids::{Bytes, JobId, ProcessId};
use pcm_proto::keeper::{DaemonToKeeper, ProcessKey};
use pcm_proto::parked::ParkKey;
use pcm_proto::reconfiguration::ReconfigurationReport;
use pcm_proto::refusal;

impl Jobs {
    pub(in crate::node) fn on_rank_news(&mut self, news: RankNews, cx: &mut Context<'_>) {
        match news {
            RankNews::Pmi { key, request } => self.on_pmi(key, request, cx),
            RankNews::Said { key, message, memory } => self.on_app(key, message, memory, cx),
            RankNews::Silent { key, nonsense } => {
                if let Some(reason) = nonsense {
                    tracing::warn!(job = %key.job, process = %key.process, reason, "a process does not speak our protocol");
                }
                self.on_last_words(key, cx);
            }
            RankNews::Printed { key, stream, bytes } => self.on_printed(key, stream, bytes, cx),
            RankNews::OutputEnded { key, stream } => self.on_printed_all(key, stream, cx),
            RankNews::StdinTaken { job, bytes } => self.on_stdin_taken(job, bytes, cx),
        }
    }

    pub(in crate::node) fn on_rank_fact(&mut self, fact: RankFact, cx: &mut Context<'_>) {
        match fact {
            RankFact::LaunchFailed { key, code, reason } => self.on_not_started(key, code, reason, cx),
            RankFact::PmiAnswered { key } => self.on_pmi_answered(key, cx),
            RankFact::CeilingWritten {
                key: ProcessKey { job, process },
                ceiling,
                started,
                ends,
            } => self.reform(
                job,
                reform::Input::CeilingWritten {
                    process,
                    ceiling,
                    started,
                    ends,
                },
                cx,
            ),
            RankFact::DataWeighed {
                key,
                constant,
                registered,
            } => self.on_data_weighed(key, constant, registered, cx),
            RankFact::DataFound { key, table, stretches } => {
                cx.out.keeper(DaemonToKeeper::Salvage { key, table, stretches });
            }
            // Answered where questions about pages are kept.
            RankFact::PagesRead { .. } => {}
        }
    }

    pub(in crate::node) fn launch(&mut self, job: JobId, process: ProcessId, cx: &mut Context<'_>) {
        let key = ProcessKey { job, process };
        let host = cx.cluster.nodes().own().host;
        let part = self.table.part(job);
        match part.and_then(|part| self.launcher.launch(key, part, host)) {
            Some(launch) => cx.out.rank(RankEffect::Launch(Box::new(launch))),
            None => {
                let reason = format!("process {process} of job {job} was not ordered");
                self.on_not_started(key, refusal::START_FAILED.to_owned(), reason, cx);
            }
        }
    }

    /// A process could not be started; nothing of it is left.
    pub(in crate::node) fn on_not_started(
        &mut self,
        key: ProcessKey,
        code: String,
        reason: String,
        cx: &mut Context<'_>,
    ) {
        let ProcessKey { job, process } = key;
        let refused = Input::Refused { process, code, reason };
        self.participate(job, refused, cx);
    }

    pub(in crate::node) fn tell_app(
        &mut self,
        job: JobId,
        process: ProcessId,
        message: DaemonToApp,
        cx: &mut Context<'_>,
    ) {
        cx.out.rank(RankEffect::Tell {
            key: ProcessKey { job, process },
            message: Box::new(message),
            memory: None,
        });
    }

    /// It is known how much data a process has that may do something ahead of its meeting.
    pub(in crate::node) fn on_data_weighed(
        &mut self,
        key: ParkKey,
        constant: Bytes,
        registered: Bytes,
        cx: &mut Context<'_>,
    ) {
        let ParkKey { job, attempt, process } = key;
        let engaged = self.table.get(job).and_then(|known| known.machine.engaged());
        match engaged.map_or(Ahead::Nothing, |(_, plan)| ahead(plan, process, constant, registered)) {
            Ahead::Nothing => {
                let report = ReconfigurationReport::Ahead { attempt };
                return self.reform(job, reform::Input::Report { process, report }, cx);
            }
            Ahead::Data => {}
            Ahead::Memory { within } => cx.arm(within, Timer::Ahead(key)),
        }
        cx.store(StoreInput::TellPlanAhead { job, process });
    }
}
