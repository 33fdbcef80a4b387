//! Rows that are packed for ranks, or whole, and unpacked again.

use super::*;
use pcm_core::partition::{ArraySpec, AxisSpec, Split};

const LIKE: RegionId = RegionId(0);
const ROWS: u64 = 23;

/// Rows divided by these weights.
fn divided(weights: &[f64]) -> Partition {
    let split = Split::Weighted {
        weights: weights.to_vec(),
    };
    let spec = ArraySpec::new(8, [AxisSpec::new(ROWS, split)]);
    Partition::new(&spec, weights.len() as u32).unwrap()
}

/// Row i has i % 4 entries; those of the columns tell the row and the place in it.
fn length(row: u64) -> usize {
    (row % 4) as usize
}

fn filled(partition: &Partition, rank: u32) -> Rows {
    let own = interval(partition, rank);
    of_rows(Rows::new(Like::Array(LIKE), vec![1, 4], vec![own.clone()]), own)
}

/// With the entries of these rows.
fn of_rows(mut rows: Rows, own: impl Iterator<Item = u64> + Clone) -> Rows {
    let lengths: Vec<usize> = own.clone().map(length).collect();
    rows.set_lengths(&lengths).unwrap();
    let entries = own.flat_map(|row| (0..length(row)).map(move |place| (row, place)));
    for (n, (row, place)) in entries.enumerate() {
        rows.column(0).unwrap()[n] = place as u8;
        rows.column(1).unwrap()[4 * n..][..4].copy_from_slice(&(row as u32).to_le_bytes());
    }
    rows
}

fn contents(mut rows: Rows) -> (Vec<Range<u64>>, Vec<usize>, Vec<Vec<u8>>) {
    let columns = (0..rows.columns()).map(|n| rows.column(n).unwrap().to_vec());
    let columns = columns.collect();
    (rows.own, rows.offsets, columns)
}

/// What a rank has after a move; parts are packed for it, or whole.
fn moved(division: [&Partition; 2], rank: u32, is_whole: bool) -> Result<Rows, HookFailed> {
    let [before, after] = division;
    let by = Move {
        before: before.positions(),
        after: after.positions(),
        rank,
        division: Some(division),
        is_whole,
    };
    let mut parts = Vec::new();
    for from in 0..by.before {
        let rows = filled(before, from);
        if rows.targets(from, &by).contains(&rank) {
            parts.push((from, rows.give(rank, &by).unwrap().bytes()));
        }
    }
    let delivered = parts.iter().map(|(from, bytes)| Delivered { from: *from, bytes });
    let mut rows = Rows::new(Like::Array(LIKE), vec![1, 4], Vec::new());
    rows.unpack(&delivered.collect::<Vec<_>>(), &by).map(|()| rows)
}

#[test]
fn each_rank_has_its_rows_after_a_move_among_any_shares() {
    let shares: [&[f64]; 6] = [
        &[1.0],
        &[1.0, 1.0],
        &[1.0, 9.0],
        &[1.0, 100.0, 1.0],
        &[3.0, 1.0, 1.0, 2.0, 1.0],
        &[1.0; 30],
    ];
    for (before, after) in shares
        .iter()
        .flat_map(|one| shares.iter().map(move |other| (one, other)))
    {
        let [before, after] = [divided(before), divided(after)];
        for (rank, is_whole) in (0..after.positions()).flat_map(|rank| [(rank, false), (rank, true)]) {
            let got = moved([&before, &after], rank, is_whole).unwrap();
            assert_eq!(contents(got), contents(filled(&after, rank)), "rank {rank}");
        }
    }
}

#[test]
fn rows_that_are_missing_doubled_or_damaged_are_refused() {
    let [before, after] = [divided(&[1.0, 1.0]), divided(&[1.0])];
    let by = Move {
        before: 2,
        after: 1,
        rank: 0,
        division: Some([&before, &after]),
        is_whole: true,
    };
    let packed = |rank| {
        let rows = filled(&before, rank);
        rows.give(0, &by).unwrap().bytes()
    };
    let unpack = |parts: &[&[u8]]| {
        let parts = (0..).zip(parts).map(|(from, bytes)| Delivered { from, bytes });
        Rows::new(Like::Array(LIKE), vec![1, 4], Vec::new()).unpack(&parts.collect::<Vec<_>>(), &by)
    };
    let [first, second] = [packed(0), packed(1)];
    assert!(unpack(&[&first, &second]).is_ok());
    for parts in [
        &[&first[..]][..],
        &[&second],
        &[&first, &first, &second],
        &[&first, &second[..second.len() - 1]],
        &[&[0; 7]],
        &[&[0xff; 16]],
        &[&[0xff; 4096], &first, &second],
    ] {
        assert!(unpack(parts).is_err());
    }
}

#[test]
fn lengths_beyond_memory_are_refused_and_leave_the_rows_as_they_are() {
    let partition = divided(&[1.0]);
    let mut rows = filled(&partition, 0);
    let mut lengths = vec![0; ROWS as usize];
    lengths[3] = usize::MAX / 8;
    assert!(rows.set_lengths(&lengths).is_err());
    lengths[4] = usize::MAX;
    assert!(rows.set_lengths(&lengths).is_err());
    assert_eq!(contents(rows), contents(filled(&partition, 0)));
}

/// Rows of a rank by a list of owners among some ranks.
fn listed(list: &[u32], rank: u32, ranks: u32) -> (Rc<RefCell<Owners>>, Rows) {
    let owners = Owners::new(list.len(), Some(list.to_vec()), (rank, ranks), None).unwrap();
    let owners = Rc::new(RefCell::new(owners));
    let own = owners.borrow().own();
    let rows = Rows::new(Like::Owners(LIKE, Rc::clone(&owners)), vec![1, 4], own.clone());
    (owners, of_rows(rows, own.into_iter().flatten()))
}

#[test]
fn each_row_is_with_the_owner_that_the_list_says_after_any_moves() {
    let mut random = pcm_proto::random::Random::new(7);
    for _ in 0..300 {
        let before = 1 + random.below(5) as u32;
        let rows = random.below(40);
        let list: Vec<u32> = (0..rows).map(|_| random.below(u64::from(before)) as u32).collect();
        let mut old: Vec<_> = (0..before).map(|rank| listed(&list, rank, before)).collect();
        let after = 1 + random.below(5) as u32;
        let is_whole = random.below(2) == 0;
        let mut seen: Vec<usize> = Vec::new();
        for rank in 0..after {
            let by = Move::among((before, after), rank).whole(is_whole);
            let (mut lists, mut parts) = (Vec::new(), Vec::new());
            for (from, (owners, rows)) in (0..).zip(&mut old) {
                let mut bytes = Vec::new();
                if owners.borrow_mut().targets(from, &by).contains(&rank) {
                    owners.borrow_mut().pack(&by, &mut bytes).unwrap();
                    lists.push((from, std::mem::take(&mut bytes)));
                }
                if rows.targets(from, &by).contains(&rank) {
                    parts.push((from, rows.give(rank, &by).unwrap().bytes()));
                }
            }
            let delivered = |parts: &'static [(u32, Vec<u8>)]| -> Vec<Delivered<'static>> {
                let parts = parts.iter().map(|(from, bytes)| Delivered { from: *from, bytes });
                parts.collect()
            };
            let (owners, mut rows) = listed(&vec![0; list.len()], rank, after);
            let lists = delivered(lists.leak());
            owners.borrow_mut().unpack(&lists, &by).unwrap();
            let parts = delivered(parts.leak());
            rows.unpack(&parts, &by).unwrap();
            let next: Vec<u32> = (0..list.len()).map(|row| owners.borrow().owner(row).unwrap()).collect();
            assert_eq!(contents(rows), contents(listed(&next, rank, after).1));
            seen.extend(owners.borrow().numbers());
            assert!(before != after || next == list);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..list.len()).collect::<Vec<_>>());
    }
}
