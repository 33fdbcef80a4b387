//! Judgements on stuck jobs against a model of MPI that runs random programs to their end.
#![allow(clippy::unwrap_used, reason = "a test")]

mod model;

use model::{Model, Op};
use pcm_core::stuck::{Kind, judge};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn op(ranks: u32) -> impl Strategy<Value = Op> {
    let peer = 0..ranks;
    prop_oneof![
        3 => (peer.clone(), 0..3_i32).prop_map(|(to, tag)| Op::Send { to, tag }),
        2 => (peer.clone(), 0..3_i32).prop_map(|(to, tag)| Op::Ssend { to, tag }),
        4 => (peer.clone(), 0..3_i32).prop_map(|(from, tag)| Op::Recv { from, tag }),
        1 => Just(Op::Barrier),
        1 => peer.prop_map(|root| Op::Bcast { root }),
        1 => (1..3_u64).prop_map(|bytes| Op::Allreduce { bytes }),
    ]
}

fn programs() -> impl Strategy<Value = Vec<Vec<Op>>> {
    (2..5_u32).prop_flat_map(|ranks| {
        prop::collection::vec(prop::collection::vec(op(ranks), 0..8), ranks as usize..=ranks as usize)
    })
}

/// A program that ends, whatever the schedule: what every rank does is generated together.
fn healthy() -> impl Strategy<Value = Vec<Vec<Op>>> {
    let step = prop_oneof![
        (0..4_u32, 1..4_u32, 0..3_i32, any::<bool>()).prop_map(|(from, by, tag, waits)| {
            let to = (from + by) % 4;
            let send = if waits {
                Op::Ssend { to, tag }
            } else {
                Op::Send { to, tag }
            };
            vec![(from, send), (to, Op::Recv { from, tag })]
        }),
        Just((0..4).map(|rank| (rank, Op::Barrier)).collect()),
        (0..4_u32).prop_map(|root| (0..4).map(|rank| (rank, Op::Bcast { root })).collect()),
        (1..9_u64).prop_map(|bytes| (0..4).map(|rank| (rank, Op::Allreduce { bytes })).collect()),
    ];
    prop::collection::vec(step, 0..20).prop_map(|steps: Vec<Vec<(u32, Op)>>| {
        let mut programs = vec![Vec::new(); 4];
        for (rank, op) in steps.into_iter().flatten() {
            programs[rank as usize].push(op);
        }
        programs
    })
}

fn final_stuck(model: &Model) -> BTreeSet<u32> {
    let mut end = model.clone();
    end.run_to_end();
    end.blocked()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn only_ranks_that_never_go_on_are_called_stuck(
        programs in programs(),
        schedule in prop::collection::vec(0..4_usize, 0..60),
    ) {
        let mut model = Model::new(programs);
        model.run(&schedule);
        let (first, second) = model.looks();
        let report = judge(&first, &second);
        let truly = final_stuck(&model);
        for rank in &report.stuck {
            prop_assert!(truly.contains(rank), "rank {rank} goes on: {model:?} {report:?}");
        }
    }

    #[test]
    fn when_nobody_can_go_on_every_blocked_rank_is_called_stuck_and_explained(programs in programs()) {
        let mut model = Model::new(programs);
        model.run_to_end();
        let (first, second) = model.looks();
        let report = judge(&first, &second);
        let stuck: BTreeSet<u32> = report.stuck.iter().copied().collect();
        prop_assert_eq!(&stuck, &model.blocked(), "{:?}", report);
        prop_assert_eq!(report.findings.is_empty(), stuck.is_empty(), "{:?} {:?}", model, report);
    }

    #[test]
    fn a_healthy_program_is_never_called_stuck(
        programs in healthy(),
        schedule in prop::collection::vec(0..4_usize, 0..120),
    ) {
        let mut model = Model::new(programs);
        model.run(&schedule);
        prop_assert!(final_stuck(&model).is_empty());
        let (first, second) = model.looks();
        let report = judge(&first, &second);
        prop_assert!(report.stuck.is_empty() && report.findings.is_empty(), "{:?}", report);
    }
}

fn kinds(programs: Vec<Vec<Op>>) -> (Vec<Kind>, String) {
    let mut model = Model::new(programs);
    model.run_to_end();
    let (first, second) = model.looks();
    let report = judge(&first, &second);
    let kinds = report.findings.iter().map(|finding| finding.kind).collect();
    let texts: Vec<String> = report.findings.into_iter().map(|finding| finding.text).collect();
    (kinds, texts.join("\n"))
}

#[test]
fn a_circle_of_receives_is_told_in_order() {
    let programs = (0..3)
        .map(|rank| {
            vec![Op::Recv {
                from: (rank + 1) % 3,
                tag: 7,
            }]
        })
        .collect();
    let (kinds, text) = kinds(programs);
    assert_eq!(kinds, [Kind::Cycle]);
    assert!(
        text.contains("rank 0 waits in Recv for a message of tag 7 from rank 1"),
        "{text}"
    );
    assert!(
        text.contains("rank 2 waits in Recv for a message of tag 7 from rank 0"),
        "{text}"
    );
}

#[test]
fn a_wrong_tag_is_named_with_the_message_that_was_sent() {
    let (kinds, text) = kinds(vec![
        vec![Op::Send { to: 1, tag: 1 }, Op::Barrier],
        vec![Op::Recv { from: 0, tag: 2 }, Op::Barrier],
    ]);
    assert_eq!(kinds, [Kind::ReceiveWithoutSend]);
    assert!(
        text.contains("tag 2") && text.contains("sent it one of tag 1"),
        "{text}"
    );
}

#[test]
fn a_message_that_is_never_sent_is_named() {
    let (kinds, text) = kinds(vec![vec![Op::Barrier], vec![Op::Recv { from: 0, tag: 2 }, Op::Barrier]]);
    assert_eq!(kinds, [Kind::ReceiveWithoutSend]);
    assert!(text.contains("the message is never sent"), "{text}");
}

#[test]
fn a_rank_that_has_finished_is_named() {
    let (kinds, text) = kinds(vec![vec![], vec![Op::Recv { from: 0, tag: 2 }]]);
    assert_eq!(kinds, [Kind::Finished]);
    assert!(text.contains("rank 0 has called Finalize"), "{text}");
}

#[test]
fn different_collectives_roots_and_sizes_are_told_apart() {
    let others = |op: Op| {
        vec![
            vec![Op::Barrier, op.clone()],
            vec![Op::Barrier, op.clone()],
            vec![Op::Barrier, op],
        ]
    };
    let with_last = |mut programs: Vec<Vec<Op>>, op: Op| {
        programs[2][1] = op;
        kinds(programs)
    };
    let (kinds, text) = with_last(others(Op::Barrier), Op::Allreduce { bytes: 8 });
    assert_eq!(kinds, [Kind::DifferentCollectives]);
    assert!(
        text.contains("collective number 2") && text.contains("ranks 0, 1 called Barrier"),
        "{text}"
    );
    let (kinds, text) = with_last(others(Op::Bcast { root: 0 }), Op::Bcast { root: 1 });
    assert_eq!(kinds, [Kind::WrongRoot]);
    assert!(text.contains("rank 2 called Bcast with root 1"), "{text}");
    let (kinds, text) = with_last(others(Op::Allreduce { bytes: 8 }), Op::Allreduce { bytes: 16 });
    assert_eq!(kinds, [Kind::MismatchedSize]);
    assert!(text.contains("rank 2 called Allreduce with 16 bytes"), "{text}");
}
