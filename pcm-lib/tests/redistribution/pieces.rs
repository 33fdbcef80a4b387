//! Rows and records, and what each entry of them must be.

use pcm_core::{
    partition::{ArraySpec, AxisSpec},
    redistribution::HaloFill,
};
use pcm_lib::region::{ArrayForm, ElementType, Registry};
use pcm_proto::random::mix;
use std::ops::Range;

const ROWS: u64 = 30;

/// Bytes of the entries of a row.
const SIZES: [usize; 2] = [4, 24];

/// Words of a record: its number, how many there are, and its value.
const WORDS: usize = 3;
const RECORD_BYTES: usize = WORDS * 8;

/// From this round on there is so much that its memory can slide.
pub(crate) const LARGE: u64 = 1000;

/// How many times as much there is of all.
fn scale(round: u64) -> u64 {
    if round >= LARGE { 2000 } else { 1 }
}

fn row_length(row: u64, round: u64) -> usize {
    (mix(row ^ round << 32) % (13 * scale(round))) as usize
}

/// A word of an entry, or of a record.
fn word(place: u64, round: u64) -> u64 {
    mix(place ^ round << 40)
}

/// Among odd numbers of ranks neighbours have different owners, among others blocks or stretches one.
fn owner(number: u64, all: u64, ranks: u32) -> u32 {
    let many = u64::from(ranks);
    let rank = match ranks {
        _ if ranks % 2 == 1 => number % many,
        4 => number / 50 % many,
        _ => number * many / all,
    };
    rank as u32
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.as_chunks().0.iter();
    words.map(|word| u64::from_le_bytes(*word)).collect()
}

/// Registers rows like those of an array, and records.
pub(crate) fn register(registry: &mut Registry) {
    let lines = ArrayForm {
        element: ElementType::Uint8,
        spec: ArraySpec::new(1, [AxisSpec::block(ROWS)]),
        halo: HaloFill::Filled,
        is_scratch: false,
        is_constant: false,
    };
    registry.array("lines", lines).unwrap();
    registry.rows("rows", "lines", SIZES.to_vec()).unwrap();
    let of_record = |record: &[u8], ranks: u32| {
        let word = |n: usize| u64::from_le_bytes(record.as_chunks().0[n]);
        Ok(owner(word(0), word(1), ranks))
    };
    registry.records("records", RECORD_BYTES, Box::new(of_record)).unwrap();
}

/// The rows that this rank has.
fn own_rows(registry: &Registry) -> Range<u64> {
    let lines = registry.array_named("lines").unwrap();
    let own = lines.partition().owned_interval(lines.rank(), 0);
    own.map_or(0..0, |(first, end)| first..end)
}

/// What the entries of a column are, row by row.
fn column(rows: Range<u64>, column: usize, round: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in rows {
        for nth in 0..row_length(row, round) as u64 {
            let word = word(row << 20 ^ nth << 4 ^ column as u64, round).to_le_bytes();
            bytes.extend_from_slice(&[word; 3].as_flattened()[..SIZES[column]]);
        }
    }
    bytes
}

/// The records of a rank, by their numbers.
fn records(registry: &Registry, round: u64) -> Vec<[u64; WORDS]> {
    let (home, all) = (registry.home(), 200 * scale(round));
    let own = (0..all).filter(|number| owner(*number, all, home.size) == home.rank);
    own.map(|number| [number, all, word(number, round)]).collect()
}

/// Writes what a round has.
pub(crate) fn fill(registry: &mut Registry, round: u64) {
    let own = own_rows(registry);
    let lengths: Vec<usize> = own.clone().map(|row| row_length(row, round)).collect();
    let records = records(registry, round);
    let rows = registry.rows_named("rows").unwrap();
    rows.set_lengths(&lengths).unwrap();
    for n in 0..SIZES.len() {
        rows.column(n).unwrap().copy_from_slice(&column(own.clone(), n, round));
    }
    let held = registry.records_named("records").unwrap();
    held.resize(records.len()).unwrap();
    let bytes = records.as_flattened().iter().flat_map(|word| word.to_le_bytes());
    held.bytes_mut().copy_from_slice(&bytes.collect::<Vec<u8>>());
}

/// Holds all of it against what it must be.
pub(crate) fn check(registry: &mut Registry, round: u64) {
    let (own, home, wanted) = (own_rows(registry), registry.home(), records(registry, round));
    let rows = registry.rows_named("rows").unwrap();
    let lengths = rows.offsets().windows(2).map(|pair| pair[1] - pair[0]);
    assert!(
        lengths.eq(own.clone().map(|row| row_length(row, round))),
        "lengths of rows in round {round} at {home:?}"
    );
    for n in 0..SIZES.len() {
        let is_right = rows.column(n).unwrap() == column(own.clone(), n, round);
        assert!(is_right, "column {n} of rows {own:?} in round {round} at {home:?}");
    }
    let held = words(registry.records_named("records").unwrap().bytes());
    let mut held: Vec<_> = held.as_chunks::<WORDS>().0.to_vec();
    held.sort_unstable();
    assert!(held == wanted, "records in round {round} at {home:?}");
}

/// All bytes of rows and records of this process, if it has any.
pub(crate) fn snapshot(registry: &mut Registry) -> Vec<Vec<u8>> {
    let Ok(rows) = registry.rows_named("rows") else {
        return Vec::new();
    };
    let offsets = rows.offsets().iter().flat_map(|offset| offset.to_le_bytes()).collect();
    let columns: Vec<_> = (0..SIZES.len()).map(|n| rows.column(n).unwrap().to_vec()).collect();
    let records = registry.records_named("records").unwrap().bytes().to_vec();
    [offsets, records].into_iter().chain(columns).collect()
}
