//! Images of parked data, as the memory files that processes have open. Must never open one.

use crate::{
    cluster::{Cluster, LIMIT},
    processes, wait,
};

/// What memory files with parked data are called: by ranks, by keepers, by daemons, and by stand-in ranks.
const NAMES: [&str; 4] = [
    "memfd:pcm-parked",
    "memfd:pcm-salvaged",
    "memfd:pcm-fetched",
    "memfd:stand-in",
];

/// Images that a process has open.
///
/// # Panics
/// When there is no such process.
pub fn images(pid: u32) -> usize {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("a living process");
    let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    targets
        .filter(|target| NAMES.iter().any(|name| target.to_string_lossy().contains(name)))
        .count()
}

/// Waits until no daemon and no keeper of these nodes holds an image, as a finished relaunch leaves them.
pub fn expect_none(cluster: &Cluster, nodes: &[&str]) {
    for node in nodes {
        let daemon = cluster.daemon_pid(node);
        let keeper = processes::parent(daemon);
        wait::until("the images to be dropped", LIMIT, || {
            (images(daemon) + images(keeper) == 0).then_some(())
        });
    }
}
