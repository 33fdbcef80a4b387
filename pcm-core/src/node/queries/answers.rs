//! Questions of this daemon to others, and of others to it: hands them to [`crate::node::queries`], and what comes
//! of them to the part that asked.

use crate::node::machine::Node;
use crate::node::outbox::Effect;
use crate::node::program_requests;
use crate::node::queries::{ANSWER_WITHIN, Asker, DrainStep, Outcome, Wanted};
use crate::node::ranks::pages::PageQuestion;
use crate::node::requester::Requester;
use pcm_proto::control::{DaemonToControl, Refusal};
use pcm_proto::event::Event;
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::job::JobSpec;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::peer::{Answer, DaemonToDaemon, Question};
use pcm_proto::refusal;
use std::time::Duration;

impl Node {
    pub(in crate::node) fn ask(&mut self, node: &NodeName, question: Question, asker: Asker, within: Duration) {
        self.queries.ask(node, question, asker, within, &mut self.out);
    }

    pub(in crate::node) fn ask_for_run(&mut self, numbering: &NodeName, from: Requester, spec: JobSpec) {
        let spec = Box::new(spec);
        self.ask(
            numbering,
            Question::JobNumber,
            Asker::Number { from, spec },
            ANSWER_WITHIN,
        );
    }

    /// The node itself and all others that are there.
    pub(in crate::node) fn all_nodes(&self) -> Vec<NodeName> {
        let mut nodes = self.nodes.reachable();
        nodes.push(self.own.clone());
        nodes
    }

    pub(in crate::node) fn on_question(&mut self, node: &NodeName, ask: u64, question: Question) {
        let from = Requester::Peer {
            node: node.clone(),
            ask,
        };
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
            Question::JobsNamed { name } => {
                let mut jobs = self.own_jobs();
                jobs.retain(|job| job.name == name);
                Answer::Jobs(jobs)
            }
            Question::Events { job, since_us } => {
                let node = node.clone();
                return self.out.push(Effect::ReadEvents {
                    node,
                    ask,
                    job,
                    since_us,
                });
            }
            Question::Control(request) => return self.on_local_request(from, *request),
            Question::EndJobs => return self.on_end_jobs(from),
            Question::Quit => {
                self.send_answer(node, ask, Answer::Done);
                return self.quit();
            }
            Question::Ranks { job } => return self.read_pages(node, ask, PageQuestion::Ranks { job }),
            Question::Begun { job } => return self.read_pages(node, ask, PageQuestion::Begun { job }),
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
        };
        self.send_answer(node, ask, answer);
    }

    pub(in crate::node) fn on_events_read(&mut self, node: &NodeName, ask: u64, events: Vec<Event>) {
        self.send_answer(node, ask, Answer::Events(events));
    }

    fn send_answer(&mut self, node: &NodeName, ask: u64, answer: Answer) {
        let answer = Box::new(answer);
        self.send(node, DaemonToDaemon::Answer { ask, answer });
    }

    /// What came of a question.
    pub(in crate::node) fn on_outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Report(report) => self.on_report(*report),
            Outcome::Gathered { from, wanted } => self.on_gathered(from, wanted),
            Outcome::Answered {
                asker,
                node,
                answer,
                took,
            } => self.on_answered(asker, &node, answer, took),
        }
    }

    fn on_answered(&mut self, asker: Asker, node: &NodeName, answer: Option<Answer>, took: Duration) {
        match (asker, answer) {
            (Asker::Number { from, spec }, Some(Answer::JobNumber(job))) => {
                self.heard_of(job);
                self.accept(from, *spec, job);
            }
            (Asker::Number { from, spec }, _) => self.on_no_number(from, node, *spec),
            (Asker::Drain { job, step }, answer) => {
                let answer = match answer {
                    Some(Answer::Control(answer)) => Some(*answer),
                    _ => None,
                };
                match step {
                    DrainStep::Leave => self.on_drain_answer(job, answer),
                    DrainStep::Checkpoint => self.on_drain_checkpoint(job, answer),
                    DrainStep::Files => self.on_drain_files(job, answer),
                }
            }
            (Asker::Program { job }, answer) => program_requests::on_answer(job, answer),
            (Asker::Links, Some(Answer::Pong { .. })) => self.measure_answer(node, took),
            (Asker::Links, _) => {}
        }
    }

    /// The numbers of that node are behind ours, or it is about to be found dead; then the next one takes over.
    fn on_no_number(&mut self, from: Requester, node: &NodeName, spec: JobSpec) {
        if self.nodes.numbering() != node {
            return self.on_run(from, spec);
        }
        let message = format!("node {node}, which numbers the jobs, does not answer: try again in a few seconds");
        self.answer(
            from,
            DaemonToControl::Refused(Refusal::new(refusal::NODE_UNREACHABLE, message)),
        );
    }

    fn on_gathered(&mut self, from: Requester, wanted: Wanted) {
        match wanted {
            Wanted::Nodes => {
                self.report();
                let statuses = self.node_statuses();
                self.answer(from, DaemonToControl::Nodes(statuses));
            }
            Wanted::Ranks { status, ranks } => self.answer_ps(from, *status, ranks),
            Wanted::Look { status, ranks } => self.answer_looks(from, *status, ranks),
            Wanted::Sample { job, ranks } => self.on_sampled(job, &ranks),
            Wanted::Traffic { job, ranks } => self.series.set_traffic(job, &ranks),
            Wanted::Begun { asked, begun } => self.on_begun_known(from, &asked, &begun),
            Wanted::Events { events, follower } => self.controls.answer_events(from, events, follower, &mut self.out),
            Wanted::Knowing { job } => self.refuse_unknown_job(from, job),
            Wanted::JobsEnded => self.on_jobs_ended_everywhere(from),
            Wanted::Quitting => self.on_others_quit(from),
            // Answered where they are gathered.
            Wanted::Jobs(_) | Wanted::Trace(_) => {}
        }
    }

    /// A rank requests another number of ranks for its job.
    pub(in crate::node) fn on_program_request(&mut self, key: ProcessKey, ranks: u32) {
        let job = key.job;
        let Some(part) = self.jobs.part(job) else { return };
        let layout = self.jobs.get(job).and_then(|known| known.machine.layout());
        let size = layout.map_or(0, |layout| layout.size() as u32);
        let coordinator = part.coordinator().clone();
        if let Some(request) = program_requests::request(job, ranks, size) {
            let question = Question::Control(Box::new(request));
            self.ask(
                &coordinator,
                question,
                Asker::Program { job },
                program_requests::REQUEST_WITHIN,
            );
        }
    }
}
