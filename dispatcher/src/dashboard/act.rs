//! What the buttons of the page ask for, as requests to a daemon.

use super::teller::Source;
use crate::failure::Failure;
use crate::steer::{DONE_WITHIN, Order, outcome_words};
use pcm_proto::ids::{JobId, NodeName, Rank};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Act {
    Migrate { job: u64, rank: u32, to: String },
    Expand { job: u64, to: u32 },
    Shrink { job: u64, to: u32 },
    Drain { node: String },
    Checkpoint { job: u64 },
}

/// How it went, for the page.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    is_done: bool,
    text: String,
}

impl Act {
    fn order(self) -> Result<Order, Failure> {
        let node = |name: &str| NodeName::new(name).map_err(|error| Failure::usage(format!("node {name:?}: {error}")));
        Ok(match self {
            Self::Migrate { job, rank, to } => Order::Migrate {
                job: JobId(job),
                rank: Rank(rank),
                to: node(&to)?,
            },
            Self::Expand { job, to } => Order::Expand { job: JobId(job), to },
            Self::Shrink { job, to } => Order::Shrink { job: JobId(job), to },
            Self::Drain { node: name } => Order::Drain { node: node(&name)? },
            Self::Checkpoint { job } => Order::Checkpoint { job: JobId(job) },
        })
    }
}

/// Carries out the order in `body`; what goes wrong is told, not raised.
pub(super) async fn carry_out(source: &Source, body: &[u8]) -> Outcome {
    let done = async {
        let act: Act = serde_json::from_slice(body)
            .map_err(|error| Failure::usage(format!("the page sent an order that is not understood: {error}")))?;
        let request = act.order()?.request("dashboard");
        source.link().await?.ask(request, DONE_WITHIN).await
    };
    let (is_done, text) = match done.await {
        Ok(answer) => (true, outcome_words(&answer)),
        Err(failure) => (false, failure.message),
    };
    Outcome { is_done, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_button_becomes_its_order() {
        let order = |text: &str| serde_json::from_str::<Act>(text).unwrap().order().unwrap();
        let (job, node) = (JobId(3), |name: &str| NodeName::new(name).unwrap());
        let (rank, to) = (Rank(1), node("n2"));
        let migrate = order(r#"{"act":"migrate","job":3,"rank":1,"to":"n2"}"#);
        assert_eq!(migrate, Order::Migrate { job, rank, to });
        let expand = order(r#"{"act":"expand","job":3,"to":5}"#);
        assert_eq!(expand, Order::Expand { job, to: 5 });
        let shrink = order(r#"{"act":"shrink","job":3,"to":2}"#);
        assert_eq!(shrink, Order::Shrink { job, to: 2 });
        let drain = order(r#"{"act":"drain","node":"n1"}"#);
        assert_eq!(drain, Order::Drain { node: node("n1") });
        let checkpoint = order(r#"{"act":"checkpoint","job":3}"#);
        assert_eq!(checkpoint, Order::Checkpoint { job });
        assert!(serde_json::from_str::<Act>(r#"{"act":"kill","job":3}"#).is_err());
    }
}
