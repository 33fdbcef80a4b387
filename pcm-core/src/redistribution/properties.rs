//! Properties of whole plans over random arrays, partitions and rank changes, by cells and by bytes.

use super::invariant::{Violation, WholePlan, all_cells, cell_at};
use super::*;
use crate::partition::{ArraySpec, AxisSpec, Edge, Partition, Split};
use pcm_proto::ids::{ProcessId, Rank, RegionId};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What a cell holds that nothing wrote.
const UNWRITTEN: u8 = 0xEE;

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) before: Partition,
    pub(super) after: Partition,
    pub(super) change: RankChange,
}

fn counts(extent: u64, parts: usize) -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0..=extent, parts - 1).prop_map(move |mut cuts| {
        cuts.sort_unstable();
        cuts.push(extent);
        let starts = std::iter::once(0).chain(cuts.clone());
        std::iter::zip(starts, cuts.clone()).map(|(lo, hi)| hi - lo).collect()
    })
}

fn split(extent: u64, parts: usize, with_halo: bool) -> BoxedStrategy<Split> {
    let mut kinds = vec![
        Just(Split::Block).boxed(),
        prop::collection::vec(0.1f64..10.0, parts)
            .prop_map(|weights| Split::Weighted { weights })
            .boxed(),
        counts(extent, parts)
            .prop_map(|counts| Split::Counts { counts })
            .boxed(),
    ];
    if !with_halo {
        kinds.push((1u64..6).prop_map(|block| Split::Cyclic { block }).boxed());
    }
    if parts == 1 {
        kinds.push(Just(Split::Whole).boxed());
    }
    prop::strategy::Union::new(kinds).boxed()
}

/// Splits for a grid of given parts per axis; where free axes would get another grid, all parts are counted out.
fn partition(shape: Vec<(u64, u64, Edge)>, element_size: u32, grid: Vec<usize>) -> BoxedStrategy<Partition> {
    let splits: Vec<_> = std::iter::zip(&shape, &grid)
        .map(|((n, halo, _), parts)| split(*n, *parts, *halo > 0))
        .collect();
    let positions: usize = grid.iter().product();
    splits
        .prop_map(move |splits| {
            let axes: Vec<AxisSpec> = std::iter::zip(&shape, splits)
                .map(|(&(extent, halo, edge), split)| AxisSpec {
                    extent,
                    split,
                    halo,
                    edge,
                })
                .collect();
            let spec = ArraySpec::new(element_size, axes);
            let blocks = (0..shape.len()).fold(spec.clone(), |spec, axis| spec.with_split(axis, Split::Block));
            Partition::new(&spec, positions as u32)
                .or_else(|_| Partition::new(&blocks, positions as u32))
                .expect("blocks fit any number of positions")
        })
        .boxed()
}

fn case() -> impl Strategy<Value = Case> {
    let axis = (0u64..12, 0u64..3, prop::bool::ANY).prop_map(|(extent, halo, ring)| {
        let edge = if ring && extent > 0 {
            Edge::Periodic
        } else {
            Edge::Carried
        };
        (
            extent,
            if edge == Edge::Periodic { halo.min(extent) } else { halo },
            edge,
        )
    });
    let shape = prop::collection::vec(axis, 1..=3);
    (shape, prop::sample::select(vec![1u32, 2, 3, 8])).prop_flat_map(|(shape, size)| {
        let grid = || prop::collection::vec(1usize..=3, shape.len());
        (Just(shape.clone()), grid(), grid()).prop_flat_map(move |(shape, old, new)| {
            let (n, m) = (old.iter().product::<usize>(), new.iter().product::<usize>());
            let ids: Vec<ProcessId> = (0..(n + m) as u32).map(ProcessId).collect();
            let pick = |many: usize| {
                Just(ids.clone())
                    .prop_shuffle()
                    .prop_map(move |ids| ids[..many].to_vec())
            };
            let partitions = (partition(shape.clone(), size, old), partition(shape, size, new));
            (partitions, pick(n), pick(m)).prop_map(|((before, after), from, to)| Case {
                before,
                after,
                change: RankChange::new(from, to).expect("each process stands once"),
            })
        })
    })
}

/// Rows over processes that mostly stay, so that storage can stay too.
fn staying_case() -> impl Strategy<Value = Case> {
    (1usize..=4, 1usize..=4, 1u64..20, 0u64..3, any::<bool>()).prop_flat_map(|(n, m, extent, halo, ring)| {
        let edge = if ring { Edge::Periodic } else { Edge::Carried };
        let shape = vec![(extent, halo.min(extent), edge), (3, 1, Edge::Periodic)];
        (partition(shape.clone(), 2, vec![n, 1]), partition(shape, 2, vec![m, 1])).prop_map(move |(before, after)| {
            Case {
                before,
                after,
                change: RankChange::new(processes(&[0, 1, 2, 3][..n]), processes(&[0, 1, 2, 3][..m]))
                    .expect("distinct"),
            }
        })
    })
}

pub(super) fn whole_plan(case: &Case, halo: HaloFill) -> WholePlan<'_> {
    let Case { before, after, change } = case;
    let part = |process| ArrayPlan::for_process(before, after, change, process, halo).expect("the case is valid");
    WholePlan {
        before,
        after,
        change,
        halo,
        parts: change
            .processes()
            .into_iter()
            .map(|process| (process, part(process)))
            .collect(),
    }
}

type Storages = BTreeMap<ProcessId, Vec<u8>>;

/// Each byte of each cell different from its neighbours'.
fn value(cell: invariant::Cell, byte: u64) -> u8 {
    let [a, b, c] = cell.map(|i| i as u64);
    (a.wrapping_mul(31)
        .wrapping_add(b.wrapping_mul(17))
        .wrapping_add(c.wrapping_mul(7))
        .wrapping_add(byte * 3)
        % 237) as u8
}

/// Local storage of every process of a partition: own cells (and halo cells, if asked) with their values.
fn storages(partition: &Partition, processes: &[ProcessId], with_halo: bool) -> Storages {
    let size = u64::from(partition.spec().element_size);
    (0..)
        .map(Rank)
        .zip(processes)
        .map(|(rank, &process)| {
            let has_cells = partition.elements(rank.0) > 0;
            let bytes = (0..partition.local_bytes(rank.0))
                .map(|offset| match cell_at(partition, rank, offset) {
                    Some((cell, is_own)) if is_own || (with_halo && has_cells) => value(cell, offset % size),
                    _ => UNWRITTEN,
                })
                .collect();
            (process, bytes)
        })
        .collect()
}

/// Does what the plans say, in chunks, the last chunk first.
fn execute(whole: &WholePlan<'_>, old: &Storages, chunk_max: u64) -> Storages {
    let mut new: Storages = (0..)
        .zip(whole.change.after())
        .map(|(rank, &process)| (process, vec![UNWRITTEN; whole.after.local_bytes(rank) as usize]))
        .collect();
    let mut stream = Vec::new();
    for (&process, part) in &whole.parts {
        for transfer in part.sends() {
            let chunks = part.chunks(RegionId(0), transfer, chunk_max);
            stream.extend(chunks.map(|chunk| {
                let from = &old[&process];
                let runs = transfer.source_runs(&chunk);
                let bytes: Vec<u8> = runs
                    .flat_map(|run| from[run.offset as usize..][..run.length as usize].to_vec())
                    .collect();
                (transfer.peer(), chunk, bytes)
            }));
        }
    }
    for (to, chunk, bytes) in stream.into_iter().rev() {
        let receives = whole.parts[&to].receives();
        let transfer = receives
            .iter()
            .find(|t| t.id() == chunk.transfer)
            .expect("the receiver has the transfer");
        let mut at = 0;
        for run in transfer.target_runs(&chunk) {
            let length = run.length as usize;
            new.get_mut(&to).expect("targets have storage")[run.offset as usize..][..length]
                .copy_from_slice(&bytes[at..at + length]);
            at += length;
        }
        assert_eq!(at, bytes.len());
    }
    for (process, part) in &whole.parts {
        for piece in part.kept().iter().chain(part.halo_local()) {
            for run in piece.source.copies_to(&piece.target) {
                let bytes = old[process][run.source as usize..][..run.length as usize].to_vec();
                new.get_mut(process).expect("it stays")[run.target as usize..][..bytes.len()].copy_from_slice(&bytes);
            }
        }
    }
    new
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_invariant_holds_for_random_plans(case in case(), stale in any::<bool>()) {
        let halo = if stale { HaloFill::Stale } else { HaloFill::Filled };
        prop_assert_eq!(whole_plan(&case, halo).check(), Ok(()));
    }

    #[test]
    fn executed_plans_give_the_new_layout_byte_for_byte(case in case(), chunk_max in 1u64..40) {
        let whole = whole_plan(&case, HaloFill::Filled);
        let old = storages(&case.before, case.change.before(), false);
        let wanted = storages(&case.after, case.change.after(), true);
        prop_assert_eq!(execute(&whole, &old, chunk_max), wanted);
    }

    #[test]
    fn there_and_back_is_identity(case in case()) {
        let back = Case {
            before: case.after.clone(),
            after: case.before.clone(),
            change: RankChange::new(case.change.after().to_vec(), case.change.before().to_vec()).expect("swapped"),
        };
        let old = storages(&case.before, case.change.before(), false);
        let there = execute(&whole_plan(&case, HaloFill::Stale), &old, 64);
        prop_assert_eq!(execute(&whole_plan(&back, HaloFill::Stale), &there, 64), old);
    }

    #[test]
    fn storage_that_stays_needs_no_copy_and_keeps_the_old_layout(case in staying_case()) {
        let whole = whole_plan(&case, HaloFill::Filled);
        let old = storages(&case.before, case.change.before(), false);
        let wanted = storages(&case.after, case.change.after(), true);
        for (process, part) in &whole.parts {
            let StorageReuse::Stays { shift } = part.reuse() else { continue };
            let mut memory: BTreeMap<i64, u8> = (0..).zip(old[process].iter().copied()).collect();
            let kept = part.kept().iter().flat_map(|piece| piece.target.iter());
            let kept: Vec<u64> = kept.flat_map(|run| run.offset..run.offset + run.length).collect();
            for (offset, byte) in (0..).zip(&wanted[process]) {
                if !kept.contains(&offset) && *byte != UNWRITTEN {
                    memory.insert(offset as i64 + shift, *byte);
                }
            }
            for offset in kept {
                prop_assert_eq!(memory.get(&(offset as i64 + shift)), Some(&wanted[process][offset as usize]));
            }
            for (address, byte) in (0..).zip(&old[process]) {
                prop_assert!(*byte == UNWRITTEN || memory[&address] == *byte);
            }
        }
    }

    #[test]
    fn totals_are_those_of_the_cells(case in case()) {
        let whole = whole_plan(&case, HaloFill::Filled);
        let size = u64::from(case.before.spec().element_size);
        let all = all_cells(&case.before).len() as u64 * size;
        let sum = |of: fn(&Totals) -> u64| whole.parts.values().map(|part| of(part.totals())).sum::<u64>();
        prop_assert_eq!(sum(|t| t.send), sum(|t| t.receive));
        prop_assert_eq!(sum(|t| t.halo_send), sum(|t| t.halo_receive));
        prop_assert_eq!(sum(|t| t.send + t.keep), all);
        for part in whole.parts.values() {
            let t = part.totals();
            prop_assert!(t.keep + t.receive + t.halo_receive + t.halo_local <= t.storage_after);
            if matches!(part.reuse(), StorageReuse::Stays { .. }) {
                prop_assert_eq!(t.extra_max, t.storage_after - t.keep);
            }
        }
    }

    #[test]
    fn owners_offsets_and_boxes_agree_for_every_element(case in case()) {
        let partition = &case.after;
        let axes = partition.spec().axes.len();
        let mut owned = 0;
        for position in 0..partition.positions() {
            let mut elements = 0;
            for owned_box in partition.owned_boxes(position) {
                elements += owned_box.length.iter().product::<u64>();
                let extents = std::iter::zip(&owned_box.start, &owned_box.length);
                let last: Vec<u64> = extents.map(|(s, l)| s + l - 1).collect();
                for index in [&owned_box.start, &last] {
                    prop_assert_eq!(partition.owner(index), Some(position));
                    let offset = partition.local_offset(position, index).expect("it is owned");
                    let cell = cell_at(partition, Rank(position), offset * u64::from(partition.spec().element_size));
                    let mut wanted = [0; 3];
                    wanted.iter_mut().zip(index).for_each(|(to, i)| *to = *i as i64);
                    prop_assert_eq!(cell, Some((wanted, true)));
                }
            }
            prop_assert_eq!(elements, partition.elements(position));
            prop_assert_eq!(partition.local_extents(position).len(), axes);
            owned += elements;
        }
        prop_assert_eq!(owned, partition.spec().axes.iter().map(|axis| axis.extent).product::<u64>());
    }
}

fn processes(ids: &[u32]) -> Vec<ProcessId> {
    ids.iter().copied().map(ProcessId).collect()
}

fn rows(ranks_before: &[u32], ranks_after: &[u32], axes: [AxisSpec; 2]) -> Case {
    let spec = ArraySpec::new(8, axes);
    Case {
        before: Partition::new(&spec, ranks_before.len() as u32).expect("blocks fit"),
        after: Partition::new(&spec, ranks_after.len() as u32).expect("blocks fit"),
        change: RankChange::new(processes(ranks_before), processes(ranks_after)).expect("distinct"),
    }
}

fn grown() -> Case {
    rows(
        &[0, 1],
        &[0, 2, 1, 3],
        [AxisSpec::block(8).with_halo(1), AxisSpec::whole(5)],
    )
}

/// Replaces one process' part by the one made for another rank change.
fn with_foreign_part<'a>(whole: &WholePlan<'a>, process: u32, ids_after: &[u32]) -> WholePlan<'a> {
    let change = RankChange::new(whole.change.before().to_vec(), processes(ids_after)).expect("distinct");
    let foreign = ArrayPlan::for_process(whole.before, whole.after, &change, ProcessId(process), whole.halo);
    let mut planted = whole.clone();
    planted
        .parts
        .insert(ProcessId(process), foreign.expect("the process takes part"));
    planted
}

#[test]
fn planted_lost_and_doubled_cells_are_caught() {
    let case = grown();
    let whole = whole_plan(&case, HaloFill::Filled);
    let mut lost = whole.clone();
    lost.parts.remove(&ProcessId(1));
    let caught = lost.invariant_every_cell_exactly_once();
    assert!(
        matches!(caught, Err(Violation::CellTimes { times: 0, .. })),
        "{caught:?}"
    );
    let mut doubled = whole.clone();
    doubled.parts.insert(ProcessId(9), whole.parts[&ProcessId(1)].clone());
    let caught = doubled.invariant_every_cell_exactly_once();
    assert!(
        matches!(caught, Err(Violation::CellTimes { times: 2, .. })),
        "{caught:?}"
    );
    assert!(doubled.check().is_err());
}

#[test]
fn planted_wrong_ends_are_caught() {
    let case = grown();
    let whole = whole_plan(&case, HaloFill::Filled);
    let foreign = with_foreign_part(&whole, 0, &[1, 2, 0, 3]);
    assert!(matches!(
        foreign.invariant_ends_agree(),
        Err(Violation::EndsDisagree { .. })
    ));
    assert!(foreign.check().is_err());

    let more = rows(
        &[0, 1],
        &[0, 2, 1, 3],
        [AxisSpec::block(8).with_halo(1), AxisSpec::whole(6)],
    );
    let shifted = WholePlan {
        before: &more.before,
        ..whole.clone()
    };
    assert!(matches!(
        shifted.invariant_sources_hold_what_they_give(),
        Err(Violation::SourceDoesNotHold { .. })
    ));
    let shifted = WholePlan {
        after: &more.after,
        ..whole.clone()
    };
    assert!(matches!(
        shifted.invariant_targets_hold_what_they_get(),
        Err(Violation::TargetDoesNotHold { .. })
    ));
}

#[test]
fn planted_halo_and_kept_faults_are_caught() {
    let case = grown();
    let stale = whole_plan(&case, HaloFill::Stale);
    let claimed = WholePlan {
        halo: HaloFill::Filled,
        ..stale
    };
    let caught = claimed.invariant_halos_filled_once();
    assert!(
        matches!(caught, Err(Violation::HaloTimes { times: 0, .. })),
        "{caught:?}"
    );

    let whole = whole_plan(&case, HaloFill::Filled);
    let mut swapped = whole.clone();
    let part = swapped.parts.remove(&ProcessId(0)).expect("it takes part");
    swapped
        .parts
        .insert(ProcessId(1), part.claiming(StorageReuse::Stays { shift: 8 }));
    let caught = swapped.invariant_kept_cells_stay();
    assert_eq!(caught, Err(Violation::KeptMoves { process: ProcessId(1) }));
}
