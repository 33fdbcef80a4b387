//! The daemon that a request of `pcmctl` is for: the one that received it, the node that the request names, or the
//! coordinator of its job. Pure functions, no state.

use super::questions::ANSWER_WITHIN;
use pcm_proto::control::{ControlToDaemon, NodeState, Refusal};
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::refusal;
use std::time::Duration;

/// A node that joins is booted and has reported within this time.
const JOIN_WITHIN: Duration = Duration::from_secs(15);

/// A change of layout has ended or was given up within this time: all its deadlines together.
pub const LAYOUT_WITHIN: Duration = Duration::from_secs(400);

/// The daemon that has to answer a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Addressee {
    Here,
    /// The coordinator of this job, which has to be found.
    Coordinator(JobId),
    /// The daemon of this node, which answers within this time.
    Node {
        node: NodeName,
        within: Duration,
    },
    /// None: the node is unknown or gone.
    Refused(Refusal),
}

/// Finds the daemon that a request is for. `leads` says whether this one leads or remembers a job, `state` how a node
/// is.
pub fn addressee(
    request: &ControlToDaemon,
    own: &NodeName,
    leads: impl Fn(JobId) -> bool,
    state: impl Fn(&NodeName) -> Option<NodeState>,
) -> Addressee {
    if let Some(job) = job_of(request) {
        return match leads(job) {
            true => Addressee::Here,
            false => Addressee::Coordinator(job),
        };
    }
    let is_draining = |node: &NodeName| state(node) == Some(NodeState::Draining);
    let named = match request {
        // A node that is drained is taken back by its own daemon; another is booted from here.
        ControlToDaemon::Join(spec) => Some(&spec.name).filter(|node| is_draining(node)),
        _ => node_of(request),
    };
    let Some(node) = named.filter(|node| *node != own) else {
        return Addressee::Here;
    };
    match state(node) {
        None => Addressee::Refused(Refusal::new(
            refusal::UNKNOWN_NODE,
            format!("node {node} is not part of the cluster: `pcmctl nodes` lists those that are"),
        )),
        Some(NodeState::Gone) => Addressee::Refused(Refusal::new(
            refusal::NODE_UNREACHABLE,
            format!("node {node} is gone: see `pcmctl nodes`"),
        )),
        Some(_) => Addressee::Node {
            node: node.clone(),
            within: match request {
                ControlToDaemon::Drain { .. } => LAYOUT_WITHIN,
                _ => JOIN_WITHIN,
            },
        },
    }
}

/// The time within which a job's coordinator answers a request.
pub fn coordinator_answers_within(request: &ControlToDaemon) -> Duration {
    match request {
        ControlToDaemon::Reconfigure { .. } => LAYOUT_WITHIN,
        _ => ANSWER_WITHIN,
    }
}

fn job_of(request: &ControlToDaemon) -> Option<JobId> {
    match request {
        ControlToDaemon::Signal { job, .. }
        | ControlToDaemon::Kill { job }
        | ControlToDaemon::Reconfigure { job, .. }
        | ControlToDaemon::Ps { job }
        | ControlToDaemon::Checkpoint { job, .. }
        | ControlToDaemon::Look { job }
        | ControlToDaemon::Stacks { job, .. }
        | ControlToDaemon::Trace { job, .. }
        | ControlToDaemon::Series { job } => Some(*job),
        _ => None,
    }
}

fn node_of(request: &ControlToDaemon) -> Option<&NodeName> {
    match request {
        ControlToDaemon::Ping { node }
        | ControlToDaemon::Logs { node, .. }
        | ControlToDaemon::LogLevels { node, .. } => node.as_ref(),
        ControlToDaemon::Drain { node, .. } | ControlToDaemon::Remove { node } => Some(node),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::boot::{NodeSpec, Reach};

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn of(request: &ControlToDaemon) -> Addressee {
        let state = |name: &NodeName| match name.as_str() {
            "up" => Some(NodeState::Up),
            "gone" => Some(NodeState::Gone),
            "drained" => Some(NodeState::Draining),
            _ => None,
        };
        addressee(request, &node("own"), |job| job == JobId(1), state)
    }

    fn refusal_of(request: &ControlToDaemon) -> String {
        match of(request) {
            Addressee::Refused(refusal) => refusal.code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_about_a_job_is_for_its_coordinator() {
        assert_eq!(of(&ControlToDaemon::Ps { job: JobId(1) }), Addressee::Here);
        assert_eq!(
            of(&ControlToDaemon::Kill { job: JobId(2) }),
            Addressee::Coordinator(JobId(2))
        );
    }

    #[test]
    fn a_request_for_a_node_goes_there_if_the_node_is_known_and_live() {
        let remove = |name| ControlToDaemon::Remove { node: node(name) };
        assert_eq!(of(&ControlToDaemon::Ping { node: None }), Addressee::Here);
        assert_eq!(of(&remove("own")), Addressee::Here);
        assert_eq!(
            of(&remove("up")),
            Addressee::Node {
                node: node("up"),
                within: JOIN_WITHIN
            }
        );
        let join = |name| {
            of(&ControlToDaemon::Join(NodeSpec {
                name: node(name),
                address: "127.0.0.1".into(),
                site: "here".into(),
                cpus: Vec::new(),
                reach: Reach::Local,
            }))
        };
        assert_eq!(
            [join("new"), join("up"), join("own")],
            [(); 3].map(|()| Addressee::Here)
        );
        let (node, within) = (node("drained"), JOIN_WITHIN);
        assert_eq!(join("drained"), Addressee::Node { node, within });
        assert_eq!(refusal_of(&remove("gone")), refusal::NODE_UNREACHABLE);
        assert_eq!(refusal_of(&remove("other")), refusal::UNKNOWN_NODE);
    }
}
