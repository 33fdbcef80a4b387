//! The processes of one job on this node as the node deals with them: their ids, what they said last, how they ended.
//! Whether they live and what they are in the job, the job's participant knows.

use super::effect::{Attached, RankEffect};
use crate::moment::Moment;
use crate::node::outbox::Outbox;
use crate::node::timer::Timer;
use crate::pmi::wire::Request;
use pcm_proto::ids::{JobId, ProcessId};
use pcm_proto::keeper::{DaemonToKeeper, ExitStatus, ProcessKey};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A process that ended is waited for so long to be heard to its end; one it started may keep its channel open.
pub const LAST_WORDS_MAX: Duration = Duration::from_millis(200);

#[derive(Debug)]
struct LocalRank {
    pid: u32,
    /// Whether its last request is in the journal, so its answer must be, too.
    is_request_recorded: bool,
    is_asking: bool,
    /// Whether its library can say nothing more.
    is_silent: bool,
    /// When it was first seen, until it has initialised MPI.
    starting_since: Option<Moment>,
    /// How it ended, while what it said before may still be on its way.
    ended: Option<ExitStatus>,
}

/// The processes of a job that the driver holds.
#[derive(Debug)]
pub struct LocalRanks {
    job: JobId,
    ranks: BTreeMap<ProcessId, LocalRank>,
}

impl LocalRanks {
    pub fn new(job: JobId) -> Self {
        Self {
            job,
            ranks: BTreeMap::new(),
        }
    }

    fn key(&self, process: ProcessId) -> ProcessKey {
        ProcessKey { job: self.job, process }
    }

    /// The driver holds a process.
    pub fn on_attached(&mut self, attached: Attached, now: Moment) {
        let rank = LocalRank {
            pid: attached.pid,
            is_request_recorded: false,
            is_asking: attached.is_asking,
            is_silent: false,
            starting_since: attached.is_starting.then_some(now),
            ended: None,
        };
        self.ranks.entry(attached.key.process).or_insert(rank);
    }

    pub fn contains(&self, process: ProcessId) -> bool {
        self.ranks.contains_key(&process)
    }

    pub fn processes(&self) -> impl Iterator<Item = ProcessId> + '_ {
        self.ranks.keys().copied()
    }

    pub fn pid(&self, process: ProcessId) -> Option<u32> {
        self.ranks.get(&process).map(|rank| rank.pid)
    }

    /// The processes that had an unanswered PMI request when they were attached.
    pub fn asking(&self) -> BTreeSet<ProcessId> {
        let asking = self.ranks.iter().filter(|(_, rank)| rank.is_asking);
        asking.map(|(process, _)| *process).collect()
    }

    /// A process asks its process manager.
    pub fn on_request(&mut self, process: ProcessId, request: &Request) {
        if let Some(rank) = self.ranks.get_mut(&process) {
            rank.is_request_recorded = request.changes_state();
        }
    }

    /// Whether the answer to the last request of a process belongs into the journal.
    pub fn is_answer_recorded(&self, process: ProcessId) -> bool {
        self.ranks.get(&process).is_some_and(|rank| rank.is_request_recorded)
    }

    /// A process has initialised MPI.
    pub fn on_initialized(&mut self, process: ProcessId) {
        if let Some(rank) = self.ranks.get_mut(&process) {
            rank.starting_since = None;
        }
    }

    /// When a process was first seen that has not initialised MPI.
    pub fn starting_since(&self, process: ProcessId) -> Option<Moment> {
        self.ranks.get(&process)?.starting_since
    }

    /// A process ended; its end to be told now. An end is told after what the process said: a reason must not come
    /// behind its consequence. So of a process that may still be heard, it is told later, by [`Self::on_silent`].
    pub fn on_exited(&mut self, process: ProcessId, status: ExitStatus, out: &mut Outbox) -> Option<ExitStatus> {
        let key = self.key(process);
        match self.ranks.get_mut(&process).filter(|rank| !rank.is_silent) {
            Some(rank) => {
                rank.ended = Some(status);
                out.arm(LAST_WORDS_MAX, Timer::LastWords(key));
                None
            }
            None => Some(status),
        }
    }

    /// Nothing more is heard of a process; its end, if it is to be told now.
    pub fn on_silent(&mut self, process: ProcessId) -> Option<ExitStatus> {
        let rank = self.ranks.get_mut(&process)?;
        rank.is_silent = true;
        rank.ended.take()
    }

    /// Lets go of a process that ended and was read to its end; the keeper may, too.
    pub fn forget(&mut self, process: ProcessId, out: &mut Outbox) {
        if self.ranks.remove(&process).is_some() {
            let key = self.key(process);
            out.rank(RankEffect::Forget { key });
            out.keeper(DaemonToKeeper::Forget { key });
        }
    }

    /// Lets go of all processes: the job is over here.
    pub fn forget_all(self, out: &mut Outbox) {
        out.rank(RankEffect::ForgetJob { job: self.job });
        for process in self.ranks.keys() {
            let key = self.key(*process);
            out.keeper(DaemonToKeeper::Forget { key });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::outbox::Effect;
    use pcm_proto::ids::NodeName;

    const KEY: ProcessKey = ProcessKey {
        job: JobId(1),
        process: ProcessId(0),
    };
    const DONE: ExitStatus = ExitStatus::Code(0);

    fn ranks() -> (LocalRanks, Outbox) {
        let mut ranks = LocalRanks::new(KEY.job);
        let attached = Attached {
            key: KEY,
            pid: 7,
            is_starting: true,
            is_asking: true,
            has_stdin: false,
        };
        ranks.on_attached(attached, Moment(5));
        (ranks, Outbox::new(NodeName::new("n0").unwrap(), Moment(0)))
    }

    #[test]
    fn the_end_of_a_process_is_told_after_its_last_words() {
        let (mut ranks, mut out) = ranks();
        assert_eq!(ranks.on_exited(KEY.process, DONE, &mut out), None);
        let effects = out.take();
        assert!(
            matches!(
                &effects[..],
                [Effect::Arm {
                    timer: Timer::LastWords(KEY),
                    ..
                }]
            ),
            "{effects:?}"
        );
        assert_eq!(ranks.on_silent(KEY.process), Some(DONE));
        assert_eq!(ranks.on_silent(KEY.process), None, "told once");
    }

    #[test]
    fn the_end_of_a_process_that_closed_its_channel_is_told_at_once() {
        let (mut ranks, mut out) = ranks();
        assert_eq!(ranks.on_silent(KEY.process), None);
        assert_eq!(ranks.on_exited(KEY.process, DONE, &mut out), Some(DONE));
        assert!(out.take().is_empty());
    }

    #[test]
    fn an_answer_is_recorded_only_if_its_request_was() {
        let (mut ranks, _) = ranks();
        ranks.on_request(KEY.process, &Request::Maxes);
        assert!(!ranks.is_answer_recorded(KEY.process));
        ranks.on_request(KEY.process, &Request::BarrierIn);
        assert!(ranks.is_answer_recorded(KEY.process));
    }

    #[test]
    fn the_driver_and_the_keeper_let_go_of_a_process_together_and_once() {
        let (mut ranks, mut out) = ranks();
        ranks.forget(KEY.process, &mut out);
        ranks.forget(KEY.process, &mut out);
        let effects = out.take();
        assert!(
            matches!(
                &effects[..],
                [
                    Effect::Rank(RankEffect::Forget { key: KEY }),
                    Effect::Keeper(DaemonToKeeper::Forget { key: KEY })
                ]
            ),
            "{effects:?}"
        );
        assert!(!ranks.contains(KEY.process));
    }

    #[test]
    fn a_process_taken_over_after_a_restart_keeps_its_id_and_its_open_request() {
        let (mut ranks, _) = ranks();
        let again = Attached {
            key: KEY,
            pid: 8,
            is_starting: false,
            is_asking: false,
            has_stdin: false,
        };
        ranks.on_attached(again, Moment(9));
        assert_eq!(ranks.pid(KEY.process), Some(7));
        assert_eq!(ranks.asking(), BTreeSet::from([KEY.process]));
        assert_eq!(ranks.starting_since(KEY.process), Some(Moment(5)));
        ranks.on_initialized(KEY.process);
        assert_eq!(ranks.starting_since(KEY.process), None);
    }
}
