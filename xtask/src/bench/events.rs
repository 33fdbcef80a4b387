//! Events of a job, as `pcmctl` tells them. Only reads.

use crate::{failure::Failure, own_cluster::OwnCluster};
use serde_json::Value;
use std::process::Stdio;

/// All events of this kind of the job of this name, oldest first.
pub(super) fn of(cluster: &OwnCluster<'_>, job: &str, kind: &str) -> Result<Vec<Value>, Failure> {
    let told = cluster
        .pcmctl(&["events", job, "--json"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| Failure::Start {
            program: "pcmctl events".into(),
            source,
        })?;
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let events = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    Ok(events.filter(|event: &Value| event["kind"] == kind).collect())
}
