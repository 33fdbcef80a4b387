//! The placement a central greedy with full knowledge finds: what agents that know little are compared with. Shares no
//! code with them.

use super::world::World;

/// Rounds over all jobs; each stops when nothing improves.
const ROUNDS_MAX: usize = 50;

/// Throughput of all jobs when each job's slowest rank goes, again and again, to the node where it becomes fastest.
pub fn throughput(world: &World) -> f64 {
    let cpus = |_: usize| 1.0_f64;
    let mut ranks_on = vec![0_usize; world.nodes.len()];
    let mut places: Vec<Vec<usize>> = world.jobs.iter().map(|job| job.places.clone()).collect();
    places.iter().flatten().for_each(|node| ranks_on[*node] += 1);
    let rate = |node: usize, ranks: usize| {
        let wanted = ranks as f64 + world.nodes[node].demand;
        world.nodes[node].speed * (cpus(node) / wanted.max(1e-9)).min(1.0)
    };
    let mut free: Vec<usize> = (0..world.nodes.len()).filter(|node| ranks_on[*node] == 0).collect();
    free.sort_by(|a, b| rate(*b, 1).total_cmp(&rate(*a, 1)).then(a.cmp(b)));
    for _ in 0..ROUNDS_MAX {
        let mut has_moved = false;
        for (job, places) in places.iter_mut().enumerate() {
            let time = |rank: usize, node: usize, ranks: usize| world.jobs[job].shares[rank] / rate(node, ranks);
            let now = |rank: &usize| time(*rank, places[*rank], ranks_on[places[*rank]]);
            let Some(slowest) = (0..places.len()).max_by(|a, b| now(a).total_cmp(&now(b))) else {
                continue;
            };
            let Some(best) = free.first().copied() else { continue };
            if time(slowest, best, 1) < now(&slowest) * 0.99 {
                let old = std::mem::replace(&mut places[slowest], best);
                free.remove(0);
                (ranks_on[old], ranks_on[best]) = (ranks_on[old] - 1, 1);
                if ranks_on[old] == 0 {
                    let at = free.partition_point(|node| rate(*node, 1) >= rate(old, 1));
                    free.insert(at, old);
                }
                has_moved = true;
            }
        }
        if !has_moved {
            break;
        }
    }
    let jobs = places.iter().zip(&world.jobs).map(|(places, job)| {
        let slowest = places
            .iter()
            .enumerate()
            .map(|(rank, node)| job.work_ms * job.shares[rank] / rate(*node, ranks_on[*node]));
        job.work_ms / (slowest.fold(0.0, f64::max) + job.mpi_ms)
    });
    jobs.sum()
}
