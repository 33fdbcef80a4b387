//! Questions of this daemon to others, and of others to it: hands them to [`crate::node::queries`], and what comes
//! of them to the part that asked.

use crate::node::desk::machine::answer_question;
use crate::node::machine::Node;
use crate::node::program_requests;
use crate::node::queries::{Asker, DrainStep, Outcome, Wanted};
use crate::node::requester::Requester;
use pcm_proto::control::DaemonToControl;
use pcm_proto::ids::{Epoch, NodeName};
use pcm_proto::peer::{Answer, Question};
use std::time::Duration;

impl Node {
    pub(in crate::node) fn on_question(&mut self, node: &NodeName, ask: u64, question: Question) {
        let Some(question) = self.desk.read(node, ask, question, &mut self.out) else {
            return;
        };
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
            Question::JobNumber => Answer::JobNumber(self.with_jobs(|jobs, cx| jobs.numbering.for_other(cx))),
            Question::Jobs => Answer::Jobs(self.jobs.table.statuses(self.out.now().0)),
            Question::JobsNamed { name } => {
                let mut jobs = self.jobs.table.statuses(self.out.now().0);
                jobs.retain(|job| job.name == name);
                Answer::Jobs(jobs)
            }
            Question::Control(request) => return self.on_local_request(from, *request),
            Question::EndJobs => return self.with_ending(|ending, jobs, cx| ending.on_end_jobs(from, jobs, cx)),
            Question::Quit => {
                answer_question(node, ask, Answer::Done, &mut self.out);
                return self.ending.quit();
            }
            // Read by the desk.
            Question::Events { .. }
            | Question::Ranks { .. }
            | Question::Begun { .. }
            | Question::Look { .. }
            | Question::Stacks { .. }
            | Question::Trace { .. } => return,
        };
        answer_question(node, ask, answer, &mut self.out);
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
            (Asker::Number { from, spec, until }, answer) => {
                let job = match answer {
                    Some(Answer::JobNumber(job)) => job,
                    _ => None,
                };
                self.with_jobs(|jobs, cx| jobs.on_numbered((from, *spec, until), job, cx));
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
        let left = self.with_desk(|desk, jobs, cx| desk.on_gathered(from, wanted, jobs, cx));
        let Some((from, wanted)) = left else { return };
        match wanted {
            Wanted::Nodes => {
                self.update_report();
                let statuses = self.cluster.statuses(self.out.now());
                self.out.answer(from, DaemonToControl::Nodes(statuses));
            }
            Wanted::HangLook { job, ranks } => {
                let hang = self.with_desk(|desk, jobs, cx| desk.on_hang_look(job, ranks, jobs, cx.now()));
                self.with_jobs(|jobs, cx| jobs.table.note_hang(job, hang, cx));
            }
            Wanted::HangStacks { job, stacks } => {
                let hang = self.with_desk(|desk, jobs, cx| desk.on_hang_stacks(job, stacks, jobs, cx.now()));
                self.with_jobs(|jobs, cx| jobs.table.note_hang(job, hang, cx));
            }
            Wanted::Begun { asked, begun } => self.with_jobs(|jobs, cx| jobs.on_begun_known(from, &asked, &begun, cx)),
            Wanted::JobsEnded => self.with_ending(|ending, _, cx| ending.on_jobs_ended_everywhere(from, cx)),
            Wanted::Quitting => {
                self.out.answer(from, DaemonToControl::Done);
                self.ending.quit();
            }
            // Answered where they are gathered, or by the desk.
            Wanted::Jobs(_)
            | Wanted::Trace(_)
            | Wanted::Ranks { .. }
            | Wanted::Look { .. }
            | Wanted::Stacks { .. }
            | Wanted::Sample { .. }
            | Wanted::Traffic { .. }
            | Wanted::Events { .. }
            | Wanted::Knowing { .. } => {}
        }
    }
}
