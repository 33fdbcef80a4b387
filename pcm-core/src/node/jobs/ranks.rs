//! What the processes of a job here say and do. The inputs that these methods return are for the job.

use super::data;
use super::table::Job;
use crate::job::at_node::Input;
use crate::job::participant;
use crate::node::context::Context;
use crate::node::event::RankNews;
use crate::node::memory::MemoryFile;
use crate::node::program_requests;
use crate::node::queries::Asker;
use crate::node::ranks::effect::RankFact;
use crate::node::store::ahead::{Ahead, ahead};
use crate::node::store::input::StoreInput;
use crate::node::timer::Timer;
use crate::reconfiguration::effects as change;
use pcm_proto::app::AppToDaemon;
use pcm_proto::ids::{Bytes, ProcessId};
use pcm_proto::keeper::{DaemonToKeeper, ProcessKey};
use pcm_proto::parked::ParkKey;
use pcm_proto::peer::Question;
use pcm_proto::reconfiguration::ReconfigurationReport;

impl Job {
    /// A process says or prints something; that it says nothing more is for the caller.
    pub(super) fn on_news(&mut self, news: RankNews, cx: &mut Context<'_>) -> Option<Input> {
        match news {
            RankNews::Pmi { key, request } => {
                let process = key.process;
                if let Some(local) = &mut self.local {
                    local.ranks.on_request(process, &request);
                }
                Some(participant::Input::Pmi { process, request }.into())
            }
            RankNews::Said { key, message, memory } => self.on_said(key.process, message, memory, cx),
            RankNews::Silent { .. } | RankNews::Pmix { .. } => None,
            RankNews::Printed { key, stream, bytes } => {
                self.on_printed((key.process, stream), bytes, cx);
                None
            }
            RankNews::OutputEnded { key, stream } => self.on_stream_ended(key.process, stream, cx).map(Input::Run),
            RankNews::StdinTaken { bytes, .. } => {
                self.on_stdin_taken(bytes, cx);
                None
            }
        }
    }

    /// The library in a process says something.
    fn on_said(
        &mut self,
        process: ProcessId,
        message: AppToDaemon,
        memory: Option<MemoryFile>,
        cx: &mut Context<'_>,
    ) -> Option<Input> {
        match message {
            AppToDaemon::Initialized { .. } => {
                if let Some(local) = &mut self.local {
                    local.ranks.on_initialized(process);
                }
                cx.ranks_changed();
            }
            AppToDaemon::Aborting { code } => return Some(participant::Input::Aborting { process, code }.into()),
            AppToDaemon::Registered(registered) => return Some(participant::Input::Registered(registered).into()),
            AppToDaemon::Resize { ranks } => self.on_size_wanted(ranks, cx),
            AppToDaemon::Finalizing => return Some(Input::Change(change::Input::Finalizing { process })),
            about_data => {
                let key = ProcessKey { job: self.id, process };
                if let Some(input) = data::of_rank(key, about_data, memory) {
                    cx.store(input);
                }
            }
        }
        None
    }

    /// A process requests another number of ranks for its job.
    fn on_size_wanted(&self, ranks: u32, cx: &mut Context<'_>) {
        let Some(part) = self.machine.part() else { return };
        let (job, layout) = (self.id, self.machine.layout());
        let size = layout.map_or(0, |layout| layout.size() as u32);
        if let Some(request) = program_requests::request(job, ranks, size) {
            let question = Question::Control(Box::new(request));
            let within = program_requests::REQUEST_WITHIN;
            cx.ask(part.coordinator(), question, Asker::Program { job }, within);
        }
    }

    /// An effect on processes has something to report; that a request was answered is for the caller.
    pub(super) fn on_fact(&mut self, fact: RankFact, cx: &mut Context<'_>) -> Option<Input> {
        match fact {
            RankFact::LaunchFailed { key, code, reason } => {
                let process = key.process;
                Some(participant::Input::Refused { process, code, reason }.into())
            }
            RankFact::CeilingWritten {
                key: ProcessKey { process, .. },
                ceiling,
                started,
                ends,
            } => Some(Input::Change(change::Input::CeilingWritten {
                process,
                ceiling,
                started,
                ends,
            })),
            RankFact::DataWeighed {
                key,
                constant,
                registered,
            } => self.on_data_weighed(key, constant, registered, cx),
            RankFact::DataFound { key, table, stretches } => {
                cx.out.keeper(DaemonToKeeper::Salvage { key, table, stretches });
                None
            }
            RankFact::PmiAnswered { .. } | RankFact::PagesRead { .. } => None,
        }
    }

    /// It is known how much data a process has that may do something ahead of its meeting.
    fn on_data_weighed(&self, key: ParkKey, constant: Bytes, registered: Bytes, cx: &mut Context<'_>) -> Option<Input> {
        let ParkKey { job, attempt, process } = key;
        let engaged = self.machine.engaged();
        match engaged.map_or(Ahead::Nothing, |(_, plan)| ahead(plan, process, constant, registered)) {
            Ahead::Nothing => {
                let report = ReconfigurationReport::Ahead { attempt };
                return Some(Input::Change(change::Input::Report { process, report }));
            }
            Ahead::Data => {}
            Ahead::Memory { within } => cx.arm(within, Timer::Ahead(key)),
        }
        cx.store(StoreInput::TellPlanAhead { job, process });
        None
    }
}
