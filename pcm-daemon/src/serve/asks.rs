//! Questions to other daemons, each with a deadline, and gatherings of answers from many. Also the few messages that
//! came before what they are about.

use super::daemon::Daemon;
use super::gather::Gather;
use pcm_core::node::ranks::pages::PageQuestion;
use pcm_core::node::requester::Requester;
use pcm_core::node::timer::Timer;
use pcm_proto::control::{ControlToDaemon, DaemonToControl, Refusal};
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::job::JobSpec;
use pcm_proto::peer::{Answer, DaemonToDaemon, JobMessage, Question};
use pcm_proto::refusal;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A daemon that does not answer within this time is not waited for.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Messages kept for jobs whose order to start is still on its way, and jobs they are kept for.
const EARLY_MAX: usize = 4096;
const EARLY_JOBS_MAX: usize = 64;

/// Why something was asked.
pub(super) enum Purpose {
    /// Somebody wants a node pinged.
    Ping { from: Requester, since: Instant },
    /// A job waits for its number.
    Run { from: Requester, spec: Box<JobSpec> },
    /// Somebody's request is for that node.
    Forward { from: Requester },
    /// A job is to leave this node.
    Drain { job: JobId },
    /// A job is to make a checkpoint before it leaves this node.
    DrainCheckpoint { job: JobId },
    /// A job that cannot leave this node is to write one into files.
    DrainFiles { job: JobId },
    /// A program wants another number of ranks.
    Wish { job: JobId },
    /// Nothing but how long it takes.
    Measure { since: Instant },
    /// One of many answers.
    Gather(u64),
}

struct Ask {
    node: NodeName,
    purpose: Purpose,
}

/// Questions without an answer so far.
#[derive(Default)]
pub(super) struct Asks {
    open: BTreeMap<u64, Ask>,
    pub(super) gathers: BTreeMap<u64, Gather>,
    count: u64,
    early: BTreeMap<JobId, Vec<(NodeName, JobMessage)>>,
}

impl Asks {
    pub(super) fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Keeps a message until the job's order to start is here.
    pub(super) fn keep_early(&mut self, job: JobId, node: NodeName, message: JobMessage) {
        if self.early.len() >= EARLY_JOBS_MAX && !self.early.contains_key(&job) {
            self.early.pop_first();
        }
        let kept = self.early.entry(job).or_default();
        if kept.len() < EARLY_MAX {
            kept.push((node, message));
        }
    }

    pub(super) fn take_early(&mut self, job: JobId) -> Vec<(NodeName, JobMessage)> {
        self.early.remove(&job).unwrap_or_default()
    }
}

impl Daemon {
    pub(super) fn ask(&mut self, node: &NodeName, question: Question, purpose: Purpose, within: Duration) {
        let ask = self.asks.next_number();
        self.asks.open.insert(
            ask,
            Ask {
                node: node.clone(),
                purpose,
            },
        );
        self.out.arm(within, Timer::Ask(ask));
        self.send(
            node,
            DaemonToDaemon::Ask {
                ask,
                question: Box::new(question),
            },
        );
    }

    pub(super) fn ask_for_run(&mut self, numbering: &NodeName, from: Requester, spec: JobSpec) {
        let purpose = Purpose::Run {
            from,
            spec: Box::new(spec),
        };
        self.ask(numbering, Question::JobNumber, purpose, ANSWER_WITHIN);
    }

    /// Passes a request on to the node it is for.
    pub(super) fn forward(&mut self, from: Requester, node: &NodeName, request: ControlToDaemon, within: Duration) {
        let question = Question::Control(Box::new(request));
        self.ask(node, question, Purpose::Forward { from }, within);
    }

    pub(super) fn on_question(&mut self, node: &NodeName, ask: u64, question: Question) {
        let answer = match question {
            Question::Ping => Answer::Pong {
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            Question::Report => Answer::Report(Box::new(self.report())),
            Question::JobNumber => {
                let job = JobId(self.highest_job.0 + 1);
                self.heard_of(job);
                Answer::JobNumber(job)
            }
            Question::Jobs => Answer::Jobs(self.own_jobs()),
            Question::Ranks { job } => return self.read_pages(node, ask, PageQuestion::Ranks { job }),
            Question::Look { job } => return self.read_pages(node, ask, PageQuestion::Looks { job }),
            Question::Trace {
                job,
                after,
                is_last,
                entries_max,
            } => {
                let question = PageQuestion::Traces {
                    job,
                    after,
                    is_last,
                    entries_max,
                    now: self.out.now(),
                };
                return self.read_pages(node, ask, question);
            }
            Question::Events { job, since_us } => Answer::Events(self.log.after(since_us, job)),
            Question::Control(request) => {
                let from = Requester::Peer {
                    node: node.clone(),
                    ask,
                };
                return self.on_local_request(from, *request);
            }
            Question::EndJobs => {
                return self.on_end_jobs(Requester::Peer {
                    node: node.clone(),
                    ask,
                });
            }
            Question::Quit => {
                self.send(
                    node,
                    DaemonToDaemon::Answer {
                        ask,
                        answer: Box::new(Answer::Done),
                    },
                );
                return self.quit();
            }
        };
        self.send(
            node,
            DaemonToDaemon::Answer {
                ask,
                answer: Box::new(answer),
            },
        );
    }

    pub(super) fn on_answer(&mut self, node: &NodeName, ask: u64, answer: Answer) {
        match self.asks.open.get(&ask) {
            Some(open) if open.node == *node => {}
            _ => return,
        }
        let Some(Ask { purpose, .. }) = self.asks.open.remove(&ask) else {
            return;
        };
        match (purpose, answer) {
            (Purpose::Ping { from, since }, Answer::Pong { version }) => {
                let round_trip_us = since.elapsed().as_micros() as u64;
                self.answer(
                    from,
                    DaemonToControl::Pong {
                        node: node.clone(),
                        round_trip_us,
                        version,
                    },
                );
            }
            (Purpose::Measure { since }, Answer::Pong { .. }) => self.measure_answer(node, since),
            (Purpose::Run { from, spec }, Answer::JobNumber(job)) => {
                self.heard_of(job);
                self.accept(from, *spec, job);
            }
            (Purpose::Forward { from }, Answer::Control(answer)) => self.answer(from, *answer),
            (Purpose::Drain { job }, Answer::Control(answer)) => self.on_drain_answer(job, Some(*answer)),
            (Purpose::DrainCheckpoint { job }, Answer::Control(answer)) => {
                self.on_drain_checkpoint(job, Some(*answer));
            }
            (Purpose::DrainFiles { job }, Answer::Control(answer)) => self.on_drain_files(job, Some(*answer)),
            (Purpose::Wish { job }, Answer::Control(answer)) => Self::on_wish_answer(job, Some(*answer)),
            (Purpose::Gather(gather), answer) => self.on_gathered(gather, node, Some(answer)),
            (purpose, _) => self.on_no_answer(node, purpose),
        }
    }

    pub(super) fn on_ask_timer(&mut self, ask: u64) {
        if let Some(Ask { node, purpose }) = self.asks.open.remove(&ask) {
            self.on_no_answer(&node, purpose);
        }
    }

    /// A node is gone: nobody waits for its answers any longer.
    pub(super) fn on_asked_node_gone(&mut self, node: &NodeName) {
        let of_node = self.asks.open.iter().filter(|(_, open)| open.node == *node);
        for ask in of_node.map(|(ask, _)| *ask).collect::<Vec<_>>() {
            self.on_ask_timer(ask);
        }
    }

    fn on_no_answer(&mut self, node: &NodeName, purpose: Purpose) {
        let refuse = |message: String| DaemonToControl::Refused(Refusal::new(refusal::NODE_UNREACHABLE, message));
        match purpose {
            Purpose::Ping { from, .. } | Purpose::Forward { from } => {
                let message = format!("node {node} did not answer in time: see `pcmctl nodes` and its daemon's log");
                self.answer(from, refuse(message));
            }
            Purpose::Run { from, spec } => {
                // Its numbers are behind ours, or it is about to be found dead; the next one takes over.
                let after = self.nodes.numbering().clone();
                if after == *node {
                    let message =
                        format!("node {node}, which numbers the jobs, does not answer: try again in a few seconds");
                    self.answer(from, refuse(message));
                } else {
                    self.on_run(from, *spec);
                }
            }
            Purpose::Drain { job } => self.on_drain_answer(job, None),
            Purpose::DrainCheckpoint { job } => self.on_drain_checkpoint(job, None),
            Purpose::DrainFiles { job } => self.on_drain_files(job, None),
            Purpose::Wish { job } => Self::on_wish_answer(job, None),
            Purpose::Measure { .. } => {}
            Purpose::Gather(gather) => self.on_gathered(gather, node, None),
        }
    }
}
