//! Random live changes of a running heat2d: a rank moves, or one or two join or leave.

use crate::{asked, cluster::Cluster, malleable::Malleable, processes};
use pcm_proto::random::Random;
use serde_json::Value;

const RANKS_MAX: usize = 6;

/// By the median, who leaves is gone so soon after the commit.
const GONE_MAX_MS: f64 = 200.0;

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

/// Makes so many changes by the seed that a person asks for, else by another one each time; the leavers are gone soon,
/// and the job ends right, on one rank.
///
/// # Panics
/// When that is not so.
pub fn survives(cluster: &Cluster, job: Malleable<'_>, changes: u32) {
    let seed = asked::number("PCM_TEST_SEED").unwrap_or(u64::from(std::process::id()));
    println!("seed {seed}: PCM_TEST_SEED={seed} replays the changes");
    let all = make(cluster, &job, changes, &mut Random::new(seed));
    let [(closing, longest), (pause, _)] =
        ["/phases_ms/closing", "/pause_ms"].map(|time| median_and_longest(&all, time));
    println!("closing: median {closing} ms, longest {longest} ms; pause: median {pause} ms");
    assert!(closing <= GONE_MAX_MS, "leavers are gone late: {closing} ms");
    if job.ranks().len() > 1 {
        job.resize(1);
    }
    job.ends_right();
}

fn median_and_longest(changes: &[Value], time: &str) -> (f64, f64) {
    let times = changes.iter().map(|done| done.pointer(time).and_then(Value::as_f64));
    let mut times: Vec<f64> = times.map(|ms| ms.expect("a time")).collect();
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[times.len() - 1])
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
