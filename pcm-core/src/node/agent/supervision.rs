//! The node's agent: started beside the daemon, started again when it ends or falls silent, listened to while it lives.
//! An agent may be mad: what it says is limited in number and size, checked like the request of a person, and never
//! more than a request. No job depends on it.

use super::allowance::Allowance;
use super::effect::{AgentEffect, AgentFact};
use super::samples::{draw_neighbours, neighbour};
use super::words::{limited, proposed};
use crate::moment::Moment;
use crate::node::cluster::nodes::Nodes;
use crate::node::outbox::{Effect, Inward, Outbox};
use crate::node::requester::{LinkId, Requester};
use crate::node::timer::Timer;
use pcm_proto::agent::{AgentToAgent, AgentToDaemon, DaemonToAgent, JobSample};
use pcm_proto::control::{DaemonToControl, Refusal};
use pcm_proto::event::EventKind;
use pcm_proto::ids::{Epoch, JobId, NodeName};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::link::LinkMeasured;
use pcm_proto::peer::{DaemonToDaemon, NodeReport};
use pcm_proto::refusal;
use std::time::Duration;

/// Pause before an agent that failed at once is started again; doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// An agent that lived so long had come up.
const HEALTHY_AFTER: Duration = Duration::from_secs(10);

/// An agent says something every second. One that has said nothing for so long is stopped, stuck or kept from the CPU
/// for good; a new one costs nothing.
const SILENT_MAX: Duration = Duration::from_secs(15);

/// Messages to other agents in a second: a leader offers to a few nodes, a walk passes now and then.
const MESSAGES_PER_S: f64 = 200.0;

/// Decisions and proposals in a second: one per job and sample would be far more than anybody reads.
const REQUESTS_PER_S: f64 = 10.0;

/// The agent's neighbours are drawn again so often.
const NEIGHBOURS_EVERY: Duration = Duration::from_secs(10);

/// What the agent's side reads of the other parts of the node.
pub struct AgentView<'a> {
    /// The epoch of a job that is coordinated here.
    pub epoch: &'a dyn Fn(JobId) -> Option<Epoch>,
    pub is_live: &'a dyn Fn(&NodeName) -> bool,
}

#[derive(Debug)]
struct Process {
    life: u64,
    began: Moment,
    heard: Moment,
}

/// What the agent hears of its own node beside what the others know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnState {
    pub is_draining: bool,
    /// Whether the node ends too soon for new ranks.
    pub ends_soon: bool,
}

impl OwnState {
    pub(in crate::node) fn of(nodes: &Nodes, now: Moment) -> Self {
        let ends = nodes.end_of(now, &nodes.own().node);
        Self {
            is_draining: nodes.is_draining(),
            ends_soon: ends.is_some_and(|end| end.is_near()),
        }
    }
}

/// One link of the agent, and what may still be said over it.
#[derive(Debug)]
struct Talk {
    link: LinkId,
    messages: Allowance,
    requests: Allowance,
    /// When it received its neighbours, and how the node was then.
    neighbours: Option<(Moment, OwnState)>,
}

/// The agent as the daemon sees it.
#[derive(Debug)]
pub struct AgentLink {
    cpus: Vec<u32>,
    process: Option<Process>,
    talk: Option<Talk>,
    lives: u64,
    pause: Duration,
    speed: f64,
    /// Levels of its log that were set at run time.
    levels: Option<String>,
}

impl AgentLink {
    /// Of a node with these CPUs.
    pub fn new(cpus: Vec<u32>) -> Self {
        Self {
            cpus,
            process: None,
            talk: None,
            lives: 0,
            pause: Duration::ZERO,
            speed: 0.0,
            levels: None,
        }
    }

    /// Starts the agent unless it runs.
    pub fn start(&mut self, out: &mut Outbox) {
        if self.process.is_some() {
            return;
        }
        self.lives += 1;
        let (life, now) = (self.lives, out.now());
        self.process = Some(Process {
            life,
            began: now,
            heard: now,
        });
        out.push(Effect::Agent(AgentEffect::Start { life }));
        out.arm(SILENT_MAX, Timer::AgentSilent);
    }

    /// The agent may have fallen silent.
    pub fn on_silence_timer(&mut self, out: &mut Outbox) {
        let Some(process) = &self.process else { return };
        let left = SILENT_MAX.saturating_sub(out.now().since(process.heard));
        if left.is_zero() {
            let reason = format!("it has said nothing for {} s", SILENT_MAX.as_secs());
            self.on_ended(process.life, reason, out);
        } else {
            out.arm(left, Timer::AgentSilent);
        }
    }

    /// The process of this life ended; that of an earlier life was replaced already.
    pub fn on_ended(&mut self, life: u64, reason: String, out: &mut Outbox) {
        let Some(Process { began, .. }) = self.process.take_if(|process| process.life == life) else {
            return;
        };
        self.unlink(out);
        out.push(Effect::Agent(AgentEffect::Stop));
        self.pause = match out.now().since(began) > HEALTHY_AFTER {
            true => PAUSE_MIN,
            false => (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX),
        };
        tracing::info!(reason, "the agent is started again");
        out.note(None, Epoch(0), EventKind::AgentRestarted { reason });
        out.arm(self.pause, Timer::Agent);
    }

    /// The agent is linked: it learns of its node.
    pub fn on_linked(&mut self, link: LinkId, out: &mut Outbox) {
        let now = out.now();
        self.talk = Some(Talk {
            link,
            messages: Allowance::new(MESSAGES_PER_S, now),
            requests: Allowance::new(REQUESTS_PER_S, now),
            neighbours: None,
        });
        let welcome = DaemonToAgent::Welcome {
            node: out.own().clone(),
            cpus: self.cpus.clone(),
            speed: self.speed,
        };
        self.send(welcome, out);
        if let Some(levels) = &self.levels {
            self.send(DaemonToAgent::Levels(levels.clone()), out);
        }
    }

    /// The link ended; with a reason where the agent's messages could not be read. Then its process is of no use.
    pub fn on_lost(&mut self, link: LinkId, nonsense: Option<String>, out: &mut Outbox) {
        if !self.is_linked_by(link) {
            return;
        }
        self.unlink(out);
        if let (Some(nonsense), Some(process)) = (nonsense, &self.process) {
            let reason = format!("it is not understood: {nonsense}");
            self.on_ended(process.life, reason, out);
        }
    }

    fn is_linked_by(&self, link: LinkId) -> bool {
        self.talk.as_ref().is_some_and(|talk| talk.link == link)
    }

    fn unlink(&mut self, out: &mut Outbox) {
        if self.talk.take().is_some() {
            out.inward(Inward::Agent(AgentFact::Gone));
        }
    }

    fn send(&self, message: DaemonToAgent, out: &mut Outbox) {
        if self.talk.is_some() {
            out.push(Effect::Agent(AgentEffect::Send(Box::new(message))));
        }
    }

    /// The processes of the ranks here have changed.
    pub fn tell_ranks(&self, ranks: Vec<(ProcessKey, u32)>, out: &mut Outbox) {
        self.send(DaemonToAgent::Ranks(ranks), out);
    }

    /// The agent's log is written with these levels, also by agents that are started later.
    pub fn set_levels(&mut self, levels: String, out: &mut Outbox) {
        self.levels = Some(levels.clone());
        self.send(DaemonToAgent::Levels(levels), out);
    }

    /// The agent of another node says something.
    pub fn on_heard(&self, from: &NodeName, message: Box<AgentToAgent>, out: &mut Outbox) {
        let from = from.clone();
        self.send(DaemonToAgent::Heard { from, message }, out);
    }

    /// The agent says something.
    pub fn on_said(&mut self, link: LinkId, message: AgentToDaemon, view: &AgentView<'_>, out: &mut Outbox) {
        let Some(talk) = self.talk.as_mut().filter(|talk| talk.link == link) else {
            return;
        };
        let now = out.now();
        if let Some(process) = &mut self.process {
            process.heard = now;
        }
        match message {
            AgentToDaemon::Ready { pid } => tracing::info!(pid, "the agent is there"),
            AgentToDaemon::Profile(profile) => {
                self.speed = profile.speed;
                out.inward(Inward::Agent(AgentFact::Profile(profile)));
            }
            AgentToDaemon::Sample { about } => out.inward(Inward::Agent(AgentFact::SamplesWanted { about })),
            AgentToDaemon::Tell { to, message } => {
                if to != *out.own() && (view.is_live)(&to) && talk.messages.take(now) {
                    out.send(&to, DaemonToDaemon::Agent(message));
                }
            }
            AgentToDaemon::Propose {
                number,
                job,
                epoch,
                change,
                cause,
            } => {
                let is_allowed = talk.requests.take(now);
                let from = Requester::Agent { number };
                match check_proposal(job, epoch, is_allowed, view, out.own()) {
                    Ok(true) => {
                        let asked = proposed(job, change, cause);
                        out.inward(Inward::Agent(AgentFact::Proposal { from, asked }));
                    }
                    Ok(false) => out.inward(Inward::Agent(AgentFact::UnknownJob { from, job })),
                    Err(refusal) => out.answer(from, DaemonToControl::Refused(refusal)),
                }
            }
            AgentToDaemon::Decided { job, decision } => {
                if let Some(epoch) = (view.epoch)(job)
                    && talk.requests.take(now)
                {
                    let decision = limited(decision);
                    tracing::info!(job = job.0, ?decision, "event");
                    out.note(Some(job), epoch, EventKind::Decision(decision));
                }
            }
        }
    }

    /// Answers the agent's wish for samples; now and then it learns of its neighbours first.
    pub fn answer_samples(
        &mut self,
        (at_ns, jobs): (u64, Vec<JobSample>),
        links: Vec<LinkMeasured>,
        (own, state): (&NodeReport, OwnState),
        others: impl Iterator<Item = NodeReport>,
        out: &mut Outbox,
    ) {
        let now = out.now();
        let Some(talk) = &mut self.talk else { return };
        let is_known = |(at, known): (Moment, OwnState)| now.since(at) < NEIGHBOURS_EVERY && known == state;
        if !talk.neighbours.is_some_and(is_known) {
            talk.neighbours = Some((now, state));
            let neighbours = DaemonToAgent::Neighbours {
                nodes: draw_neighbours(now, others),
                own: neighbour(own),
                is_draining: state.is_draining,
                ends_soon: state.ends_soon,
            };
            self.send(neighbours, out);
        }
        self.send(DaemonToAgent::Samples { at_ns, jobs, links }, out);
    }
}

/// Whether the job is coordinated here; an error where the proposal is refused.
fn check_proposal(
    job: JobId,
    epoch: Epoch,
    is_allowed: bool,
    view: &AgentView<'_>,
    own: &NodeName,
) -> Result<bool, Refusal> {
    if !is_allowed {
        let message = format!("the agent of node {own} wants too much at once");
        return Err(Refusal::new(refusal::LIMIT_REACHED, message));
    }
    match (view.epoch)(job) {
        None => Ok(false),
        Some(known) if known == epoch => Ok(true),
        Some(_) => {
            let message = format!("job {job} has another layout by now: look again");
            Err(Refusal::new(refusal::RECONFIGURING, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::TEXT_MAX;
    use super::*;
    use pcm_proto::agent::NodeProfile;
    use pcm_proto::control::LayoutChange;

    const LINK: LinkId = LinkId(3);

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    struct Side {
        agent: AgentLink,
        out: Outbox,
    }

    impl Side {
        fn new() -> Self {
            Self {
                agent: AgentLink::new(vec![0]),
                out: Outbox::new(node("n0"), Moment(0)),
            }
        }

        /// With an agent that has linked itself at the beginning.
        fn linked() -> Self {
            let mut side = Self::new();
            side.agent.start(&mut side.out);
            side.agent.on_linked(LINK, &mut side.out);
            side.effects();
            side
        }

        fn at(&mut self, seconds: u64) -> &mut Self {
            self.out.begin(Moment(seconds * 1_000_000));
            self
        }

        fn effects(&mut self) -> Vec<Effect> {
            self.out.take()
        }

        fn says(&mut self, link: LinkId, message: AgentToDaemon) -> Vec<Effect> {
            let view = AgentView {
                epoch: &|job| (job == JobId(1)).then_some(Epoch(4)),
                is_live: &|name| name.as_str() != "dead",
            };
            self.agent.on_said(link, message, &view, &mut self.out);
            self.out.take()
        }

        fn proposes(&mut self, job: u64, epoch: u64) -> Vec<Effect> {
            let message = AgentToDaemon::Propose {
                number: 9,
                job: JobId(job),
                epoch: Epoch(epoch),
                change: LayoutChange::Rebalance,
                cause: "x".repeat(2 * TEXT_MAX),
            };
            self.says(LINK, message)
        }

        fn fact(&mut self) -> Option<AgentFact> {
            match self.out.take_inward()? {
                Inward::Agent(fact) => Some(fact),
                other => panic!("{other:?}"),
            }
        }
    }

    fn pause(effects: &[Effect], now: Moment) -> Duration {
        let armed = effects.iter().find_map(|effect| match effect {
            Effect::Arm {
                at,
                timer: Timer::Agent,
            } => Some(at.since(now)),
            _ => None,
        });
        armed.unwrap()
    }

    fn tell(to: &str) -> AgentToDaemon {
        AgentToDaemon::Tell {
            to: node(to),
            message: Box::new(AgentToAgent::Decline {
                offer: pcm_proto::agent::OfferNumber(1),
            }),
        }
    }

    #[test]
    fn an_agent_that_fails_at_once_is_started_again_with_growing_pauses() {
        let mut side = Side::new();
        let mut pauses = Vec::new();
        for life in 1..=10 {
            side.agent.start(&mut side.out);
            assert!(
                matches!(side.effects()[0], Effect::Agent(AgentEffect::Start { life: started }) if started == life)
            );
            side.agent.on_ended(life, "exit status: 1".to_owned(), &mut side.out);
            pauses.push(pause(&side.effects(), Moment(0)));
        }
        assert_eq!(pauses[..3], [200, 400, 800].map(Duration::from_millis));
        assert_eq!(pauses[9], PAUSE_MAX);
        side.agent.start(&mut side.out);
        side.effects();
        side.at(60);
        side.agent.on_ended(11, "signal: 9".to_owned(), &mut side.out);
        let effects = side.effects();
        assert_eq!(pause(&effects, side.out.now()), PAUSE_MIN, "it had come up");
    }

    #[test]
    fn the_end_of_an_earlier_process_changes_nothing() {
        let mut side = Side::linked();
        side.agent.on_ended(0, "late".to_owned(), &mut side.out);
        assert_eq!((side.effects().len(), side.fact()), (0, None));
        assert_eq!(side.says(LINK, AgentToDaemon::Profile(NodeProfile::default())).len(), 0);
        assert!(matches!(side.fact(), Some(AgentFact::Profile(_))), "it is still linked");
    }

    #[test]
    fn an_agent_that_falls_silent_is_replaced_and_one_that_talks_is_not() {
        let mut side = Side::linked();
        side.at(14).says(LINK, AgentToDaemon::Ready { pid: 1 });
        side.at(15);
        side.agent.on_silence_timer(&mut side.out);
        let effects = side.effects();
        let again = Moment(29 * 1_000_000);
        assert!(matches!(&effects[..], [Effect::Arm { at, timer: Timer::AgentSilent }] if *at == again));
        side.at(29);
        side.agent.on_silence_timer(&mut side.out);
        assert!(matches!(side.effects()[0], Effect::Agent(AgentEffect::Stop)));
        assert_eq!(side.fact(), Some(AgentFact::Gone));
    }

    #[test]
    fn messages_on_a_link_that_is_not_the_agents_are_ignored() {
        let mut side = Side::linked();
        assert!(side.says(LinkId(8), tell("n1")).is_empty());
        side.agent.on_lost(LinkId(8), Some("noise".to_owned()), &mut side.out);
        assert!(side.effects().is_empty());
        assert!(matches!(&side.says(LINK, tell("n1"))[..], [Effect::Send { .. }]));
    }

    #[test]
    fn an_agent_without_sense_on_its_link_is_replaced() {
        let mut side = Side::linked();
        side.agent.on_lost(LINK, Some("a bad frame".to_owned()), &mut side.out);
        assert!(matches!(side.effects()[0], Effect::Agent(AgentEffect::Stop)));
        assert!(side.says(LINK, tell("n1")).is_empty(), "the link is gone");
    }

    #[test]
    fn an_agent_that_shouts_is_limited_and_the_dead_are_not_spoken_to() {
        let mut side = Side::linked();
        assert!(side.says(LINK, tell("dead")).is_empty() && side.says(LINK, tell("n0")).is_empty());
        let sent: usize = (0..1000).map(|_| side.says(LINK, tell("n1")).len()).sum();
        assert_eq!(sent, MESSAGES_PER_S as usize);
        side.at(1);
        assert_eq!(side.says(LINK, tell("n1")).len(), 1);
    }

    #[test]
    fn a_proposal_counts_for_the_layout_it_was_made_for_and_for_jobs_led_here() {
        let mut side = Side::linked();
        assert!(side.proposes(1, 4).is_empty());
        match side.fact() {
            Some(AgentFact::Proposal { asked, .. }) => assert_eq!(asked.cause.len(), TEXT_MAX),
            other => panic!("{other:?}"),
        }
        assert!(
            matches!(&side.proposes(1, 3)[..], [Effect::Agent(AgentEffect::Send(_))]),
            "refused"
        );
        side.proposes(2, 4);
        let from = Requester::Agent { number: 9 };
        assert_eq!(side.fact(), Some(AgentFact::UnknownJob { from, job: JobId(2) }));
        (0..20).for_each(|_| _ = side.proposes(1, 4));
        assert_eq!(std::iter::from_fn(|| side.fact()).count(), REQUESTS_PER_S as usize - 3);
    }

    #[test]
    fn neighbours_are_sent_with_the_first_samples_and_again_after_a_while() {
        let mut side = Side::linked();
        let own = report("n0");
        let count = |side: &mut Side| {
            let others = (1..100).map(|number| report(&format!("n{number}")));
            let Side { agent, out } = side;
            agent.answer_samples((0, Vec::new()), Vec::new(), (&own, OwnState::default()), others, out);
            out.take().len()
        };
        assert_eq!((count(&mut side), count(&mut side)), (2, 1));
        side.at(10);
        assert_eq!(count(&mut side), 2);
    }

    fn report(name: &str) -> NodeReport {
        NodeReport {
            node: node(name),
            address: String::new(),
            site: String::new(),
            cpus: vec![0],
            state: pcm_proto::control::NodeState::Up,
            host: 1,
            host_name: String::new(),
            speed: 1.0,
            load_by_others: 0.0,
            ranks: 0,
            free_memory: 0,
            daemon_pid: 0,
            highest_job: JobId(0),
            keeper_since_us: 0,
            fabric: pcm_proto::fabric::FabricReport::default(),
            ends: None,
        }
    }
}
