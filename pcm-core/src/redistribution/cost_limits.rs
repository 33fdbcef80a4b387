//! What planning may cost, checked as times with room for a slow build: the least of several runs counts.

use super::rank_order::{Overlap, Price, rank_order};
use super::*;
use crate::partition::{ArraySpec, AxisSpec, Partition};
use pcm_proto::ids::ProcessId;
use std::time::{Duration, Instant};

fn least_of(runs: u32, mut run: impl FnMut()) -> Duration {
    let times = (0..runs).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed()
    });
    times.min().expect("at least one run")
}

fn ids(ids: impl IntoIterator<Item = u32>) -> Vec<ProcessId> {
    ids.into_iter().map(ProcessId).collect()
}

fn check(spec: &ArraySpec, transfers_max: usize) {
    let [before, after] = [1000, 1024].map(|size| Partition::new(spec, size).expect("valid"));
    let change = RankChange::new(ids(0..1000), ids(0..1024)).expect("valid");
    let own = |process| ArrayPlan::for_process(&before, &after, &change, ProcessId(process), HaloFill::Filled);
    let plan = own(500).expect("valid");
    let transfers = plan.sends().len() + plan.receives().len();
    assert!(transfers <= transfers_max, "{transfers} transfers");
    let time = least_of(20, || drop(own(500)));
    assert!(time < Duration::from_millis(1), "{time:?}");
}

#[test]
fn own_part_of_a_trillion_elements_over_a_thousand_ranks_takes_less_than_a_millisecond() {
    check(
        &ArraySpec::new(8, [AxisSpec::block(1_000_000_000_000).with_halo(1)]),
        12,
    );
    check(
        &ArraySpec::new(
            8,
            [
                AxisSpec::block(1_000_000).with_halo(1),
                AxisSpec::block(1_000_000).with_halo(1),
            ],
        ),
        80,
    );
}

#[test]
fn rank_order_of_64_takes_less_than_50_milliseconds() {
    let spec = ArraySpec::new(8, [AxisSpec::block(1_000_000), AxisSpec::block(1_000_000)]);
    let [before, after] = [48, 64].map(|size| Partition::new(&spec, size).expect("valid"));
    let price = |from: ProcessId, to: ProcessId| if from.0 / 8 == to.0 / 8 { 1 } else { 10 };
    let time = least_of(3, || {
        let mut overlap = Overlap::new(48, 64);
        overlap.add_array(&before, &after).expect("the same array");
        rank_order(&ids(0..48), &ids(0..64), &overlap, Price::PerPair(&price)).expect("valid");
    });
    assert!(time < Duration::from_millis(50), "{time:?}");
}
