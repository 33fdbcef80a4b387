//! A job that iterates until its test ends it: heat2d on two nodes, under the name `plate`.

use crate::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    wait,
};
use serde_json::Value;

/// Starts it, each iteration with this sleep, and waits until both ranks iterate.
///
/// # Panics
/// When they do not in time.
pub fn iterating(cluster: &Cluster, sleep_us: u32) -> Background {
    let mut command = cluster.pcmctl(&["run", "-n", "2", "--nodes", "n0,n1", "--name", "plate", "--"]);
    command.arg(built("heat2d-c"));
    command.args(["--rows", "64", "--cols", "64", "--iterations", "1000000"]);
    command.args(["--sleep-us", &sleep_us.to_string()]);
    let running = Background::start(&mut command);
    wait::until("the job runs", LIMIT, || {
        let outcome = cluster.run(&["ps", "plate", "--json"]);
        let document: Value = serde_json::from_str(&outcome.stdout).ok()?;
        let rows = document["ranks"].as_array()?;
        let is_counting = rows.len() == 2 && rows.iter().all(|rank| rank["iteration"].as_u64() > Some(5));
        (document["state"] == "running" && is_counting).then_some(())
    });
    running
}
