//! Notices jobs that hang. When a job makes no progress for longer than it ever did, the calls and stacks of its ranks
//! are looked at twice, and an event says which ranks cannot continue, and where they are. Never asks a node: the desk
//! does.

use crate::moment::Moment;
use crate::stacks::verdict;
use crate::stuck::{self, rank_list};
use pcm_proto::event::EventKind;
use pcm_proto::ids::{JobId, ProcessId};
use pcm_proto::job::RankStatus;
use pcm_proto::rank_snapshot::RankLook;
use pcm_proto::stack::RankStack;
use std::collections::BTreeMap;
use std::time::Duration;

/// Without progress for less than this no job is looked at.
const SILENCE_MIN: Duration = Duration::from_secs(30);

/// A job that pauses is looked at when it has been silent for so many times its longest pause.
const PAUSES: u32 = 4;

/// Looks at the calls and stacks; one alone does not show whether ranks go on.
const LOOKS: usize = 2;

/// So many times a hang is looked at whose stacks are not all read. A program's lines are on a disk, and an answer has
/// a second.
const READINGS_MAX: usize = 3;

/// Most sentences of an event; the first are the causes.
const LINES_MAX: usize = 12;

/// The jobs that are led here.
#[derive(Debug, Default)]
pub struct HangWatch(BTreeMap<JobId, Watched>);

/// What a rank has done: iterations begun, bytes sent and received.
type Done = BTreeMap<ProcessId, (u64, u64, u64)>;

#[derive(Debug)]
struct Watched {
    done: Done,
    moved: Moment,
    longest_pause: Duration,
    /// Looks that were begun. Answers come in order, and to those only.
    begun: usize,
    looks: Vec<Vec<RankLook>>,
    stacks: Vec<Vec<RankStack>>,
    /// Times it was looked at while it has been silent.
    readings: usize,
    /// When it was looked at for nothing, or its hang was told.
    judged: Option<Moment>,
    is_told: bool,
}

impl Watched {
    fn new(done: Done, now: Moment) -> Self {
        Self {
            done,
            moved: now,
            longest_pause: Duration::ZERO,
            begun: 0,
            looks: Vec::new(),
            stacks: Vec::new(),
            readings: 0,
            judged: None,
            is_told: false,
        }
    }

    fn patience(&self) -> Duration {
        SILENCE_MIN.max(self.longest_pause * PAUSES)
    }

    fn forget_looks(&mut self) {
        self.begun = 0;
        self.looks.clear();
        self.stacks.clear();
    }
}

impl HangWatch {
    /// A sample of a job's ranks was taken, which `size` ranks should be in; whether they are to be looked at.
    pub fn on_sample(&mut self, now: Moment, job: JobId, size: u32, ranks: &[RankStatus]) -> bool {
        let done = ranks.iter().map(|rank| {
            let counts = (rank.iteration.0, rank.sent.0, rank.received.0);
            (rank.process, counts)
        });
        let done: Done = done.collect();
        let Some(watched) = self.0.get_mut(&job) else {
            self.0.insert(job, Watched::new(done, now));
            return false;
        };
        // A rank that is not seen may have moved.
        let is_seen = done.len() == size as usize;
        if !is_seen || done != watched.done {
            let pause = now.since(watched.moved);
            if is_seen && watched.done.len() == done.len() {
                watched.longest_pause = watched.longest_pause.max(pause);
            }
            (watched.done, watched.moved, watched.judged, watched.is_told) = (done, now, None, false);
            watched.readings = 0;
            watched.forget_looks();
            return false;
        }
        let since = watched.judged.unwrap_or(watched.moved);
        let is_due = !watched.is_told && now.since(since) >= watched.patience();
        // The second look comes with the next sample for which all answers to the first are there.
        let is_answered = watched.looks.len() == watched.begun && watched.stacks.len() == watched.begun;
        let begins = is_due && is_answered && watched.begun < LOOKS;
        watched.begun += usize::from(begins);
        begins
    }

    /// The calls of the job's ranks.
    pub fn on_looks(&mut self, now: Moment, job: JobId, looks: Vec<RankLook>) -> Option<EventKind> {
        let watched = self.0.get_mut(&job)?;
        if watched.looks.len() < watched.begun {
            watched.looks.push(looks);
        }
        watched.judge(now)
    }

    /// Where the job's ranks are.
    pub fn on_stacks(&mut self, now: Moment, job: JobId, stacks: Vec<RankStack>) -> Option<EventKind> {
        let watched = self.0.get_mut(&job)?;
        if watched.stacks.len() < watched.begun {
            watched.stacks.push(stacks);
        }
        watched.judge(now)
    }

    /// Jobs that are not led here any more are forgotten.
    pub fn keep(&mut self, is_led: impl Fn(JobId) -> bool) {
        self.0.retain(|job, _| is_led(*job));
    }
}

impl Watched {
    /// The hang, when both looks are there and show one.
    fn judge(&mut self, now: Moment) -> Option<EventKind> {
        let (looks, stacks) = match (&self.looks[..], &self.stacks[..]) {
            ([first, second], [at_first, at_second]) => ([first, second], [at_first, at_second]),
            _ => return None,
        };
        let report = stuck::judge(looks[0], looks[1]);
        let places = verdict(&report, looks[1], stacks[0], stacks[1]);
        let is_read = stacks.into_iter().flatten().all(|rank| rank.stack.is_read());
        self.forget_looks();
        self.readings += 1;
        if !report.stuck.is_empty() && !is_read && self.readings < READINGS_MAX {
            return None;
        }
        self.judged = Some(now);
        if report.stuck.is_empty() {
            return None;
        }
        self.is_told = true;
        let found = report.findings.into_iter().map(|finding| finding.text);
        Some(EventKind::Hangs {
            silent_s: now.since(self.moved).as_secs(),
            ranks: rank_list(&report.stuck),
            lines: found.chain(places).take(LINES_MAX).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::queries::rank_rows::unseen;
    use pcm_proto::ids::{Bytes, Iteration, NodeName, Rank};
    use pcm_proto::rank_snapshot::{CallLook, Stage};
    use pcm_proto::stack::ProcessStack;

    const JOB: JobId = JobId(3);

    fn node() -> NodeName {
        NodeName::new("n0").unwrap()
    }

    /// Two ranks at an iteration, as of a sample.
    fn sampled(iteration: u64) -> Vec<RankStatus> {
        let row = |rank| RankStatus {
            iteration: Iteration(iteration),
            ..unseen(Rank(rank), ProcessId(rank), node(), 1)
        };
        vec![row(0), row(1)]
    }

    /// Two ranks, each in a receive from the other, or one of them outside of MPI.
    fn looks(is_one_free: bool) -> Vec<RankLook> {
        let look = |rank: u32| RankLook {
            rank: Rank(rank),
            process: ProcessId(rank),
            node: node(),
            stage: Stage::Running,
            calls: 9,
            call: (rank == 0 || !is_one_free).then(|| CallLook {
                function: "Recv".to_owned(),
                peer: Some(1 - rank as i32),
                tag: Some(7),
                bytes: Bytes(8),
                communicator: 1,
                since_ms: 30_000.0,
            }),
            collectives: Vec::new(),
            sends: Vec::new(),
            communicators: Vec::new(),
            from_anybody: 0,
            peers: Vec::new(),
            peers_left_out: 0,
            apart: Vec::new(),
            apart_left_out: 0,
        };
        vec![look(0), look(1)]
    }

    fn at(second: u64) -> Moment {
        Moment(second * 1_000_000)
    }

    /// The answers to a look.
    fn answer(watch: &mut HangWatch, second: u64, is_one_free: bool) -> Option<EventKind> {
        let early = watch.on_stacks(at(second), JOB, Vec::new());
        assert_eq!(early, None, "the calls are missing");
        watch.on_looks(at(second), JOB, looks(is_one_free))
    }

    #[test]
    fn a_hang_is_told_once_after_two_looks_and_again_after_the_next_silence() {
        let mut watch = HangWatch::default();
        for begun in [0, 100] {
            let sample = sampled(begun);
            let due = |watch: &mut HangWatch, second| watch.on_sample(at(begun + second), JOB, 2, &sample);
            assert!(!due(&mut watch, 0) && !due(&mut watch, 29));
            assert!(
                due(&mut watch, 30) || begun > 0,
                "half a minute is long for a job that never paused"
            );
            let late = if begun > 0 { 399 } else { 30 };
            if begun > 0 {
                assert!(!due(&mut watch, late), "it paused for 100 s before");
                assert!(due(&mut watch, late + 1));
            }
            assert_eq!(answer(&mut watch, begun + late, false), None);
            assert!(due(&mut watch, late + 2));
            let told = answer(&mut watch, begun + late + 2, false);
            let Some(EventKind::Hangs { silent_s, ranks, lines }) = told else {
                panic!("{told:?}");
            };
            assert_eq!((silent_s, ranks.as_str()), (late + 2, "ranks 0, 1"));
            assert!(lines[0].contains("Recv"), "{lines:?}");
            assert!(
                !due(&mut watch, late + 3) && !due(&mut watch, late + 2000),
                "no event twice"
            );
        }
    }

    #[test]
    fn a_hang_whose_stacks_are_not_read_is_looked_at_three_times_before_it_is_told() {
        let unread = || {
            let stack = RankStack {
                rank: Rank(0),
                process: ProcessId(0),
                node: node(),
                stack: ProcessStack::default(),
            };
            vec![stack]
        };
        for unread_looks in [1, 2, 6, 9] {
            let mut watch = HangWatch::default();
            watch.on_sample(at(0), JOB, 2, &sampled(1));
            let told = (0..9).find(|look| {
                assert!(watch.on_sample(at(30 + look), JOB, 2, &sampled(1)), "look {look}");
                let stacks = if *look < unread_looks { unread() } else { Vec::new() };
                assert_eq!(watch.on_stacks(at(30 + look), JOB, stacks), None);
                watch.on_looks(at(30 + look), JOB, looks(false)).is_some()
            });
            let expected = if unread_looks <= 2 { 3 } else { 5 };
            assert_eq!(told, Some(expected), "{unread_looks} looks without stacks");
        }
    }

    #[test]
    fn ranks_that_wait_for_one_that_computes_are_looked_at_again_later_and_not_told() {
        let mut watch = HangWatch::default();
        let sample = sampled(1);
        for second in [0, 30] {
            watch.on_sample(at(second), JOB, 2, &sample);
        }
        assert_eq!(answer(&mut watch, 30, true), None);
        assert!(watch.on_sample(at(31), JOB, 2, &sample));
        assert_eq!(answer(&mut watch, 31, true), None);
        assert!(!watch.on_sample(at(60), JOB, 2, &sample));
        assert!(watch.on_sample(at(61), JOB, 2, &sample));
    }

    #[test]
    fn progress_between_the_looks_and_ranks_that_are_not_seen_excuse_a_job() {
        let mut watch = HangWatch::default();
        watch.on_sample(at(0), JOB, 2, &sampled(1));
        assert!(watch.on_sample(at(30), JOB, 2, &sampled(1)));
        assert!(!watch.on_sample(at(31), JOB, 2, &sampled(1)), "it is not answered");
        assert_eq!(answer(&mut watch, 31, false), None);
        assert!(watch.on_sample(at(31), JOB, 2, &sampled(1)));
        assert!(!watch.on_sample(at(31), JOB, 2, &sampled(2)));
        assert_eq!(
            answer(&mut watch, 31, false),
            None,
            "the first look does not count any more"
        );
        assert!(!watch.on_sample(at(90), JOB, 2, &sampled(2)[..1]));
        watch.keep(|_| false);
        assert_eq!(watch.on_looks(at(91), JOB, looks(false)), None);
    }
}
