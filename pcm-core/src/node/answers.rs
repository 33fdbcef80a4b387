//! Questions of this daemon to others, and of others to it: hands them to [`crate::node::queries`], and what comes
//! of them to the part that asked.

use crate::node::machine::Node;
use crate::node::outbox::{Effect, StacksWanted};
use crate::node::program_requests;
use crate::node::queries::{Asker, DrainStep, Outcome, Wanted};
use crate::node::ranks::pages::{PageQuestion, Pages, Reader};
use crate::node::requester::Requester;
use pcm_proto::checkpoint::CheckpointMessage;
use pcm_proto::control::DaemonToControl;
use pcm_proto::event::Event;
use pcm_proto::ids::{Epoch, NodeName};
use pcm_proto::peer::{Answer, DaemonToDaemon, JobMessage, Question};
use pcm_proto::stack::RankStack;
use std::time::Duration;

impl Node {
    pub(in crate::node) fn on_question(&mut self, node: &NodeName, ask: u64, question: Question) {
        let from = Requester::Peer {
            node: node.clone(),
            ask,
        };
        let answer = match question {
            Question::Ping => Answer::Pong {
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            Question::Report => {
                self.update_report();
                Answer::Report(Box::new(self.cluster.nodes().own().clone()))
            }
            Question::JobNumber => Answer::JobNumber(self.with_jobs(|jobs, cx| jobs.number_for_other(cx))),
            Question::Jobs => Answer::Jobs(self.jobs.statuses(self.out.now().0)),
            Question::JobsNamed { name } => {
                let mut jobs = self.jobs.statuses(self.out.now().0);
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
            Question::EndJobs => return self.with_ending(|ending, jobs, cx| ending.on_end_jobs(from, jobs, cx)),
            Question::Quit => {
                self.send_answer(node, ask, Answer::Done);
                return self.ending.quit();
            }
            Question::Ranks { job } => return self.read_pages(node, ask, PageQuestion::Ranks { job }),
            Question::Begun { job } => return self.read_pages(node, ask, PageQuestion::Begun { job }),
            Question::Look { job } => return self.read_pages(node, ask, PageQuestion::Looks { job }),
            Question::Stacks { job, process } => {
                let node = node.clone();
                return self.out.push(Effect::ReadStacks(StacksWanted {
                    node,
                    ask,
                    job,
                    process,
                }));
            }
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

    pub(in crate::node) fn on_stacks_read(&mut self, node: &NodeName, ask: u64, stacks: Vec<RankStack>) {
        self.send_answer(node, ask, Answer::Stacks(stacks));
    }

    fn send_answer(&mut self, node: &NodeName, ask: u64, answer: Answer) {
        let answer = Box::new(answer);
        self.out.send(node, DaemonToDaemon::Answer { ask, answer });
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
            (Asker::Number { from, spec, .. }, Some(Answer::JobNumber(Some(job)))) => self.with_jobs(|jobs, cx| {
                jobs.heard_of(job, cx);
                jobs.accept(from, *spec, job, cx);
            }),
            (Asker::Number { from, spec, until }, _) => {
                self.with_jobs(|jobs, cx| jobs.wait_for_number(from, *spec, until, cx));
            }
            (Asker::Drain { job, step }, answer) => {
                let answer = match answer {
                    Some(Answer::Control(answer)) => Some(*answer),
                    _ => None,
                };
                self.with_ending(|ending, jobs, cx| match step {
                    DrainStep::Leave => ending.on_drain_answer(job, answer, jobs, cx),
                    DrainStep::Checkpoint => ending.on_drain_checkpoint(job, answer, jobs, cx),
                    DrainStep::Files => ending.on_drain_files(job, answer, jobs, cx),
                });
            }
            (Asker::Farewell, _) => self.with_ending(|ending, _, cx| ending.on_farewell_heard(cx)),
            (Asker::Program { job }, answer) => {
                if let Some(refused) = program_requests::on_answer(answer) {
                    self.with_jobs(|_, cx| cx.note(Some(job), Epoch::default(), refused));
                }
            }
            (Asker::Links, Some(Answer::Pong { .. })) => {
                let now = self.out.now();
                self.cluster.measure_answer(now, node, took);
            }
            (Asker::Links, _) => {}
        }
    }

    fn on_gathered(&mut self, from: Requester, wanted: Wanted) {
        match wanted {
            Wanted::Nodes => {
                self.update_report();
                let statuses = self.cluster.statuses(self.out.now());
                self.out.answer(from, DaemonToControl::Nodes(statuses));
            }
            Wanted::Ranks { status, ranks } => {
                self.with_desk(|desk, jobs, cx| desk.answer_ps(from, *status, ranks, (jobs, cx)));
            }
            Wanted::Look { status, ranks } => {
                self.with_desk(|desk, jobs, cx| desk.answer_looks(from, *status, ranks, (jobs, cx)));
            }
            Wanted::Stacks { status, rank, stacks } => {
                self.with_desk(|desk, jobs, cx| desk.answer_stacks(from, (*status, rank), stacks, (jobs, cx)));
            }
            Wanted::Sample { job, ranks } => {
                self.with_desk(|desk, jobs, cx| desk.on_sampled(job, &ranks, (jobs, cx)));
            }
            Wanted::HangLook { job, ranks } => {
                let hang = self.desk.on_hang_look(job, ranks, &self.jobs, self.out.now());
                self.with_jobs(|jobs, cx| jobs.note_hang(job, hang, cx));
            }
            Wanted::HangStacks { job, stacks } => {
                let hang = self.desk.on_hang_stacks(job, stacks, &self.jobs, self.out.now());
                self.with_jobs(|jobs, cx| jobs.note_hang(job, hang, cx));
            }
            Wanted::Traffic { job, ranks } => self.desk.on_traffic(job, &ranks),
            Wanted::Begun { asked, begun } => self.with_jobs(|jobs, cx| jobs.on_begun_known(from, &asked, &begun, cx)),
            Wanted::Events { events, follower } => {
                self.desk.controls.answer_events(from, events, follower, &mut self.out);
            }
            Wanted::Knowing { job } => self.with_jobs(|jobs, cx| jobs.refuse_unknown(from, job, cx)),
            Wanted::JobsEnded => self.with_ending(|ending, _, cx| ending.on_jobs_ended_everywhere(from, cx)),
            Wanted::Quitting => {
                self.out.answer(from, DaemonToControl::Done);
                self.ending.quit();
            }
            // Answered where they are gathered.
            Wanted::Jobs(_) | Wanted::Trace(_) => {}
        }
    }

    /// Another daemon, or this one, wants to know what the pages show.
    fn read_pages(&mut self, node: &NodeName, ask: u64, question: PageQuestion) {
        let node = node.clone();
        let reader = Reader::Node { node, ask };
        self.desk.pages.ask(reader, question, &mut self.out);
    }

    pub(in crate::node) fn on_pages_read(&mut self, number: u64, pages: Pages) {
        let Some(reader) = self.desk.pages.on_read(number) else {
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
                    let message = Box::new(CheckpointMessage::Reached { iteration });
                    self.out.send_job(&node, job, JobMessage::Checkpoint(message));
                }
                return;
            }
            (reader, _) => return tracing::error!(?reader, "pages were read that were not asked for"),
        };
        self.send_answer(&node, ask, answer);
    }
}
