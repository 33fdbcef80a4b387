//! Questions about the shared pages of this node's ranks. The driver reads the pages; each question remembers its
//! asker.

use super::effect::RankEffect;
use crate::moment::Moment;
use crate::node::outbox::Outbox;
use pcm_proto::agent::RankCounters;
use pcm_proto::ids::{Iteration, JobId, NodeName, ProcessId, Rank};
use pcm_proto::job::RankStatus;
use pcm_proto::peer::RanksBegun;
use pcm_proto::rank_snapshot::RankLook;
use pcm_proto::trace::TraceChunk;
use std::collections::BTreeMap;

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageQuestion {
    /// One row for each process of a job.
    Ranks { job: JobId },
    /// The processes of a job that have begun to iterate.
    Begun { job: JobId },
    /// The calls and messages of each process of a job, of those that have ended too.
    Looks { job: JobId },
    /// What the processes of a job recorded of their calls since they were asked last; they record on, unless this is
    /// the last time.
    Traces {
        job: JobId,
        after: Vec<(ProcessId, u64)>,
        is_last: bool,
        entries_max: u32,
        /// The time of this question on the node's clock.
        now: Moment,
    },
    /// Counters of these processes of each job, which have these ranks, for the node's agent.
    Counters {
        jobs: Vec<(JobId, BTreeMap<ProcessId, Rank>)>,
    },
    /// The highest iteration that a rank of a job has begun.
    Reached { job: JobId },
}

/// What was read.
#[derive(Debug)]
pub enum Pages {
    Ranks(Vec<RankStatus>),
    Begun(RanksBegun),
    Looks(Vec<RankLook>),
    Traces(Vec<TraceChunk>),
    Counters {
        /// When, on the clock of the pages (CLOCK_MONOTONIC).
        at_ns: u64,
        jobs: Vec<(JobId, Vec<RankCounters>)>,
    },
    Reached {
        iteration: Option<Iteration>,
    },
}

/// The source of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Another daemon, or this one, with the number of its question.
    Node { node: NodeName, ask: u64 },
    /// The agent, which also wants to know the links to these nodes.
    Agent { about: Vec<NodeName> },
    /// The coordinator of a job whose processes are being ended.
    Coordinator { job: JobId, node: NodeName },
}

/// Questions that the driver has not answered.
#[derive(Debug, Default)]
pub struct PageQuestions {
    count: u64,
    open: BTreeMap<u64, Reader>,
}

impl PageQuestions {
    /// Has the pages read.
    pub fn ask(&mut self, reader: Reader, question: PageQuestion, out: &mut Outbox) {
        self.count += 1;
        let number = self.count;
        self.open.insert(number, reader);
        out.rank(RankEffect::Read { number, question });
    }

    /// The source of an answered question.
    pub fn on_read(&mut self, number: u64) -> Option<Reader> {
        self.open.remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::outbox::Effect;

    #[test]
    fn each_question_is_answered_once_to_its_own_reader() {
        let node = NodeName::new("n0").unwrap();
        let mut out = Outbox::new(node.clone(), Moment(0));
        let mut questions = PageQuestions::default();
        let job = JobId(1);
        let readers = [Reader::Agent { about: Vec::new() }, Reader::Node { node, ask: 7 }];
        for reader in &readers {
            questions.ask(reader.clone(), PageQuestion::Ranks { job }, &mut out);
        }
        let numbers = out.take().into_iter().map(|effect| match effect {
            Effect::Rank(RankEffect::Read { number, .. }) => number,
            other => panic!("{other:?}"),
        });
        let numbers: Vec<u64> = numbers.collect();
        assert_eq!(questions.on_read(numbers[1]), Some(readers[1].clone()));
        assert_eq!(questions.on_read(numbers[1]), None);
        assert_eq!(questions.on_read(numbers[0]), Some(readers[0].clone()));
    }
}
