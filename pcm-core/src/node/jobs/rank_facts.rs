//! What ranks and the effects on them report, for the part of the daemon it concerns; and what ranks are told.

use crate::job::participant::Input;
use crate::node::event::RankNews;
use crate::node::machine::Node;
use crate::node::ranks::effect::{RankEffect, RankFact};
use crate::node::ranks::pages::{PageQuestion, Pages, Reader};
use crate::reconfiguration::effects as reform;
use pcm_proto::app::DaemonToApp;
use pcm_proto::checkpoint::CheckpointMessage;
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::keeper::{DaemonToKeeper, ProcessKey};
use pcm_proto::peer::{Answer, DaemonToDaemon};
use pcm_proto::refusal;

impl Node {
    pub(in crate::node) fn on_rank_news(&mut self, news: RankNews) {
        match news {
            RankNews::Pmi { key, request } => self.on_pmi(key, request),
            RankNews::Said { key, message, memory } => self.on_app(key, message, memory),
            RankNews::Silent { key, nonsense } => {
                if let Some(reason) = nonsense {
                    tracing::warn!(job = %key.job, process = %key.process, reason, "a process does not speak our protocol");
                }
                self.on_last_words(key);
            }
            RankNews::Printed { key, stream, bytes } => self.on_printed(key, stream, bytes),
            RankNews::OutputEnded { key, stream } => self.on_printed_all(key, stream),
            RankNews::StdinTaken { job, bytes } => self.on_stdin_taken(job, bytes),
        }
    }

    pub(in crate::node) fn on_rank_fact(&mut self, fact: RankFact) {
        match fact {
            RankFact::LaunchFailed { key, code, reason } => self.on_not_started(key, code, reason),
            RankFact::PmiAnswered { key } => self.on_pmi_answered(key),
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
            ),
            RankFact::DataWeighed {
                key,
                constant,
                registered,
            } => self.on_data_weighed(key, constant, registered),
            RankFact::DataFound { key, table, stretches } => {
                self.out.keeper(DaemonToKeeper::Salvage { key, table, stretches });
            }
            RankFact::PagesRead { number, pages } => self.on_pages_read(number, pages),
        }
    }

    pub(in crate::node) fn launch(&mut self, job: JobId, process: ProcessId) {
        let key = ProcessKey { job, process };
        let host = self.nodes.own().host;
        let part = self.jobs.part(job);
        match part.and_then(|part| self.launcher.launch(key, part, host)) {
            Some(launch) => self.out.rank(RankEffect::Launch(Box::new(launch))),
            None => {
                let reason = format!("process {process} of job {job} was not ordered");
                self.on_not_started(key, refusal::START_FAILED.to_owned(), reason);
            }
        }
    }

    /// A process could not be started; nothing of it is left.
    pub(in crate::node) fn on_not_started(&mut self, key: ProcessKey, code: String, reason: String) {
        let ProcessKey { job, process } = key;
        let refused = Input::Refused { process, code, reason };
        self.participate(job, refused);
    }

    pub(in crate::node) fn tell_app(&mut self, job: JobId, process: ProcessId, message: DaemonToApp) {
        self.out.rank(RankEffect::Tell {
            key: ProcessKey { job, process },
            message: Box::new(message),
            memory: None,
        });
    }

    /// Another daemon, or this one, wants to know what the pages show.
    pub(in crate::node) fn read_pages(&mut self, node: &NodeName, ask: u64, question: PageQuestion) {
        let node = node.clone();
        let reader = Reader::Node { node, ask };
        self.page_questions.ask(reader, question, &mut self.out);
    }

    fn on_pages_read(&mut self, number: u64, pages: Pages) {
        let Some(reader) = self.page_questions.on_read(number) else {
            return;
        };
        let (node, ask, answer) = match (reader, pages) {
            (Reader::Node { node, ask }, Pages::Ranks(rows)) => (node, ask, Answer::Ranks(rows)),
            (Reader::Node { node, ask }, Pages::Begun(begun)) => (node, ask, Answer::Begun(begun)),
            (Reader::Node { node, ask }, Pages::Looks(looks)) => (node, ask, Answer::Look(looks)),
            (Reader::Node { node, ask }, Pages::Traces(chunks)) => (node, ask, Answer::Trace(chunks)),
            (Reader::Agent { about }, Pages::Counters { at_ns, jobs }) => {
                return self.on_agent_counters(&about, at_ns, jobs);
            }
            (Reader::Coordinator { job, node }, Pages::Reached { iteration }) => {
                if let Some(iteration) = iteration {
                    self.say_checkpoint(&node, job, CheckpointMessage::Reached { iteration });
                }
                return;
            }
            (reader, _) => return tracing::error!(?reader, "pages were read that were not asked for"),
        };
        let answer = Box::new(answer);
        self.send(&node, DaemonToDaemon::Answer { ask, answer });
    }
}
