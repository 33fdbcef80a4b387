//! Questions to other nodes, each with a deadline, and gatherings of answers from many: a gathering ends when all nodes
//! have answered or its deadline has passed. Never decides what an answer means: the part that asked does.

use super::asker::Asker;
use super::gathering::{Added, Gathering, Outcome, Wanted};
use crate::moment::{Moment, micros};
use crate::node::outbox::{Inward, Outbox};
use crate::node::requester::Requester;
use crate::node::timer::Timer;
use pcm_proto::control::{ControlToDaemon, DaemonToControl, Refusal};
use pcm_proto::ids::NodeName;
use pcm_proto::peer::{Answer, DaemonToDaemon, Question};
use pcm_proto::refusal;
use std::collections::BTreeMap;
use std::time::Duration;

/// A daemon that does not answer within this time is not waited for.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug)]
enum Purpose {
    /// `pcmctl` wants a node pinged.
    Ping { from: Requester },
    /// The request of `pcmctl` is for that node.
    Forward { from: Requester },
    /// One of many answers.
    Gather(u64),
    /// A part's own question.
    Part(Asker),
}

#[derive(Debug)]
struct Open {
    node: NodeName,
    asked: Moment,
    until: Moment,
    purpose: Purpose,
}

/// Questions of this node without an answer so far.
#[derive(Debug, Default)]
pub struct Queries {
    open: BTreeMap<u64, Open>,
    gatherings: BTreeMap<u64, Gathering>,
    /// The number of the last one.
    last: u64,
}

impl Queries {
    /// Asks a node for a part of this one; the answer comes back as [`Outcome::Answered`].
    pub fn ask(&mut self, node: &NodeName, question: Question, asker: Asker, within: Duration, out: &mut Outbox) {
        self.put(node, question, Purpose::Part(asker), within, out);
    }

    /// Measures the way to a node and back for `pcmctl`.
    pub fn ping(&mut self, from: Requester, node: &NodeName, out: &mut Outbox) {
        self.put(node, Question::Ping, Purpose::Ping { from }, ANSWER_WITHIN, out);
    }

    /// Passes a request on to the node that it is for.
    pub fn forward(
        &mut self,
        from: Requester,
        node: &NodeName,
        request: ControlToDaemon,
        within: Duration,
        out: &mut Outbox,
    ) {
        let question = Question::Control(Box::new(request));
        self.put(node, question, Purpose::Forward { from }, within, out);
    }

    fn put(&mut self, node: &NodeName, question: Question, purpose: Purpose, within: Duration, out: &mut Outbox) {
        let ask = self.next_number(out.now());
        let open = Open {
            node: node.clone(),
            asked: out.now(),
            until: out.now().plus(within),
            purpose,
        };
        self.open.insert(ask, open);
        out.arm(within, Timer::Ask(ask));
        let question = Box::new(question);
        out.send(node, DaemonToDaemon::Ask { ask, question });
    }

    /// A number that no daemon of this node has asked with before: an answer may be meant for one before this.
    fn next_number(&mut self, now: Moment) -> u64 {
        self.last = now.0.max(self.last + 1);
        self.last
    }

    /// Asks these nodes and gathers their answers.
    pub fn gather(
        &mut self,
        from: Requester,
        wanted: Wanted,
        question: &Question,
        nodes: &[NodeName],
        within: Duration,
        out: &mut Outbox,
    ) {
        let number = self.next_number(out.now());
        self.gatherings.insert(number, Gathering::new(from, wanted, nodes));
        for node in nodes {
            self.put(node, question.clone(), Purpose::Gather(number), within, out);
        }
        out.arm(within, Timer::Gather(number));
        self.end_if_complete(number, out);
    }

    /// A node answers. An answer to a question of another node, or after the deadline, is ignored.
    pub fn on_answer(&mut self, node: &NodeName, ask: u64, answer: Answer, out: &mut Outbox) {
        let is_open = self.open.get(&ask).is_some_and(|open| open.node == *node);
        if is_open && let Some(open) = self.open.remove(&ask) {
            let answer = (out.now() < open.until).then_some(answer);
            self.end(open, answer, out);
        }
    }

    /// The deadline of a question may have passed.
    pub fn on_ask_timer(&mut self, ask: u64, out: &mut Outbox) {
        if let Some(open) = self.open.remove(&ask) {
            self.end(open, None, out);
        }
    }

    /// A node is gone or out of reach: its answers are not waited for.
    pub fn on_node_gone(&mut self, node: &NodeName, out: &mut Outbox) {
        let of_node = self.open.iter().filter(|(_, open)| open.node == *node);
        for ask in of_node.map(|(ask, _)| *ask).collect::<Vec<_>>() {
            self.on_ask_timer(ask, out);
        }
    }

    fn end(&mut self, open: Open, answer: Option<Answer>, out: &mut Outbox) {
        let Open {
            node, asked, purpose, ..
        } = open;
        let took = out.now().since(asked);
        match (purpose, answer) {
            (Purpose::Ping { from }, Some(Answer::Pong { version })) => {
                let round_trip_us = micros(took);
                let pong = DaemonToControl::Pong {
                    node,
                    round_trip_us,
                    version,
                };
                out.answer(from, pong);
            }
            (Purpose::Forward { from }, Some(Answer::Control(answer))) => out.answer(from, *answer),
            (Purpose::Ping { from } | Purpose::Forward { from }, _) => {
                let message = format!("node {node} did not answer in time: see `pcmctl nodes` and its daemon's log");
                out.answer(
                    from,
                    DaemonToControl::Refused(Refusal::new(refusal::NODE_UNREACHABLE, message)),
                );
            }
            (Purpose::Gather(number), answer) => self.on_gathered(number, &node, answer, out),
            (Purpose::Part(asker), answer) => out.inward(Inward::Queries(Outcome::Answered {
                asker,
                node,
                answer,
                took,
            })),
        }
    }

    fn on_gathered(&mut self, number: u64, node: &NodeName, answer: Option<Answer>, out: &mut Outbox) {
        let Some(gathering) = self.gatherings.get_mut(&number) else {
            return;
        };
        match gathering.add(node, answer) {
            Some(Added::Found(answer)) => {
                out.answer(gathering.from.clone(), *answer);
                self.gatherings.remove(&number);
            }
            Some(Added::Report(report)) => out.inward(Inward::Queries(Outcome::Report(report))),
            Some(Added::Counted) | None => {}
        }
        self.end_if_complete(number, out);
    }

    /// The deadline of a gathering has passed.
    pub fn on_gather_timer(&mut self, number: u64, out: &mut Outbox) {
        if let Some(gathering) = self.gatherings.get_mut(&number) {
            gathering.stop_waiting();
            self.end_if_complete(number, out);
        }
    }

    fn end_if_complete(&mut self, number: u64, out: &mut Outbox) {
        if !self.gatherings.get(&number).is_some_and(Gathering::is_complete) {
            return;
        }
        let Some(gathering) = self.gatherings.remove(&number) else {
            return;
        };
        match gathering.finish() {
            (from, Wanted::Jobs(jobs)) => out.answer(from, DaemonToControl::Jobs(jobs)),
            (from, Wanted::Trace(chunks)) => out.answer(from, DaemonToControl::Trace(chunks)),
            (from, wanted) => out.inward(Inward::Queries(Outcome::Gathered { from, wanted })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::outbox::Effect;
    use crate::node::requester::LinkId;
    use pcm_proto::ids::{Epoch, JobId};
    use pcm_proto::job::{JobState, JobStatus};

    const SECOND: u64 = 1_000_000;

    struct Side {
        queries: Queries,
        out: Outbox,
    }

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn client() -> Requester {
        Requester::Control(LinkId(1))
    }

    fn status(job: u64, reign: u32) -> JobStatus {
        JobStatus {
            job: JobId(job),
            name: "heat2d".to_owned(),
            state: JobState::Running,
            epoch: Epoch(0),
            size: 1,
            nodes: Vec::new(),
            started_us: 0,
            end: None,
            coordinator: node("n1"),
            reign,
            spares: Vec::new(),
        }
    }

    fn refused(code: &str) -> Answer {
        Answer::Control(Box::new(DaemonToControl::Refused(Refusal::new(code, "no"))))
    }

    impl Side {
        fn new() -> Self {
            Self {
                queries: Queries::default(),
                out: Outbox::new(node("n0"), Moment(0)),
            }
        }

        /// The numbers of the questions that were sent since the last look, by node.
        fn asked(&mut self) -> BTreeMap<NodeName, u64> {
            let asked = self.out.take().into_iter().filter_map(|effect| match effect {
                Effect::Send {
                    node,
                    message: DaemonToDaemon::Ask { ask, .. },
                } => Some((node, ask)),
                _ => None,
            });
            asked.collect()
        }

        /// What `pcmctl` was answered since the last look.
        fn answered(&mut self) -> Vec<DaemonToControl> {
            let answers = self.out.take().into_iter().filter_map(|effect| match effect {
                Effect::Control { message, .. } => Some(*message),
                _ => None,
            });
            answers.collect()
        }

        fn answer(&mut self, from: &str, ask: u64, answer: Answer) {
            self.queries.on_answer(&node(from), ask, answer, &mut self.out);
        }

        fn measure(&mut self) -> u64 {
            let Self { queries, out } = self;
            queries.ask(&node("n1"), Question::Ping, Asker::Links, ANSWER_WITHIN, out);
            self.asked()[&node("n1")]
        }

        fn gather(&mut self, wanted: Wanted) -> BTreeMap<NodeName, u64> {
            let nodes = [node("n1"), node("n2")];
            let Self { queries, out } = self;
            queries.gather(client(), wanted, &Question::Jobs, &nodes, ANSWER_WITHIN, out);
            self.asked()
        }

        /// Whether the one question of a part was answered, and how long that took.
        fn outcome(&mut self) -> Option<(bool, Duration)> {
            match self.out.take_inward()? {
                Inward::Queries(Outcome::Answered { answer, took, .. }) => Some((answer.is_some(), took)),
                other => panic!("{other:?}"),
            }
        }
    }

    fn pong() -> Answer {
        Answer::Pong {
            version: "1".to_owned(),
        }
    }

    #[test]
    fn a_part_hears_the_answer_to_its_question_once_and_how_long_it_took() {
        let mut side = Side::new();
        let ask = side.measure();
        side.out.begin(Moment(1500));
        side.answer("n2", ask, pong());
        assert_eq!(side.outcome(), None, "another node was asked");
        side.answer("n1", ask, pong());
        side.answer("n1", ask, pong());
        assert_eq!(side.outcome(), Some((true, Duration::from_micros(1500))));
        side.queries.on_ask_timer(ask, &mut side.out);
        assert_eq!(side.outcome(), None);
    }

    #[test]
    fn an_answer_after_the_deadline_is_ignored() {
        let mut side = Side::new();
        let ask = side.measure();
        side.out.begin(Moment(2 * SECOND));
        side.answer("n1", ask, pong());
        assert_eq!(side.outcome().map(|(is_answered, _)| is_answered), Some(false));
        let ask = side.measure();
        side.queries.on_ask_timer(ask, &mut side.out);
        assert_eq!(side.outcome().map(|(is_answered, _)| is_answered), Some(false));
        side.answer("n1", ask, pong());
        assert_eq!(side.outcome(), None);
    }

    #[test]
    fn a_node_that_is_gone_ends_the_wait_for_it_alone() {
        let mut side = Side::new();
        let asks = side.gather(Wanted::Jobs(Vec::new()));
        side.queries.on_node_gone(&node("n1"), &mut side.out);
        assert_eq!(side.answered(), []);
        side.answer("n2", asks[&node("n2")], Answer::Jobs(vec![status(1, 0)]));
        assert_eq!(side.answered(), [DaemonToControl::Jobs(vec![status(1, 0)])]);
        let Side { queries, out } = &mut side;
        queries.forward(client(), &node("n1"), ControlToDaemon::Nodes, ANSWER_WITHIN, out);
        queries.on_node_gone(&node("n1"), out);
        match &side.answered()[..] {
            [DaemonToControl::Refused(refusal)] => assert_eq!(refusal.code, refusal::NODE_UNREACHABLE),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_gathering_ends_at_its_deadline_with_the_answers_so_far() {
        let mut side = Side::new();
        let asks = side.gather(Wanted::Jobs(Vec::new()));
        side.answer("n2", asks[&node("n2")], Answer::Jobs(vec![status(2, 0)]));
        side.queries.on_gather_timer(1, &mut side.out);
        assert_eq!(side.answered(), [DaemonToControl::Jobs(vec![status(2, 0)])]);
        side.answer("n1", asks[&node("n1")], Answer::Jobs(vec![status(1, 0)]));
        assert_eq!(side.answered(), []);
    }

    #[test]
    fn a_job_that_an_heir_leads_is_listed_once_as_the_heir_knows_it() {
        let mut side = Side::new();
        let asks = side.gather(Wanted::Jobs(Vec::new()));
        side.answer("n1", asks[&node("n1")], Answer::Jobs(vec![status(1, 0)]));
        side.answer("n2", asks[&node("n2")], Answer::Jobs(vec![status(1, 1)]));
        assert_eq!(side.answered(), [DaemonToControl::Jobs(vec![status(1, 1)])]);
    }

    #[test]
    fn the_daemon_that_knows_the_job_answers_for_all() {
        let mut side = Side::new();
        let asks = side.gather(Wanted::Knowing { job: JobId(1) });
        side.answer("n1", asks[&node("n1")], refused(refusal::UNKNOWN_JOB));
        assert_eq!(side.answered(), []);
        side.answer(
            "n2",
            asks[&node("n2")],
            Answer::Control(Box::new(DaemonToControl::Done)),
        );
        assert_eq!(side.answered(), [DaemonToControl::Done]);
        assert!(side.out.take_inward().is_none());
        let asks = side.gather(Wanted::Knowing { job: JobId(1) });
        side.answer("n1", asks[&node("n1")], refused(refusal::UNKNOWN_JOB));
        side.answer("n2", asks[&node("n2")], refused(refusal::UNKNOWN_JOB));
        assert!(matches!(
            side.out.take_inward(),
            Some(Inward::Queries(Outcome::Gathered {
                wanted: Wanted::Knowing { .. },
                ..
            }))
        ));
    }

    #[test]
    fn a_gathering_without_nodes_is_complete_at_once() {
        let mut side = Side::new();
        let Side { queries, out } = &mut side;
        queries.gather(
            client(),
            Wanted::Jobs(Vec::new()),
            &Question::Jobs,
            &[],
            ANSWER_WITHIN,
            out,
        );
        assert_eq!(side.answered(), [DaemonToControl::Jobs(Vec::new())]);
    }
}
