//! What changes have cost by method, among the user's settings: kept from one cluster and brought to the next ones.
//! Must never read it: daemons do, and say what they think of it.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::kept;
use pcm_proto::method::COSTS_FILE;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// Keeps what the daemons of this cluster have written down; they began with what was kept before.
pub(crate) fn keep(cluster: &ClusterDir) -> Result<PathBuf, Failure> {
    let from = cluster.method_costs_path();
    let text = fs::read(&from).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::system(format!(
            "{} is not there: daemons on other machines have written it there, copy it from them",
            from.display()
        )),
        _ => Failure::file("read", &from, &error),
    })?;
    kept::keep(COSTS_FILE, "what changes cost", &text)
}

/// Gives a new cluster what was kept before, if anything was.
pub(crate) fn bring(cluster: &ClusterDir) -> Result<(), Failure> {
    match kept::kept(COSTS_FILE) {
        Some(text) => cluster.save_method_costs(&text),
        None => Ok(()),
    }
}
