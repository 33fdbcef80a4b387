//! From two samples to a profile of the time between them. Pure.

use crate::sampling::Sample;
use pcm_proto::agent::NodeProfile;

/// What the node was like between two samples.
pub fn profile(before: &Sample, after: &Sample, speed: f64) -> NodeProfile {
    let seconds = (after.at_s - before.at_s).max(1e-6);
    let (mut by_ranks, mut run_delay) = (0.0, 0.0_f64);
    for (key, now) in &after.ranks {
        // A rank that started in between has used nothing before.
        let then = before.ranks.get(key).copied().unwrap_or_default();
        by_ranks += (now.used_s - then.used_s).max(0.0);
        let run = now.run_ns.saturating_sub(then.run_ns) as f64;
        let delay = now.delay_ns.saturating_sub(then.delay_ns) as f64;
        if run + delay > 0.0 {
            run_delay = run_delay.max(delay / (run + delay));
        }
    }
    let mut busy = (after.busy_s - before.busy_s).max(0.0);
    // Niced work competes only with ranks that are niced, too.
    if after.ranks.values().any(|rank| rank.is_niced) {
        busy += (after.niced_s - before.niced_s).max(0.0);
    }
    let share = |before_us: u64, after_us: u64| (after_us.saturating_sub(before_us) as f64 / 1e6 / seconds).min(1.0);
    NodeProfile {
        speed,
        // Ticks of the machine and of its processes are not counted at the same moment.
        load_by_others: ((busy - by_ranks) / seconds).max(0.0),
        load_by_ranks: by_ranks / seconds,
        run_delay,
        cpu_pressure: share(before.cpu_pressure_us, after.cpu_pressure_us),
        memory_pressure: share(before.memory_pressure_us, after.memory_pressure_us),
        free_memory: after.available_bytes,
        own_cost: (after.own_s - before.own_s).max(0.0) / seconds,
    }
}

/// Whether a profile says something else than the one before, so that it is worth telling at once.
pub fn is_notable(before: &NodeProfile, after: &NodeProfile) -> bool {
    let differs = |a: f64, b: f64, by: f64| (a - b).abs() >= by;
    differs(before.load_by_others, after.load_by_others, 0.25) || differs(before.run_delay, after.run_delay, 0.15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::RankSample;
    use pcm_proto::ids::{JobId, ProcessId};
    use pcm_proto::keeper::ProcessKey;

    fn key(process: u32) -> ProcessKey {
        ProcessKey {
            job: JobId(1),
            process: ProcessId(process),
        }
    }

    fn rank(used_s: f64, run_ns: u64, delay_ns: u64) -> RankSample {
        RankSample {
            used_s,
            run_ns,
            delay_ns,
            is_niced: false,
        }
    }

    #[test]
    fn what_our_ranks_use_is_not_load_by_others() {
        let before = Sample {
            ranks: [(key(0), rank(5.0, 0, 0))].into(),
            busy_s: 10.0,
            ..Sample::default()
        };
        let after = Sample {
            at_s: 1.0,
            ranks: [(key(0), rank(5.9, 0, 0))].into(),
            busy_s: 11.5,
            ..Sample::default()
        };
        let profile = profile(&before, &after, 1.0);
        assert!((profile.load_by_ranks - 0.9).abs() < 1e-9 && (profile.load_by_others - 0.6).abs() < 1e-9);
    }

    #[test]
    fn niced_work_is_load_for_niced_ranks_only() {
        let between = |is_niced: bool| {
            let of_rank = RankSample {
                is_niced,
                ..rank(5.0, 0, 0)
            };
            let before = Sample {
                ranks: [(key(0), of_rank)].into(),
                ..Sample::default()
            };
            let after = Sample {
                at_s: 1.0,
                niced_s: 0.7,
                ..before.clone()
            };
            profile(&before, &after, 1.0).load_by_others
        };
        assert_eq!(between(false), 0.0);
        assert!((between(true) - 0.7).abs() < 1e-9);
    }

    #[test]
    fn the_worst_ranks_delay_counts_also_of_one_that_just_started() {
        let before = Sample {
            ranks: [(key(0), rank(0.0, 1000, 1000))].into(),
            ..Sample::default()
        };
        let ranks = [(key(0), rank(0.0, 2000, 1000)), (key(1), rank(0.0, 100, 300))];
        let after = Sample {
            at_s: 1.0,
            ranks: ranks.into(),
            ..Sample::default()
        };
        assert!((profile(&before, &after, 1.0).run_delay - 0.75).abs() < 1e-9);
    }

    #[test]
    fn counters_that_run_backwards_give_no_negative_load() {
        let before = Sample {
            busy_s: 3.0,
            ranks: [(key(0), rank(5.0, 9, 9))].into(),
            ..Sample::default()
        };
        let after = Sample {
            at_s: 1.0,
            busy_s: 2.0,
            ranks: [(key(0), rank(4.0, 1, 1))].into(),
            ..Sample::default()
        };
        let profile = profile(&before, &after, 1.0);
        assert!(profile.load_by_others >= 0.0 && profile.load_by_ranks >= 0.0 && profile.run_delay >= 0.0);
    }
}
