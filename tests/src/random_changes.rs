//! Random live changes of a running heat2d: a rank moves, or one or two join or leave.

use crate::{cluster::Cluster, malleable::Malleable, processes};
use pcm_proto::random::Random;
use serde_json::Value;

const RANKS_MAX: usize = 6;

/// Nodes of the cluster that the job runs on.
pub const NODES: u32 = 4;

/// Iterations and sleep in microseconds of a job that lasts longer than fifty changes on a busy machine.
pub const PACE: (u64, u32) = (30_000, 700);

/// Makes so many changes; what `pcmctl` said of each.
///
/// # Panics
/// When a change was not live, or a process that left is still there.
pub fn make(cluster: &Cluster, job: &Malleable<'_>, changes: u32, random: &mut Random) -> Vec<Value> {
    let mut all = Vec::new();
    for round in 1..=changes {
        let before = job.ranks();
        let done = change(job, random);
        let after = job.ranks();
        assert_eq!(done["mode"], "live", "round {round}: {done}\n{}", cluster.logs());
        let gone = before
            .iter()
            .filter(|rank| after.iter().all(|other| other.pid != rank.pid));
        for gone in gone {
            assert!(
                !processes::is_alive(gone.pid),
                "round {round}: {gone:?} left and is still there"
            );
        }
        all.push(done);
    }
    all
}

fn change(job: &Malleable<'_>, random: &mut Random) -> Value {
    let ranks = job.ranks();
    let size = ranks.len();
    let to = (size + random.index(5)).saturating_sub(2).clamp(1, RANKS_MAX);
    if to != size {
        return job.resize(to);
    }
    let rank = random.index(size);
    let nodes = (0..NODES).map(|number| format!("n{number}"));
    let others: Vec<String> = nodes.filter(|node| *node != ranks[rank].node).collect();
    job.migrate(rank, &others[random.index(others.len())])
}
