//! What the buttons of the page ask for, as requests to a daemon.

use super::teller::Source;
use crate::failure::Failure;
use crate::output::bytes;
use pcm_proto::control::{ControlToDaemon, DaemonToControl, LayoutChange};
use pcm_proto::ids::{JobId, NodeName, Rank};
use pcm_proto::layout::ModeWanted;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A daemon gives a reconfiguration up before.
const DONE_WITHIN: Duration = Duration::from_secs(420);

/// One order.
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
    fn request(self) -> Result<ControlToDaemon, Failure> {
        let node = |name: &str| NodeName::new(name).map_err(|error| Failure::usage(format!("node {name:?}: {error}")));
        let (job, change) = match self {
            Self::Migrate { job, rank, to } => (job, LayoutChange::Migrate(vec![(Rank(rank), node(&to)?)])),
            Self::Expand { job, to } => (job, LayoutChange::Expand { to, nodes: Vec::new() }),
            Self::Shrink { job, to } => (job, LayoutChange::Shrink { to }),
            Self::Checkpoint { job } => return Ok(ControlToDaemon::Checkpoint { job: JobId(job) }),
            Self::Drain { node: name } => {
                return Ok(ControlToDaemon::Drain {
                    node: node(&name)?,
                    deadline_ms: None,
                });
            }
        };
        Ok(ControlToDaemon::Reconfigure {
            job: JobId(job),
            change,
            mode: ModeWanted::Auto,
            cause: "dashboard".to_owned(),
        })
    }
}

/// Carries out the order in `body`; what goes wrong is told, not raised.
pub(super) async fn carry_out(source: &Source, body: &[u8]) -> Outcome {
    let done = async {
        let act: Act = serde_json::from_slice(body)
            .map_err(|error| Failure::usage(format!("the page sent an order that is not understood: {error}")))?;
        let request = act.request()?;
        source.link().await?.ask(request, DONE_WITHIN).await
    };
    let (is_done, text) = match done.await {
        Ok(DaemonToControl::Reconfigured(done)) => (
            true,
            format!(
                "{}: {} ranks moved, pause {:.1} ms, {:.1} ms in all",
                done.plan,
                done.moved.len(),
                done.pause_ms,
                done.total_ms
            ),
        ),
        Ok(DaemonToControl::Checkpointed {
            iteration,
            bytes: size,
            held_ms,
            ..
        }) => (
            true,
            format!(
                "checkpoint at iteration {iteration}, {}, the program was held {held_ms:.1} ms",
                bytes(size.0)
            ),
        ),
        Ok(_) => (true, "done".to_owned()),
        Err(failure) => (false, failure.message),
    };
    Outcome { is_done, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_button_becomes_its_request() {
        let request = |text: &str| serde_json::from_str::<Act>(text).unwrap().request().unwrap();
        let migrate = request(r#"{"act":"migrate","job":3,"rank":1,"to":"n2"}"#);
        let ControlToDaemon::Reconfigure { job, change, .. } = migrate else {
            panic!("{migrate:?}");
        };
        let to = NodeName::new("n2").unwrap();
        assert_eq!((job, change), (JobId(3), LayoutChange::Migrate(vec![(Rank(1), to)])));
        assert!(matches!(
            request(r#"{"act":"drain","node":"n1"}"#),
            ControlToDaemon::Drain { .. }
        ));
        assert!(matches!(
            request(r#"{"act":"checkpoint","job":3}"#),
            ControlToDaemon::Checkpoint { job: JobId(3) }
        ));
        assert!(serde_json::from_str::<Act>(r#"{"act":"kill","job":3}"#).is_err());
    }
}
