//! Boots other nodes: the subtree that this node was given at its birth, and nodes that join later. Each booted node
//! boots its own part of the tree; reports of the parts are passed on upwards.

use super::machine::{Cluster, set_address};
use crate::node::event::BootFact;
use crate::node::outbox::{BootEffect, Effect, Outbox};
use crate::node::requester::Requester;
use crate::node::settings::Settings;
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

impl Boot {
    /// Reports that this daemon is up and boots its subtree.
    pub(in crate::node) fn boot_subtree(&mut self, settings: &Settings, out: &mut Outbox) {
        self.is_told = true;
        out.push(Effect::Boot(BootEffect::Ready));
        let parts = split(&settings.spec.subtree);
        self.parts = parts.len();
        for nodes in parts {
            boot_nodes(nodes, true, settings, out);
        }
        self.end_reports_if_done(out);
    }

    pub(in crate::node) fn on_fact(&mut self, fact: BootFact, cluster: &Cluster, out: &mut Outbox) {
        match fact {
            BootFact::Report(BootReport::Ready {
                node,
                address,
                keeper_pid,
                daemon_pid,
            }) => {
                set_address(&node, &address, out);
                let ready = BootReport::Ready {
                    node: node.clone(),
                    address,
                    keeper_pid,
                    daemon_pid,
                };
                self.ready.insert(node.clone(), ready);
                if cluster.nodes().is_live(&node) {
                    self.on_heard(&node, cluster, out);
                }
            }
            BootFact::Report(BootReport::Failed { node, reason }) => self.on_failed(&node, &reason, out),
            // The node ends.
            BootFact::Unheard => {}
            BootFact::PartDone => {
                self.parts = self.parts.saturating_sub(1);
                self.end_reports_if_done(out);
            }
        }
    }

    /// A node said how it is, so it is part of the cluster now.
    pub(in crate::node) fn on_heard(&mut self, node: &NodeName, cluster: &Cluster, out: &mut Outbox) {
        if let Some(ready) = self.ready.remove(node)
            && self.is_told
        {
            out.push(Effect::Boot(BootEffect::Report(ready)));
        }
        let joined = self.joining.iter().position(|(joining, _)| joining == node);
        if let Some(position) = joined {
            let (_, from) = self.joining.swap_remove(position);
            let status = cluster
                .nodes()
                .statuses(out.now())
                .into_iter()
                .find(|status| status.name == *node);
            if let Some(status) = status {
                out.answer(from, DaemonToControl::Joined(status));
            }
        }
        self.end_reports_if_done(out);
    }

    fn on_failed(&mut self, node: &NodeName, reason: &str, out: &mut Outbox) {
        tracing::warn!(%node, reason, "a node was not booted");
        let waiting = self.joining.iter().position(|(joining, _)| joining == node);
        match waiting {
            Some(position) => {
                let (_, from) = self.joining.swap_remove(position);
                let message = format!("node {node} was not booted: {reason}");
                out.answer(
                    from,
                    DaemonToControl::Refused(Refusal::new(refusal::BOOT_FAILED, message)),
                );
            }
            None if self.is_told => out.push(Effect::Boot(BootEffect::Report(BootReport::Failed {
                node: node.clone(),
                reason: reason.to_owned(),
            }))),
            None => {}
        }
    }

    fn end_reports_if_done(&mut self, out: &mut Outbox) {
        if self.is_told && self.parts == 0 && self.ready.is_empty() {
            self.is_told = false;
            out.push(Effect::Boot(BootEffect::EndReports));
        }
    }

    /// Somebody wants one more node.
    pub(in crate::node) fn on_join(
        &mut self,
        from: Requester,
        node: NodeSpec,
        (settings, cluster): (&Settings, &Cluster),
        out: &mut Outbox,
    ) {
        let is_known = cluster.nodes().is_live(&node.name);
        if is_known || self.joining.iter().any(|(joining, _)| *joining == node.name) {
            let message = format!("a node {} is there already: give the new one another name", node.name);
            return out.answer(
                from,
                DaemonToControl::Refused(Refusal::new(refusal::NODE_EXISTS, message)),
            );
        }
        self.joining.push((node.name.clone(), from));
        boot_nodes(vec![node], false, settings, out);
    }
}

/// Boots the first of these nodes, with the others as its subtree.
fn boot_nodes(nodes: Vec<NodeSpec>, is_part: bool, settings: &Settings, out: &mut Outbox) {
    let template = Box::new(BootSpec {
        subtree: Vec::new(),
        seeds: vec![settings.address.clone()],
        ..settings.spec.clone()
    });
    out.push(Effect::Boot(BootEffect::Boot {
        template,
        nodes,
        is_part,
    }));
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
