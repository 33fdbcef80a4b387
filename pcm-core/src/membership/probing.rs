//! Probing: how long each subject has been silent, when it is to be probed again, who probes us, and whom we probe for
//! others. Knows names and times, not what anybody believes.

use super::timing;
use pcm_proto::ids::NodeName;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

#[derive(Debug, Default)]
struct Subject {
    silence: Duration,
    probe_in: Duration,
    help_in: Duration,
}

#[derive(Debug)]
struct Help {
    requester: NodeName,
    subject: NodeName,
    left: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Probing {
    subjects: BTreeMap<NodeName, Subject>,
    monitors: BTreeMap<NodeName, Duration>,
    helping: Vec<Help>,
}

/// What the passing of time asks for.
#[derive(Debug, Default)]
pub(super) struct Due {
    pub(super) probe: Vec<NodeName>,
    pub(super) ask_for_help: Vec<NodeName>,
    pub(super) suspect: Vec<NodeName>,
}

impl Probing {
    /// Watches `chosen` from now on; those watched before keep their history.
    pub(super) fn retarget(&mut self, chosen: BTreeSet<NodeName>) {
        self.subjects.retain(|node, _| chosen.contains(node));
        for node in chosen {
            self.subjects.entry(node).or_default();
        }
    }

    pub(super) fn subjects(&self) -> impl Iterator<Item = &NodeName> {
        self.subjects.keys()
    }

    /// Whom this node watches and who watches it: the edges along which news travels.
    pub(super) fn neighbours(&self) -> BTreeSet<NodeName> {
        self.subjects.keys().chain(self.monitors.keys()).cloned().collect()
    }

    /// A sign of life, seen by ourselves or reported.
    pub(super) fn heard(&mut self, node: &NodeName) {
        if let Some(subject) = self.subjects.get_mut(node) {
            subject.silence = Duration::ZERO;
            subject.help_in = Duration::ZERO;
        }
    }

    /// The connection to a subject broke: not a proof of death, but enough to ask others at once.
    pub(super) fn unreachable(&mut self, node: &NodeName) {
        if let Some(subject) = self.subjects.get_mut(node) {
            subject.silence = subject.silence.max(timing::HELP_AFTER);
        }
    }

    pub(super) fn probed_by(&mut self, monitor: &NodeName) {
        self.monitors.insert(monitor.clone(), timing::MONITOR_KEPT);
    }

    pub(super) fn forget(&mut self, node: &NodeName) {
        self.monitors.remove(node);
        self.helping
            .retain(|help| help.requester != *node && help.subject != *node);
    }

    /// Takes a request to probe for another; `false` when there are too many.
    pub(super) fn help(&mut self, requester: &NodeName, subject: &NodeName) -> bool {
        if self
            .helping
            .iter()
            .any(|help| help.requester == *requester && help.subject == *subject)
        {
            return true;
        }
        if self.helping.len() >= timing::HELPING_MAX {
            return false;
        }
        self.helping.push(Help {
            requester: requester.clone(),
            subject: subject.clone(),
            left: timing::HELP_AFTER * 2,
        });
        true
    }

    /// Those who want to know that `subject` answered.
    pub(super) fn take_requesters(&mut self, subject: &NodeName) -> Vec<NodeName> {
        let mut requesters = Vec::new();
        self.helping.retain(|help| {
            if help.subject == *subject {
                requesters.push(help.requester.clone());
            }
            help.subject != *subject
        });
        requesters
    }

    /// Lets time pass.
    pub(super) fn age(&mut self, credited: Duration) -> Due {
        self.monitors.retain(|_, left| {
            *left = left.saturating_sub(credited);
            !left.is_zero()
        });
        self.helping.retain_mut(|help| {
            help.left = help.left.saturating_sub(credited);
            !help.left.is_zero()
        });
        let mut due = Due::default();
        for (node, subject) in &mut self.subjects {
            subject.silence = subject.silence.saturating_add(credited);
            subject.probe_in = subject.probe_in.saturating_sub(credited);
            subject.help_in = subject.help_in.saturating_sub(credited);
            if subject.probe_in.is_zero() {
                subject.probe_in = timing::PROBE_PERIOD;
                due.probe.push(node.clone());
            }
            if subject.silence >= timing::SUSPECT_AFTER {
                due.suspect.push(node.clone());
            } else if subject.silence >= timing::HELP_AFTER && subject.help_in.is_zero() {
                subject.help_in = timing::HELP_AFTER;
                due.ask_for_help.push(node.clone());
            }
        }
        due
    }
}
