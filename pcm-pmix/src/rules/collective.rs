//! Collective operations over nodes. The first of the participants' nodes leads: each node says to it that its
//! participants are in, and it says to all how it went. A participant that is lost before its node was in ends the
//! operation with an error, so that no other waits for it.

use super::event::{Collected, CollectiveCall, Group, Kind, NodeMessage, Ticket};
use crate::{
    bindings::numbers::{PMIX_ERR_LOST_CONNECTION, PMIX_ERR_TIMEOUT},
    names::{Process, Status},
};
use pcm_proto::ids::NodeName;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Which operation. A set of processes does one of a kind at a time, so nodes count alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    kind: Kind,
    members: Vec<Process>,
    round: u64,
}

/// What a node gave, and what libpmix said of its participants.
#[derive(Debug)]
struct Contribution {
    data: Vec<u8>,
    local: Status,
}

#[derive(Debug, Default)]
struct Operation {
    /// The call of this node, once its participants are in.
    ticket: Option<Ticket>,
    /// All nodes that take part, known with that call.
    nodes: BTreeSet<NodeName>,
    /// At the leader: those that are in.
    inside: BTreeMap<NodeName, Contribution>,
    due: Option<Duration>,
}

/// What an operation leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Answer {
        ticket: Ticket,
        outcome: Result<Collected, Status>,
    },
    Tell {
        node: NodeName,
        message: NodeMessage,
    },
}

#[derive(Debug)]
pub(super) struct Collectives {
    own: NodeName,
    next_context: u64,
    /// Operations that began, by kind and members.
    rounds: BTreeMap<(Kind, Vec<Process>), u64>,
    under_way: BTreeMap<Key, Operation>,
}

impl Collectives {
    pub(super) fn new(own: NodeName, first_context: u64) -> Self {
        Self {
            own,
            next_context: first_context,
            rounds: BTreeMap::new(),
            under_way: BTreeMap::new(),
        }
    }

    /// All participants of this node are in.
    pub(super) fn called(
        &mut self,
        ticket: Ticket,
        call: CollectiveCall,
        nodes: BTreeSet<NodeName>,
        lost: &BTreeSet<NodeName>,
        now: Duration,
    ) -> Vec<Step> {
        let mut members = call.members;
        members.sort();
        if nodes.len() <= 1 || call.is_local {
            let outcome = match call.local.is_success() {
                true => Ok(self.collected(&call.kind, &members, call.data)),
                false => Err(call.local),
            };
            return vec![Step::Answer { ticket, outcome }];
        }
        let round = self.rounds.entry((call.kind.clone(), members.clone())).or_default();
        let key = Key {
            kind: call.kind,
            members,
            round: *round,
        };
        *round += 1;
        let leader = nodes.first().cloned();
        let operation = self.under_way.entry(key.clone()).or_default();
        operation.ticket = Some(ticket);
        operation.nodes = nodes;
        operation.due = call.timeout.map(|timeout| now.saturating_add(timeout));
        if leader.as_ref() == Some(&self.own) {
            let contribution = Contribution {
                data: call.data,
                local: call.local,
            };
            operation.inside.insert(self.own.clone(), contribution);
            return self.advanced(&key, lost);
        }
        let message = NodeMessage::In {
            kind: key.kind,
            members: key.members,
            round: key.round,
            data: call.data,
            local: call.local,
        };
        leader.map(|node| Step::Tell { node, message }).into_iter().collect()
    }

    /// At the leader: the participants of another node are in.
    pub(super) fn came_in(
        &mut self,
        node: NodeName,
        key: Key,
        data: Vec<u8>,
        local: Status,
        lost: &BTreeSet<NodeName>,
    ) -> Vec<Step> {
        let is_under_way = self.under_way.contains_key(&key);
        let begun = self.rounds.get(&(key.kind.clone(), key.members.clone()));
        if !is_under_way && begun.is_some_and(|begun| key.round < *begun) {
            // It ended without this node.
            let reason = if lost.is_empty() {
                PMIX_ERR_TIMEOUT
            } else {
                PMIX_ERR_LOST_CONNECTION
            };
            let message = key.out(Err(Status(reason)));
            return vec![Step::Tell { node, message }];
        }
        let operation = self.under_way.entry(key.clone()).or_default();
        operation.inside.insert(node, Contribution { data, local });
        self.advanced(&key, lost)
    }

    /// At another node: the leader says how it went.
    pub(super) fn went_out(&mut self, key: &Key, outcome: Result<Collected, Status>) -> Vec<Step> {
        let ticket = self.under_way.remove(key).and_then(|operation| operation.ticket);
        ticket
            .map(|ticket| Step::Answer { ticket, outcome })
            .into_iter()
            .collect()
    }

    /// A process or a node is lost: what waits for it ends.
    pub(super) fn recheck(&mut self, lost_among: impl Fn(&[Process]) -> BTreeSet<NodeName>) -> Vec<Step> {
        let keys: Vec<Key> = self.under_way.keys().cloned().collect();
        let advanced = keys.iter().flat_map(|key| {
            let lost = lost_among(&key.members);
            self.advanced(key, &lost)
        });
        advanced.collect()
    }

    /// The leader of these is lost: it will not say how they went.
    pub(super) fn node_lost(&mut self, node: &NodeName) -> Vec<Step> {
        let is_led = |operation: &Operation| operation.nodes.first() == Some(node);
        let all = self.under_way.iter();
        let led: Vec<Key> = all
            .filter(|(_, operation)| is_led(operation))
            .map(|(key, _)| key.clone())
            .collect();
        let steps = led
            .iter()
            .flat_map(|key| self.went_out(key, Err(Status(PMIX_ERR_LOST_CONNECTION))));
        steps.collect()
    }

    /// Operations whose time is over end with an error.
    pub(super) fn overdue(&mut self, now: Duration) -> Vec<Step> {
        let is_over = |operation: &Operation| operation.due.is_some_and(|due| due <= now);
        let all = self.under_way.iter();
        let over: Vec<Key> = all
            .filter(|(_, operation)| is_over(operation))
            .map(|(key, _)| key.clone())
            .collect();
        over.iter()
            .flat_map(|key| self.finish(key, Err(Status(PMIX_ERR_TIMEOUT))))
            .collect()
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.under_way.values().filter_map(|operation| operation.due).min()
    }

    /// A namespace is over: its operations will not be asked for any more.
    pub(super) fn forget(&mut self, namespace: &str) {
        let concerns = |members: &[Process]| members.iter().any(|member| member.namespace == namespace);
        self.rounds.retain(|(_, members), _| !concerns(members));
        self.under_way
            .retain(|key, operation| operation.ticket.is_some() || !concerns(&key.members));
    }

    /// At the leader: ends an operation that all are in, or that one can never be in.
    fn advanced(&mut self, key: &Key, lost: &BTreeSet<NodeName>) -> Vec<Step> {
        let Some(operation) = self.under_way.get_mut(key) else {
            return Vec::new();
        };
        if operation.inside.is_empty() {
            return Vec::new();
        }
        if lost.iter().any(|node| !operation.inside.contains_key(node)) {
            return self.finish(key, Err(Status(PMIX_ERR_LOST_CONNECTION)));
        }
        let is_complete =
            operation.ticket.is_some() && operation.nodes.iter().all(|node| operation.inside.contains_key(node));
        if !is_complete {
            return Vec::new();
        }
        let failed = operation
            .inside
            .values()
            .find(|contribution| !contribution.local.is_success());
        if let Some(failed) = failed {
            let status = failed.local;
            return self.finish(key, Err(status));
        }
        let data: Vec<u8> = operation
            .inside
            .values()
            .flat_map(|contribution| contribution.data.iter().copied())
            .collect();
        let collected = self.collected(&key.kind, &key.members, data);
        self.finish(key, Ok(collected))
    }

    fn collected(&mut self, kind: &Kind, members: &[Process], data: Vec<u8>) -> Collected {
        let group = matches!(kind, Kind::Construct(_)).then(|| Group {
            context: self.next_context,
            members: members.to_vec(),
        });
        self.next_context += u64::from(group.is_some());
        Collected { data, group }
    }

    /// Says to all nodes that are in how an operation went, and to this one. One that comes in later starts the
    /// operation once more, and finds the participant that is lost.
    fn finish(&mut self, key: &Key, outcome: Result<Collected, Status>) -> Vec<Step> {
        let Some(operation) = self.under_way.remove(key) else {
            return Vec::new();
        };
        let mut steps = Vec::new();
        for node in operation.inside.keys().filter(|node| **node != self.own) {
            let node = node.clone();
            let message = key.out(outcome.clone());
            steps.push(Step::Tell { node, message });
        }
        if let Some(ticket) = operation.ticket {
            steps.push(Step::Answer { ticket, outcome });
        }
        steps
    }
}

impl Key {
    pub(super) fn new(kind: Kind, members: Vec<Process>, round: u64) -> Self {
        Self { kind, members, round }
    }

    fn out(&self, outcome: Result<Collected, Status>) -> NodeMessage {
        NodeMessage::Out {
            kind: self.kind.clone(),
            members: self.members.clone(),
            round: self.round,
            outcome,
        }
    }
}
