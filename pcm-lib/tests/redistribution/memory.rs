//! What a move costs in memory: the stated bound while it is under way, nothing afterwards.

use crate::{
    control::{self, Outcome},
    job::Job,
    launch::under_mpi,
};
use pcm_core::{
    partition::{ArraySpec, AxisSpec, Partition},
    redistribution::{ArrayPlan, HaloFill, RankChange},
};
use pcm_lib::{
    redistribute::Limits,
    region::{ArrayForm, ElementType},
};
use pcm_proto::ids::ProcessId;

const MIB: u64 = 1 << 20;
/// What MPI and the plan may take beside: measured at 1 to 2 MiB.
const SLACK: u64 = 4 * MIB;

fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Lets the system count the peak anew.
fn peak_forget() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

fn form(axes: impl Into<Vec<AxisSpec>>) -> ArrayForm {
    ArrayForm {
        element: ElementType::Double,
        spec: ArraySpec::new(8, axes),
        halo: HaloFill::Filled,
        is_scratch: false,
        is_constant: false,
    }
}

/// Has all pages of this process's part made.
fn touch(job: &mut Job) {
    if let Some(registry) = &mut job.registry {
        let part = registry.typed::<f64>("array0").unwrap();
        part.of_mut(registry).fill(1.0);
    }
}

fn move_to(job: &mut Job, next: &[u32]) {
    match job.begin(next, &[]) {
        None => job.took_place(next),
        Some(mut under) => {
            let registry = job.registry.as_mut().unwrap();
            match control::drive(
                &mut under.movement,
                registry,
                under.transfer.transport(),
                &under.control,
            ) {
                Outcome::Complete { .. } => job.commit(under),
                Outcome::Failed(error) => panic!("{error:?}"),
            }
        }
    }
}

/// Moves once to warm MPI up, back, and once more with the peak watched on survivors.
fn peak_within_bound(form: &ArrayForm, from: &[u32], to: &[u32]) {
    let limits = Limits {
        chunk_bytes: 256 << 10,
        in_flight: 2,
        peers: 4,
    };
    let mut job = Job::new(from.len() as u32, vec![form.clone()], limits);
    touch(&mut job);
    move_to(&mut job, to);
    move_to(&mut job, from);
    let is_survivor = from.contains(&job.me) && to.contains(&job.me);
    // The peak counts shared pages too, of which MPI takes its own.
    let before = status("VmRSS:");
    peak_forget();
    let old = job.layout.clone();
    move_to(&mut job, to);
    let peak = status("VmHWM:");
    if let Some(registry) = &job.registry {
        let part = registry.typed::<f64>("array0").unwrap();
        assert!(part.of(registry).iter().all(|value| *value == 1.0));
    }
    if is_survivor {
        let partition = |ranks: &[u32]| Partition::new(&form.spec, ranks.len() as u32).unwrap();
        let ids = |ranks: &[u32]| ranks.iter().copied().map(ProcessId).collect();
        let change = RankChange::new(ids(&old), ids(to)).unwrap();
        let plan =
            ArrayPlan::for_process(&partition(&old), &partition(to), &change, ProcessId(job.me), form.halo).unwrap();
        let bound = plan.totals().extra_max + limits.window_bytes() + SLACK;
        assert!(
            peak <= before + bound,
            "process {}: {} MiB more at the peak, {} allowed",
            job.me,
            (peak - before) / MIB,
            bound / MIB
        );
    }
}

#[test]
fn a_move_takes_no_more_memory_than_stated() {
    let test = "memory::a_move_takes_no_more_memory_than_stated";
    under_mpi(test, 3, || {
        let rows = form([AxisSpec::block(3 * 1024).with_halo(1), AxisSpec::whole(4096)]);
        let columns = form([AxisSpec::whole(4096), AxisSpec::block(3 * 1024).with_halo(1)]);
        for form in [rows, columns] {
            peak_within_bound(&form, &[0, 1], &[0, 1, 2]);
            peak_within_bound(&form, &[0, 1, 2], &[0, 1]);
        }
    });
}

/// MPI enlarges its pool of message buffers by this much, in some runs once after round 10: 2,084 KiB appear in one
/// step.
const MPI_POOL_CHUNK: u64 = 2 * MIB + 64 * 1024;

#[test]
fn a_survivor_does_not_grow_from_round_10_to_round_50() {
    let test = "memory::a_survivor_does_not_grow_from_round_10_to_round_50";
    under_mpi(test, 4, || {
        let form = form([AxisSpec::block(500).with_halo(1), AxisSpec::block(350)]);
        let mut job = Job::new(2, vec![form], Limits::default());
        let mut at_10 = 0;
        for round in 1..=50_u64 {
            touch(&mut job);
            let next: &[u32] = [&[0, 1, 2, 3][..], &[0, 3], &[2, 0, 1], &[0, 1]][round as usize % 4];
            move_to(&mut job, next);
            // Not the pages of MPI's shared segments: their number is fixed, but each counts when first touched.
            if round == 10 {
                at_10 = status("RssAnon:");
            }
        }
        // Round 50 has the layout of round 10.
        let growth = status("RssAnon:").saturating_sub(at_10);
        if job.me == 0 {
            assert!(growth <= 2 * MIB + MPI_POOL_CHUNK, "{} KiB", growth >> 10);
        }
    });
}
