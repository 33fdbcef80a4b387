//! Boots other nodes: the subtree that this node was given at its birth, and nodes that join later. Each booted node
//! boots its own part of the tree; reports of the parts are passed on upwards.

use crate::node::event::BootFact;
use crate::node::machine::Node;
use crate::node::outbox::{BootEffect, Effect};
use crate::node::requester::Requester;
use pcm_proto::boot::{BOOT_FANOUT_MAX, BootReport, BootSpec, NodeSpec};
use pcm_proto::control::{DaemonToControl, Refusal};
use pcm_proto::ids::NodeName;
use pcm_proto::refusal;
use std::collections::BTreeMap;

/// What is being booted.
#[derive(Debug, Default)]
pub(in crate::node) struct Boot {
    /// Parts of the own subtree that have not reported wholly.
    parts: usize,
    /// Nodes that are up but have not said so to this daemon.
    ready: BTreeMap<NodeName, BootReport>,
    /// Nodes that somebody wants to join.
    joining: Vec<(NodeName, Requester)>,
    /// Whether somebody reads reports on the standard output.
    is_told: bool,
}

impl Node {
    /// Reports that this daemon is up and boots its subtree.
    pub(in crate::node) fn boot_subtree(&mut self) {
        self.boot.is_told = true;
        self.boot_effect(BootEffect::Ready);
        let parts = split(&self.spec.subtree);
        self.boot.parts = parts.len();
        for nodes in parts {
            self.boot_nodes(nodes, true);
        }
        self.end_reports_if_done();
    }

    /// Boots the first of these nodes, with the others as its subtree.
    fn boot_nodes(&mut self, nodes: Vec<NodeSpec>, is_part: bool) {
        let template = Box::new(BootSpec {
            subtree: Vec::new(),
            seeds: vec![self.address.clone()],
            ..self.spec.clone()
        });
        self.boot_effect(BootEffect::Boot {
            template,
            nodes,
            is_part,
        });
    }

    fn boot_effect(&mut self, effect: BootEffect) {
        self.out.push(Effect::Boot(effect));
    }

    pub(in crate::node) fn on_boot(&mut self, fact: BootFact) {
        match fact {
            BootFact::Report(BootReport::Ready {
                node,
                address,
                keeper_pid,
                daemon_pid,
            }) => {
                self.set_address(&node, &address);
                let ready = BootReport::Ready {
                    node: node.clone(),
                    address,
                    keeper_pid,
                    daemon_pid,
                };
                self.boot.ready.insert(node.clone(), ready);
                if self.nodes.is_live(&node) {
                    self.boot_node_heard(&node);
                }
            }
            BootFact::Report(BootReport::Failed { node, reason }) => self.on_boot_failed(&node, &reason),
            BootFact::Unheard => {
                // The process that wanted this node has given up or was interrupted, and counts it as not booted.
                tracing::warn!("the report that this node is up has no reader: its daemon ends");
                self.quit();
            }
            BootFact::PartDone => {
                self.boot.parts = self.boot.parts.saturating_sub(1);
                self.end_reports_if_done();
            }
        }
    }

    /// A node said how it is, so it is part of the cluster now.
    pub(in crate::node) fn boot_node_heard(&mut self, node: &NodeName) {
        if let Some(ready) = self.boot.ready.remove(node)
            && self.boot.is_told
        {
            self.boot_effect(BootEffect::Report(ready));
        }
        let joined = self.boot.joining.iter().position(|(joining, _)| joining == node);
        if let Some(position) = joined {
            let (_, from) = self.boot.joining.swap_remove(position);
            let status = self.nodes.statuses().into_iter().find(|status| status.name == *node);
            if let Some(status) = status {
                self.answer(from, DaemonToControl::Joined(status));
            }
        }
        self.end_reports_if_done();
    }

    fn on_boot_failed(&mut self, node: &NodeName, reason: &str) {
        tracing::warn!(%node, reason, "a node was not booted");
        let waiting = self.boot.joining.iter().position(|(joining, _)| joining == node);
        match waiting {
            Some(position) => {
                let (_, from) = self.boot.joining.swap_remove(position);
                let message = format!("node {node} was not booted: {reason}");
                self.answer(
                    from,
                    DaemonToControl::Refused(Refusal::new(refusal::BOOT_FAILED, message)),
                );
            }
            None if self.boot.is_told => self.boot_effect(BootEffect::Report(BootReport::Failed {
                node: node.clone(),
                reason: reason.to_owned(),
            })),
            None => {}
        }
    }

    fn end_reports_if_done(&mut self) {
        if self.boot.is_told && self.boot.parts == 0 && self.boot.ready.is_empty() {
            self.boot.is_told = false;
            self.boot_effect(BootEffect::EndReports);
        }
    }

    /// Somebody wants one more node.
    pub(in crate::node) fn on_join(&mut self, from: Requester, node: NodeSpec) {
        let is_known = self.nodes.is_live(&node.name);
        if is_known || self.boot.joining.iter().any(|(joining, _)| *joining == node.name) {
            let message = format!("a node {} is there already: give the new one another name", node.name);
            return self.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::NODE_EXISTS, message)),
            );
        }
        self.boot.joining.push((node.name.clone(), from));
        self.boot_nodes(vec![node], false);
    }
}

/// Splits a list of nodes into as many parts as one daemon boots itself.
fn split(nodes: &[NodeSpec]) -> Vec<Vec<NodeSpec>> {
    let parts = nodes.len().min(BOOT_FANOUT_MAX);
    (0..parts)
        .map(|part| nodes.iter().skip(part).step_by(parts).cloned().collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::boot::Reach;

    fn node(name: String) -> NodeSpec {
        NodeSpec {
            name: NodeName::new(name).unwrap(),
            address: "127.0.0.1".into(),
            site: "here".into(),
            cpus: Vec::new(),
            reach: Reach::Local,
        }
    }

    #[test]
    fn a_subtree_is_split_into_few_parts_that_hold_every_node_once() {
        for count in 0..30 {
            let nodes: Vec<NodeSpec> = (0..count).map(|i| node(format!("n{i}"))).collect();
            let parts = split(&nodes);
            assert!(parts.len() <= BOOT_FANOUT_MAX && parts.iter().all(|part| !part.is_empty()));
            let mut names: Vec<String> = parts.concat().iter().map(|node| node.name.to_string()).collect();
            names.sort();
            let mut all: Vec<String> = nodes.iter().map(|node| node.name.to_string()).collect();
            all.sort();
            assert_eq!(names, all);
        }
    }
}
