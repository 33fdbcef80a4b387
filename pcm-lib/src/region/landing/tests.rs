//! Rows and records that land where they belong, in move after move, against the same parts unpacked into other memory.
#![allow(unsafe_code, reason = "writes what comes to its place")]

use super::super::custom::Data;
use super::super::rows::Like;
use super::super::{CustomRegion, Delivered, Move, Records, Rows};
use super::damaged;
use pcm_core::partition::{ArraySpec, AxisSpec, Partition, Split};
use pcm_proto::{ids::RegionId, random::Random};

const ROWS: u64 = 41;

const LIKE: Like = Like::Array(RegionId(0));

const SIZES: [usize; 2] = [1, 12];

/// Records are so many words.
const RECORDS: u64 = 700_000;

/// Makes one kind of data, and divides it.
struct Kind {
    /// The data of a rank without entries.
    empty: fn() -> CustomRegion,
    /// All data, on one rank.
    filled: fn(&Partition) -> CustomRegion,
    is_rows: bool,
}

fn empty_rows() -> CustomRegion {
    CustomRegion::of(Data::Rows(Rows::new(LIKE, SIZES.to_vec(), Vec::new())))
}

fn filled_rows(partition: &Partition) -> CustomRegion {
    let own = partition.owned_interval(0, 0).map(|(first, end)| first..end);
    let mut rows = Rows::new(LIKE, SIZES.to_vec(), own.into_iter().collect());
    // Every third row is empty, some are long enough for memory that slides.
    let lengths: Vec<usize> = (0..ROWS as usize).map(|row| row % 3 * 5000 * (row % 7)).collect();
    rows.set_lengths(&lengths).unwrap();
    let offsets = rows.offsets().to_vec();
    for (column, size) in SIZES.iter().enumerate() {
        let bytes = rows.column(column).unwrap();
        for (row, pair) in offsets.windows(2).enumerate().filter(|(_, pair)| pair[0] < pair[1]) {
            let bytes = &mut bytes[pair[0] * size..pair[1] * size];
            bytes.fill(row as u8);
            let middle = bytes.len() / 2;
            (bytes[middle], bytes[0]) = (column as u8 + 100, column as u8 + 200);
        }
    }
    CustomRegion::of(Data::Rows(rows))
}

/// Owners by blocks among even numbers of ranks, else in stretches, or one by one.
fn owner(record: &[u8], ranks: u32) -> u32 {
    let place = u64::from_le_bytes(record.try_into().unwrap());
    let many = u64::from(ranks);
    let rank = match ranks {
        3 => place % many,
        5 => place / 1000 % many,
        _ => place * many / RECORDS,
    };
    rank as u32
}

fn empty_records() -> CustomRegion {
    CustomRegion::of(Data::Records(Records::new(
        8,
        Box::new(|record, ranks| Ok(owner(record, ranks))),
    )))
}

fn filled_records(_: &Partition) -> CustomRegion {
    let mut records = Records::new(8, Box::new(|record, ranks| Ok(owner(record, ranks))));
    records.resize(RECORDS as usize).unwrap();
    for (place, record) in (0_u64..).zip(records.bytes_mut().chunks_exact_mut(8)) {
        record.copy_from_slice(&place.to_le_bytes());
    }
    CustomRegion::of(Data::Records(records))
}

/// All that a region has.
fn contents(region: &CustomRegion) -> Vec<u8> {
    let (mut all, columns) = region.whole();
    columns.iter().for_each(|column| all.extend_from_slice(column));
    all
}

fn divided(ranks: u32, random: &mut Random) -> Partition {
    let weights: Vec<f64> = (0..ranks).map(|_| 1.0 + random.below(9) as f64).collect();
    let spec = ArraySpec::new(8, [AxisSpec::new(ROWS, Split::Weighted { weights })]);
    Partition::new(&spec, ranks).unwrap()
}

/// The old rank that is each new one; none for a newcomer.
fn order(before: u32, after: u32, random: &mut Random) -> Vec<Option<u32>> {
    let mut free: Vec<u32> = (0..before).collect();
    let pick = |rank: u32| match random.below(5) {
        0 => None,
        1 if !free.is_empty() => Some(free.swap_remove(random.below(free.len() as u64) as usize)),
        _ => free.iter().position(|old| *old == rank).map(|at| free.remove(at)),
    };
    (0..after).map(pick).collect()
}

/// What a new rank has: from each old one that gives something, all it gives, by the rank.
fn parts_for(old: &mut [CustomRegion], by: &Move<'_>) -> Vec<(u32, Vec<u8>)> {
    let mut parts = Vec::new();
    for (from, region) in (0..).zip(old) {
        if region.targets(from, by).unwrap().contains(&by.rank) {
            parts.push((from, region.give(by.rank, by).unwrap().bytes()));
        }
    }
    parts
}

/// How a move ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Made,
    CalledOff,
    /// Called off, with messages that could not be ended.
    Left,
}

/// Bytes that messages may still read, and what they were.
type Left = Vec<(*const u8, Vec<u8>)>;

/// The parts land in a region, which is an old rank or new; unless that is called off, it takes them up.
fn land(region: &mut CustomRegion, own: Option<u32>, parts: &[(u32, Vec<u8>)], by: &Move<'_>, ending: Ending) -> Left {
    let live = contents(region);
    let from: Vec<_> = parts.iter().map(|(from, _)| (*from, own == Some(*from))).collect();
    let mut landing = region.landing(&from, by).unwrap().expect("it can land");
    for (part, (from, bytes)) in parts.iter().enumerate() {
        assert!(!landing.is_open());
        if own != Some(*from) {
            assert!(!landing.is_due());
            landing.on_length(part, bytes.len() as u64);
        }
    }
    assert!(landing.is_due());
    region.land(&mut landing, by).unwrap();
    for (part, (from, bytes)) in parts.iter().enumerate() {
        let pieces = landing.pieces(part);
        assert_eq!(pieces.length(), if own == Some(*from) { 0 } else { bytes.len() as u64 });
        let mut rest = &bytes[..];
        for (first, length) in pieces.of_bytes(0, pieces.length()) {
            let (now, more) = rest.split_at(length);
            // SAFETY: the landing has this memory, which is not live.
            unsafe { first.as_ptr().copy_from_nonoverlapping(now.as_ptr(), length) };
            rest = more;
        }
    }
    let offsets = region.landed(&mut landing, by).unwrap();
    assert_eq!(contents(region), live, "nothing of what is live has changed");
    let mut left = Left::new();
    match ending {
        Ending::Made => region.take_up(landing, offsets, by),
        Ending::CalledOff => {
            drop(landing);
            region.settle();
        }
        Ending::Left => {
            std::mem::forget(landing);
            region.leave();
            region.settle();
            let (_, columns) = region.whole();
            left.extend(columns.iter().map(|column| (column.as_ptr(), column.to_vec())));
        }
    }
    assert!(ending == Ending::Made || contents(region) == live);
    left
}

fn moves(kind: &Kind, seed: u64) {
    let mut random = Random::new(seed);
    let mut division = divided(1, &mut random);
    let mut old = vec![(kind.filled)(&division)];
    let mut left = Left::new();
    for _ in 0..12 {
        let before = old.len() as u32;
        let after = 1 + random.below(6) as u32;
        let next = divided(after, &mut random);
        let order = order(before, after, &mut random);
        let divisions = kind.is_rows.then(|| [division.clone(), next.clone()]);
        let ending = match random.below(6) {
            0 => Ending::CalledOff,
            1 => Ending::Left,
            _ => Ending::Made,
        };
        let is_made = ending == Ending::Made;
        let to = |rank| Move::among((before, after), rank).divided(divisions.as_ref());
        let parts: Vec<_> = (0..after).map(|rank| parts_for(&mut old, &to(rank))).collect();
        let wanted: Vec<_> = (0..after)
            .map(|rank| {
                let delivered = parts[rank as usize].iter();
                let delivered = delivered.map(|(from, bytes)| Delivered { from: *from, bytes });
                let mut region = (kind.empty)();
                region.unpack(&delivered.collect::<Vec<_>>(), &to(rank)).unwrap();
                contents(&region)
            })
            .collect();
        let mut processes: Vec<Option<CustomRegion>> = old.drain(..).map(Some).collect();
        let mut new = Vec::new();
        for (rank, own) in (0..).zip(&order) {
            let known = own.and_then(|own| processes[own as usize].take());
            let mut region = known.unwrap_or_else(kind.empty);
            left.extend(land(&mut region, *own, &parts[rank as usize], &to(rank), ending));
            if is_made {
                assert!(
                    contents(&region) == wanted[rank as usize],
                    "rank {rank} of {after}, was {own:?} of {before}"
                );
                new.push(region);
            } else if let Some(own) = *own {
                processes[own as usize] = Some(region);
            }
        }
        if is_made {
            (old, division) = (new, next);
        } else {
            old.extend(processes.into_iter().flatten());
        }
    }
    drop(old);
    for (first, bytes) in left {
        // SAFETY: what is left is neither given back nor used for anything else.
        assert!(unsafe { std::slice::from_raw_parts(first, bytes.len()) } == bytes);
    }
}

#[test]
fn rows_that_land_are_what_would_have_been_unpacked_after_any_moves() {
    let kind = Kind {
        empty: empty_rows,
        filled: filled_rows,
        is_rows: true,
    };
    (0..12).for_each(|seed| moves(&kind, seed));
}

#[test]
fn records_that_land_are_what_would_have_been_unpacked_after_any_moves() {
    let kind = Kind {
        empty: empty_records,
        filled: filled_records,
        is_rows: false,
    };
    (0..4).for_each(|seed| moves(&kind, seed));
}

#[test]
fn parts_of_another_length_or_of_other_rows_are_refused() {
    let [before, after] = [2, 1].map(|ranks| {
        let split = Split::Weighted {
            weights: vec![1.0; ranks],
        };
        Partition::new(&ArraySpec::new(8, [AxisSpec::new(ROWS, split)]), ranks as u32).unwrap()
    });
    let divisions = [before, after];
    let by = Move::among((2, 1), 0).divided(Some(&divisions));
    let count = divisions[0].owned_interval(0, 0).unwrap().1;
    let head: Vec<u64> = [1, 0, count].into_iter().chain((0..count).map(|_| 1)).collect();
    let packed = |head: &[u64]| {
        let mut bytes: Vec<u8> = head.iter().flat_map(|number| number.to_le_bytes()).collect();
        bytes.resize(bytes.len() + 13 * count as usize, 7);
        bytes
    };
    let rest: Vec<u64> = [1, count, ROWS - count]
        .into_iter()
        .chain((count..ROWS).map(|_| 0))
        .collect();
    let rest: Vec<u8> = rest.iter().flat_map(|number| number.to_le_bytes()).collect();
    let landed = |bytes: &[u8]| {
        let mut region = empty_rows();
        let mut landing = region.landing(&[(0, false), (1, false)], &by).unwrap().unwrap();
        landing.on_length(0, bytes.len() as u64);
        landing.on_length(1, rest.len() as u64);
        if region.land(&mut landing, &by).is_err() {
            return Err(damaged());
        }
        for (part, bytes) in [bytes, &rest].iter().enumerate() {
            let pieces = landing.pieces(part);
            let mut rest = *bytes;
            for (first, length) in pieces.of_bytes(0, pieces.length()) {
                let (now, more) = rest.split_at(length);
                // SAFETY: the landing has this memory.
                unsafe { first.as_ptr().copy_from_nonoverlapping(now.as_ptr(), length) };
                rest = more;
            }
        }
        region.landed(&mut landing, &by)
    };
    let good = packed(&head);
    assert!(landed(&good).is_ok());
    assert!(landed(&good[..good.len() - 1]).is_err() && landed(&good[..9]).is_err());
    let heads = 8 * (head.len() + 3 + (ROWS - count) as usize) as u64;
    for more in [13 << 50, 13 * (u64::MAX / 13 - 100), u64::MAX] {
        let mut region = empty_rows();
        let mut landing = region.landing(&[(0, false), (1, false)], &by).unwrap().unwrap();
        landing.on_length(0, more);
        landing.on_length(1, heads);
        assert!(region.land(&mut landing, &by).is_err(), "{more}");
    }
    for (place, number) in [(0, 2), (1, 1), (2, 1), (3, 2), (4, u64::MAX)] {
        let mut wrong = head.clone();
        wrong[place] = number;
        assert!(landed(&packed(&wrong)).is_err(), "{place}");
    }
}
