//! Processes that wait for a job to grow, as `ps` shows them.

use crate::{
    cluster::{Cluster, LIMIT},
    malleable::Malleable,
    wait,
};
use serde_json::Value;

/// Waits until so many of the first job are ready; their process ids.
///
/// # Panics
/// When they are not.
pub fn ready(cluster: &Cluster, count: usize) -> Vec<u32> {
    wait::until("standbys that are ready", LIMIT, || {
        let seen: Value = serde_json::from_str(&cluster.run(&["ps", "1", "--json"]).stdout).ok()?;
        let spares = seen["spares"].as_array()?;
        let ready = spares
            .iter()
            .filter(|spare| spare["ready"] == true && spare["process"].is_null());
        let pids: Vec<u32> = ready
            .filter_map(|spare| u32::try_from(spare["pid"].as_u64()?).ok())
            .collect();
        (spares.len() == count && pids.len() == count).then_some(pids)
    })
}

/// A job of one rank that keeps one grows: the rank that joins is it. Then the job ends right.
///
/// # Panics
/// When that is not so.
pub fn joins_and_ends_right(cluster: &Cluster, program: &str, variables: &[(&str, &str)]) {
    let variables: Vec<(&str, &str)> = [&[("PCM_SPARES", "1")], variables].concat();
    let job = Malleable::start_with(cluster, program, 1, (6000, 1000), &variables);
    let standby = ready(cluster, 1)[0];
    job.resize(2);
    let ranks: Vec<u32> = job.ranks().into_iter().map(|rank| rank.pid).collect();
    assert!(ranks.contains(&standby), "{ranks:?} run, {standby} waited");
    assert_eq!(job.ends_right().ranks, 2);
}
