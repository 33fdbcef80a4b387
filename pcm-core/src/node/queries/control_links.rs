//! Links of `pcmctl` as this node knows them: the job that a link is attached to, and the events that a follower has
//! received. Never holds a socket.

use crate::node::outbox::Outbox;
use crate::node::requester::{LinkId, Requester};
use crate::node::timer::Timer;
use pcm_proto::control::DaemonToControl;
use pcm_proto::event::Event;
use pcm_proto::ids::{JobId, NodeName};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A follower of events receives news at least so often.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// Clocks of nodes and delays of their answers may differ by so much without an event being missed.
const FOLLOW_OVERLAP_US: u64 = 2_000_000;

#[derive(Debug)]
struct Follow {
    job: Option<JobId>,
    /// Events up to here were sent, but for late ones of other nodes, which `sent` sorts out.
    since_us: u64,
    sent: BTreeSet<(u64, NodeName)>,
}

#[derive(Debug, Default)]
struct Control {
    attached: Option<JobId>,
    follow: Option<Follow>,
}

/// All links of `pcmctl`.
#[derive(Debug, Default)]
pub struct ControlLinks(BTreeMap<LinkId, Control>);

impl ControlLinks {
    pub fn on_linked(&mut self, link: LinkId) {
        self.0.insert(link, Control::default());
    }

    /// A link ended; the job that it was attached to.
    pub fn on_lost(&mut self, link: LinkId) -> Option<JobId> {
        self.0.remove(&link)?.attached
    }

    pub fn attach(&mut self, link: LinkId, job: JobId) {
        if let Some(control) = self.0.get_mut(&link) {
            control.attached = Some(job);
        }
    }

    pub fn detach(&mut self, link: LinkId) {
        if let Some(control) = self.0.get_mut(&link) {
            control.attached = None;
        }
    }

    /// The link that is attached to a job.
    pub fn attached_to(&self, job: JobId) -> Option<LinkId> {
        let attached = self.0.iter().find(|(_, control)| control.attached == Some(job));
        attached.map(|(link, _)| *link)
    }

    /// The job that a link is attached to.
    pub fn attached(&self, link: LinkId) -> Option<JobId> {
        self.0.get(&link)?.attached
    }

    /// A link follows the events of a job, or of all, from the first one on.
    pub fn begin_to_follow(&mut self, link: LinkId, job: Option<JobId>) {
        if let Some(control) = self.0.get_mut(&link) {
            control.follow = Some(Follow {
                job,
                since_us: 0,
                sent: BTreeSet::new(),
            });
        }
    }

    /// The job of a follower, and the time since which it needs events.
    pub fn following(&self, link: LinkId) -> Option<(Option<JobId>, u64)> {
        let follow = self.0.get(&link)?.follow.as_ref()?;
        Some((follow.job, follow.since_us.saturating_sub(FOLLOW_OVERLAP_US)))
    }

    /// Answers with the events of the cluster; a follower receives the new ones of them, and is due again soon.
    pub fn answer_events(&mut self, from: Requester, events: Vec<Event>, follower: Option<LinkId>, out: &mut Outbox) {
        let Some(link) = follower else {
            return out.answer(from, DaemonToControl::Events(events));
        };
        let fresh = self.fresh(link, events);
        if !fresh.is_empty() {
            out.answer(from, DaemonToControl::Events(fresh));
        }
        out.arm(FOLLOW_EVERY, Timer::Follow(link.0));
    }

    /// Of these events, those that the follower has not received; they count as sent from now on.
    fn fresh(&mut self, link: LinkId, events: Vec<Event>) -> Vec<Event> {
        let Some(follow) = self.0.get_mut(&link).and_then(|control| control.follow.as_mut()) else {
            return Vec::new();
        };
        let mut fresh = Vec::new();
        for event in events {
            if follow.sent.insert((event.time_us, event.node.clone())) {
                follow.since_us = follow.since_us.max(event.time_us);
                fresh.push(event);
            }
        }
        let oldest = follow.since_us.saturating_sub(2 * FOLLOW_OVERLAP_US);
        follow.sent.retain(|(time_us, _)| *time_us >= oldest);
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::event::EventKind;
    use pcm_proto::ids::Epoch;

    fn event(time_us: u64, node: &str) -> Event {
        Event {
            time_us,
            job: None,
            epoch: Epoch(0),
            node: NodeName::new(node).unwrap(),
            kind: EventKind::DaemonRestarted { processes: 0 },
        }
    }

    #[test]
    fn a_follower_receives_each_event_once_and_late_ones_too() {
        let (mut links, link) = (ControlLinks::default(), LinkId(1));
        links.on_linked(link);
        assert_eq!(links.fresh(link, vec![event(5, "n0")]), [], "it does not follow yet");
        links.begin_to_follow(link, None);
        let (first, late) = (event(5_000_000, "n0"), event(4_000_000, "n1"));
        assert_eq!(links.fresh(link, vec![first.clone()]).len(), 1);
        assert_eq!(
            links.following(link),
            Some((None, 3_000_000)),
            "late events are asked for again"
        );
        assert_eq!(links.fresh(link, vec![late.clone(), first.clone()]), [late]);
        assert_eq!(links.fresh(link, vec![first]), []);
    }

    #[test]
    fn a_link_that_ended_is_attached_to_nothing() {
        let (mut links, link, job) = (ControlLinks::default(), LinkId(1), JobId(7));
        links.attach(link, job);
        assert_eq!(links.attached_to(job), None, "the link is unknown");
        links.on_linked(link);
        links.attach(link, job);
        assert_eq!((links.attached_to(job), links.attached(link)), (Some(link), Some(job)));
        assert_eq!(links.on_lost(link), Some(job));
        assert_eq!((links.attached_to(job), links.following(link)), (None, None));
    }
}
