//! What a person may order about a running job or a node, from whatever surface: as a question, as a request to a
//! daemon, and what came of it in words.

use crate::failure::Failure;
use crate::hostfile;
use crate::link::Link;
use pcm_proto::control::{ControlToDaemon, DaemonToControl, LayoutChange};
use pcm_proto::ids::{JobId, NodeName, Rank};
use pcm_proto::layout::ModeWanted;
use pcm_view::sentences::{change_words, checkpoint_words};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// All deadlines of an order together; its daemon gives up before.
pub(crate) const DONE_WITHIN: Duration = Duration::from_secs(420);

/// As JSON it is what a button of the dashboard sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Order {
    Migrate {
        job: JobId,
        rank: Rank,
        to: NodeName,
    },
    Expand {
        job: JobId,
        to: u32,
    },
    Shrink {
        job: JobId,
        to: u32,
    },
    Drain {
        node: NodeName,
    },
    /// A drained node takes ranks again, and these go back to it.
    Undrain {
        node: NodeName,
        back: Vec<Returning>,
    },
    Checkpoint {
        job: JobId,
    },
}

/// Ranks of a job that go back to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Returning {
    pub(crate) job: JobId,
    pub(crate) ranks: Vec<Rank>,
}

impl Order {
    /// What a person is asked before it is carried out.
    pub(crate) fn question(&self) -> String {
        match self {
            Self::Migrate { job, rank, to } => format!("move rank {rank} of job {job} to node {to}?"),
            Self::Expand { job, to } => format!("expand job {job} to {to} ranks?"),
            Self::Shrink { job, to } => format!("shrink job {job} to {to} ranks?"),
            Self::Drain { node } => format!("move every rank off node {node} and start none there?"),
            Self::Undrain { node, .. } => format!("let node {node} take ranks again?"),
            Self::Checkpoint { job } => format!("make a checkpoint of job {job}?"),
        }
    }

    /// The requests, one after the other; `cause` is who asks, for the event.
    pub(crate) fn requests(self, cause: &str) -> Vec<ControlToDaemon> {
        let reconfigure = |job, change| ControlToDaemon::Reconfigure {
            job,
            change,
            mode: ModeWanted::Auto,
            cause: cause.to_owned(),
            method: None,
        };
        let only = match self {
            Self::Migrate { job, rank, to } => reconfigure(job, LayoutChange::Migrate(vec![(rank, to)])),
            Self::Expand { job, to } => reconfigure(job, LayoutChange::Expand { to, nodes: Vec::new() }),
            Self::Shrink { job, to } => reconfigure(job, LayoutChange::Shrink { to }),
            Self::Checkpoint { job } => ControlToDaemon::Checkpoint { job, into: None },
            Self::Drain { node } => ControlToDaemon::Drain {
                node,
                deadline_ms: None,
            },
            Self::Undrain { node, back } => {
                // Of a node that is there only its name is read.
                let join = ControlToDaemon::Join(hostfile::local_node(node.clone(), Vec::new()));
                let moves = |ranks: Vec<Rank>| ranks.into_iter().map(|rank| (rank, node.clone())).collect();
                let returns = back.into_iter().map(|Returning { job, ranks }| (job, moves(ranks)));
                let returns = returns.map(|(job, moves)| reconfigure(job, LayoutChange::Migrate(moves)));
                return std::iter::once(join).chain(returns).collect();
            }
        };
        vec![only]
    }

    /// Carries it out; what it came to, in one line.
    pub(crate) async fn carry_out(self, link: &mut Link, cause: &str) -> Result<String, Failure> {
        let mut words = Vec::new();
        for request in self.requests(cause) {
            words.push(outcome_words(&link.ask(request, DONE_WITHIN).await?));
        }
        Ok(words.join("; "))
    }
}

/// What an order came to, in one line.
pub(crate) fn outcome_words(answer: &DaemonToControl) -> String {
    match answer {
        DaemonToControl::Reconfigured(done) => change_words(done),
        DaemonToControl::Checkpointed {
            iteration,
            ranks,
            bytes: size,
            held_ms,
            directory,
        } => {
            let words = checkpoint_words(*iteration, *ranks, *size, *held_ms);
            match directory {
                Some(directory) => format!("{words}; in {}", String::from_utf8_lossy(directory)),
                None => words,
            }
        }
        DaemonToControl::Joined(node) => format!("node {} takes ranks", node.name),
        _ => "done".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{Bytes, Iteration};

    #[test]
    fn every_order_becomes_its_request_and_names_what_it_is_about() {
        let (job, node) = (JobId(3), NodeName::new("n2").unwrap());
        let only = |order: Order| order.requests("top").pop().unwrap();
        let layout = |order: Order| match only(order) {
            ControlToDaemon::Reconfigure { job, change, cause, .. } => {
                assert_eq!((job, cause.as_str()), (JobId(3), "top"));
                change
            }
            other => panic!("{other:?}"),
        };
        let (rank, to) = (Rank(1), node.clone());
        let migrate = Order::Migrate { job, rank, to };
        assert!(migrate.question().contains("rank 1 of job 3 to node n2"));
        assert_eq!(layout(migrate), LayoutChange::Migrate(vec![(rank, node.clone())]));
        let nodes = Vec::new();
        assert_eq!(
            layout(Order::Expand { job, to: 5 }),
            LayoutChange::Expand { to: 5, nodes }
        );
        assert_eq!(layout(Order::Shrink { job, to: 2 }), LayoutChange::Shrink { to: 2 });
        let checkpoint = only(Order::Checkpoint { job });
        assert_eq!(checkpoint, ControlToDaemon::Checkpoint { job, into: None });
        let drain = only(Order::Drain { node: node.clone() });
        assert!(matches!(drain, ControlToDaemon::Drain { deadline_ms: None, .. }));
        let (ranks, to) = (vec![Rank(1)], node.clone());
        let back = vec![Returning { job, ranks }];
        let undrain = Order::Undrain { node, back };
        let first = &undrain.clone().requests("top")[0];
        assert!(matches!(first, ControlToDaemon::Join(spec) if spec.name == to));
        assert_eq!(layout(undrain), LayoutChange::Migrate(vec![(Rank(1), to)]));
    }

    #[test]
    fn every_button_of_the_dashboard_becomes_its_order() {
        let order = |text: &str| serde_json::from_str::<Order>(text);
        let (job, node) = (JobId(3), |name: &str| NodeName::new(name).unwrap());
        let (rank, to) = (Rank(1), node("n2"));
        let migrate = order(r#"{"act":"migrate","job":3,"rank":1,"to":"n2"}"#);
        assert_eq!(migrate.unwrap(), Order::Migrate { job, rank, to });
        let expand = order(r#"{"act":"expand","job":3,"to":5}"#);
        assert_eq!(expand.unwrap(), Order::Expand { job, to: 5 });
        let shrink = order(r#"{"act":"shrink","job":3,"to":2}"#);
        assert_eq!(shrink.unwrap(), Order::Shrink { job, to: 2 });
        let drain = order(r#"{"act":"drain","node":"n1"}"#);
        assert_eq!(drain.unwrap(), Order::Drain { node: node("n1") });
        let undrain = order(r#"{"act":"undrain","node":"n1","back":[{"job":3,"ranks":[1]}]}"#);
        let (node, ranks) = (node("n1"), vec![rank]);
        let back = vec![Returning { job, ranks }];
        assert_eq!(undrain.unwrap(), Order::Undrain { node, back });
        let checkpoint = order(r#"{"act":"checkpoint","job":3}"#);
        assert_eq!(checkpoint.unwrap(), Order::Checkpoint { job });
        assert!(order(r#"{"act":"kill","job":3}"#).is_err());
        assert!(order(r#"{"act":"drain","node":"../n1"}"#).is_err());
        assert!(order(r#"{"act":"checkpoint","job":3,"into":"/x"}"#).is_err());
    }

    #[test]
    fn a_checkpoint_is_told_with_its_size() {
        let said = outcome_words(&DaemonToControl::Checkpointed {
            iteration: Iteration(7),
            ranks: 4,
            bytes: Bytes(3 << 20),
            held_ms: 1.25,
            directory: Some(b"/kept/heat-7".to_vec()),
        });
        let wanted = "checkpoint at iteration 7, 4 ranks, 3.0 MiB, the program stopped for 1.2 ms; in /kept/heat-7";
        assert_eq!(said, wanted);
    }
}
