//! What some ranks park, other numbers of ranks restore; in one process, without MPI and daemons.

#![allow(unsafe_code, reason = "looks into storage as a program does")]

use super::{
    Image, Published, RestoreError,
    opened::Source,
    restore::{Relaunched, restore},
};
use crate::region::{ArrayForm, CustomHooks, Delivered, ElementType, Home, HookFailed, PerRankHooks, Registry, Value};
use pcm_core::{
    parked::BlockSet,
    partition::{ArraySpec, AxisSpec},
    redistribution::HaloFill,
};
use pcm_proto::{ids::Rank, parked::Stretch};
use std::{collections::BTreeMap, fs::File, os::unix::fs::FileExt};

const COLUMNS: u64 = 1000;

struct Images(BTreeMap<Rank, File>);

impl Source for Images {
    fn blocks(&mut self, rank: Rank, blocks: &BlockSet) -> Result<File, RestoreError> {
        assert!(blocks.runs().next().is_some(), "something is asked for");
        let file = self.0.get(&rank).and_then(|file| file.try_clone().ok());
        file.ok_or(RestoreError::Lost {
            rank: rank.0,
            reason: "not there".to_owned(),
        })
    }
}

fn form(axes: [AxisSpec; 2], is_scratch: bool) -> ArrayForm {
    ArrayForm {
        element: ElementType::Uint64,
        spec: ArraySpec::new(8, axes),
        halo: HaloFill::Filled,
        is_scratch,
        is_constant: false,
    }
}

/// Items of a custom region: each rank has those whose number leaves it as remainder.
struct Items(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

impl CustomHooks for Items {
    fn targets(&mut self, _: u32, _: u32, ranks_after: u32) -> Option<Vec<u32>> {
        Some((0..ranks_after).collect())
    }

    fn pack(&mut self, to: u32, ranks_after: u32, out: &mut Vec<u8>) -> Result<(), HookFailed> {
        out.extend(
            self.0
                .borrow()
                .iter()
                .filter(|item| u32::from(**item) % ranks_after == to),
        );
        Ok(())
    }

    fn unpack(&mut self, parts: &[Delivered<'_>]) -> Result<(), HookFailed> {
        let mut all: Vec<u8> = parts.iter().flat_map(|part| part.bytes.iter().copied()).collect();
        all.sort_unstable();
        *self.0.borrow_mut() = all;
        Ok(())
    }
}

struct Program {
    registry: Registry,
    items: Option<std::rc::Rc<std::cell::RefCell<Vec<u8>>>>,
}

fn program(rank: u32, size: u32, is_first: bool, has_custom: bool) -> Program {
    let mut registry = Registry::new(Home {
        rank,
        size,
        ranks_here: 1,
        is_first,
    });
    let rows = [AxisSpec::block(203).with_halo(1), AxisSpec::whole(COLUMNS)];
    let columns = [AxisSpec::whole(37), AxisSpec::cyclic(COLUMNS, 7)];
    registry.array("rows", form(rows.clone(), false)).expect("valid");
    registry.array("scratch", form(rows, true)).expect("valid");
    registry.array("columns", form(columns, false)).expect("valid");
    registry
        .value("time", Value::owned(1.5_f64.to_ne_bytes().as_slice()))
        .expect("valid");
    let sum = |into: &mut [u8], other: &[u8]| {
        into[0] += other[0];
        Ok(())
    };
    let share = |from: &mut [u8], to: &mut [u8], left: u32| {
        to[0] = from[0] / (left as u8 + 1);
        from[0] -= to[0];
        Ok(())
    };
    let hooks = PerRankHooks {
        merge: Some(Box::new(sum)),
        split: Some(Box::new(share)),
    };
    registry
        .per_rank("count", Value::owned([60_u8].as_slice()), hooks)
        .expect("valid");
    let items = has_custom.then(|| {
        let items: Vec<u8> = (0..100).filter(|item| u32::from(*item) % size == rank).collect();
        let items = std::rc::Rc::new(std::cell::RefCell::new(items));
        registry
            .custom("items", Box::new(Items(std::rc::Rc::clone(&items))))
            .expect("valid");
        registry.rows("lines", "rows", vec![1]).expect("valid");
        let owner = Box::new(|record: &[u8], ranks| Ok(u32::from(record[0]) % ranks));
        registry.records("owned", 1, owner).expect("valid");
        items
    });
    registry.start().expect("the first start");
    Program { registry, items }
}

/// The elements of a rank's own cells, by global index.
fn cells(registry: &Registry, name: &str, each: &mut dyn FnMut([u64; 2], &mut u64)) {
    let array = registry.array_named(name).expect("registered");
    let (partition, rank) = (array.partition().clone(), array.rank());
    for boxed in partition.owned_boxes(rank) {
        for row in boxed.start[0]..boxed.start[0] + boxed.length[0] {
            for column in boxed.start[1]..boxed.start[1] + boxed.length[1] {
                let at = partition.local_offset(rank, &[row, column]).expect("its own");
                let first = array.storage().pointer().as_ptr().cast::<u64>();
                // SAFETY: an element of the array's storage, and nothing else refers to it.
                each([row, column], unsafe { &mut *first.add(at as usize) });
            }
        }
    }
}

fn number(name: &str, [row, column]: [u64; 2]) -> u64 {
    row * 1_000_003 + column * 7 + name.len() as u64
}

fn old_ranks(size: u32, has_custom: bool) -> Vec<Program> {
    let mut programs: Vec<Program> = (0..size).map(|rank| program(rank, size, true, has_custom)).collect();
    for program in &mut programs {
        if has_custom {
            fill_pieces(&mut program.registry);
        }
        for name in ["rows", "columns"] {
            cells(&program.registry, name, &mut |index, cell| *cell = number(name, index));
        }
    }
    programs
}

/// Row i of `lines` has i % 3 entries, each i; the records are 0 to 99, each on its owner.
fn expected_pieces(registry: &Registry) -> (Vec<usize>, Vec<u8>, Vec<u8>) {
    let rows = registry.array_named("rows").expect("registered");
    let (start, end) = rows.partition().owned_interval(rows.rank(), 0).expect("blocks");
    let lengths = (start..end).map(|row| row as usize % 3).collect();
    let entries = (start..end).flat_map(|row| vec![row as u8; row as usize % 3]);
    let home = registry.home();
    let owned = (0..100).filter(|record| u32::from(*record) % home.size == home.rank);
    (lengths, entries.collect(), owned.collect())
}

fn fill_pieces(registry: &mut Registry) {
    let (lengths, entries, owned) = expected_pieces(registry);
    let rows = registry.rows_named("lines").expect("registered");
    rows.set_lengths(&lengths).expect("room");
    rows.column(0).expect("a column").copy_from_slice(&entries);
    let records = registry.records_named("owned").expect("registered");
    records.resize(owned.len()).expect("room");
    records.bytes_mut().copy_from_slice(&owned);
}

fn expect_pieces(registry: &mut Registry) {
    let (lengths, entries, owned) = expected_pieces(registry);
    let rows = registry.rows_named("lines").expect("registered");
    let found = rows.offsets().windows(2).map(|pair| pair[1] - pair[0]);
    assert_eq!(found.collect::<Vec<_>>(), lengths);
    assert_eq!(rows.column(0).expect("a column"), entries);
    let mut found = registry.records_named("owned").expect("registered").bytes().to_vec();
    found.sort_unstable();
    assert_eq!(found, owned);
}

fn park(programs: Vec<Program>, after: u32) -> Images {
    let images = (0..).zip(programs).map(|(rank, mut program)| {
        let image = Image::new(&mut program.registry, 17, Some(after)).expect("an image");
        let (file, bytes, tally) = image.write(&mut program.registry).expect("written");
        let file = File::from(file);
        assert_eq!(file.metadata().expect("a file").len(), bytes);
        assert!(tally.bytes.0 > 0 && file.write_all_at(b"x", 0).is_err());
        (Rank(rank), file)
    });
    Images(images.collect())
}

fn relaunched(old_size: u32) -> Relaunched {
    Relaunched {
        awaited: None,
        old_size,
        weights: Vec::new(),
    }
}

fn expect_restored(programs: &[Program]) {
    let mut counted = 0;
    for program in programs {
        for name in ["rows", "columns"] {
            cells(&program.registry, name, &mut |index, cell| {
                assert_eq!(*cell, number(name, index), "{name} {index:?}")
            });
        }
        assert_eq!(
            program.registry.value_bytes("time").expect("a value"),
            1.5_f64.to_ne_bytes()
        );
        counted += u32::from(program.registry.value_bytes("count").expect("a value")[0]);
    }
    assert_eq!(counted % 60, 0, "nothing of the per-rank values is lost");
}

#[test]
fn every_region_comes_back_on_any_number_of_ranks() {
    for (before, after) in [(1, 1), (3, 2), (2, 4), (4, 1), (1, 5)] {
        let mut images = park(old_ranks(before, true), after);
        let mut programs: Vec<Program> = (0..after).map(|rank| program(rank, after, false, true)).collect();
        for program in &mut programs {
            let iteration = restore(&mut program.registry, &relaunched(before), &mut images).expect("restored");
            assert_eq!(iteration.0, 17);
        }
        expect_restored(&programs);
        let counts = programs
            .iter()
            .map(|program| program.registry.value_bytes("count").expect("a value")[0]);
        assert_eq!(counts.map(u32::from).sum::<u32>(), 60 * before);
        for (rank, program) in (0_u32..).zip(&mut programs) {
            expect_pieces(&mut program.registry);
            let expected: Vec<u8> = (0..100).filter(|item| u32::from(*item) % after == rank).collect();
            assert_eq!(
                program.items.as_ref().map(|items| items.borrow().clone()),
                Some(expected)
            );
        }
    }
}

#[test]
fn shares_of_the_plan_divide_arrays_otherwise_than_they_were_registered() {
    let mut images = park(old_ranks(2, false), 2);
    let weighted = Relaunched {
        awaited: None,
        old_size: 2,
        weights: vec![1, 3],
    };
    let mut programs: Vec<Program> = (0..2).map(|rank| program(rank, 2, false, false)).collect();
    for program in &mut programs {
        restore(&mut program.registry, &weighted, &mut images).expect("restored");
    }
    expect_restored(&programs);
    let rows = programs[1]
        .registry
        .array_named("rows")
        .expect("registered")
        .partition()
        .owned_interval(1, 0);
    assert_eq!(rows, Some((51, 203)));
}

#[test]
fn what_a_keeper_copies_by_the_table_is_an_image_too() {
    let images = (0..).zip(old_ranks(3, false)).map(|(rank, mut program)| {
        let published = Published::new(&mut program.registry, 17).expect("no custom region");
        let (table, count) = published.table();
        let memory = |address: u64, length: u64| {
            let first = std::ptr::with_exposed_provenance::<u8>(address as usize);
            // SAFETY: what the table names is this process's own memory, which is there as long as `published`.
            unsafe { std::slice::from_raw_parts(first, length as usize) }
        };
        let entries = memory(table, count * Stretch::BYTES as u64);
        let file = File::from(rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("a file"));
        for entry in entries.as_chunks::<{ Stretch::BYTES }>().0 {
            let stretch = Stretch::decode(entry);
            file.write_all_at(memory(stretch.address, stretch.length), stretch.offset)
                .expect("written");
        }
        (Rank(rank), file)
    });
    let mut images = Images(images.collect());
    let mut programs: Vec<Program> = (0..2).map(|rank| program(rank, 2, false, false)).collect();
    for program in &mut programs {
        restore(&mut program.registry, &relaunched(3), &mut images).expect("restored");
    }
    expect_restored(&programs);
    let mut with_custom = program(0, 1, true, true);
    assert!(
        Published::new(&mut with_custom.registry, 1).is_none(),
        "only the application can pack"
    );
}

#[test]
fn a_file_is_filled_from_its_beginning_with_what_is_copied_into_memory() {
    let mut program = old_ranks(1, true).remove(0);
    let image = Image::for_checkpoint(&mut program.registry, 5).expect("an image");
    let mut copied = vec![0; image.bytes() as usize];
    image.copy_into(&mut copied);
    let file = tempfile::tempfile().expect("a file");
    let reached = std::cell::Cell::new(0);
    let fill = image.fill(&file, &|end| {
        assert!(end > reached.replace(end) && end == file.metadata().expect("a file").len());
    });
    fill.expect("filled");
    let mut filled = vec![0; copied.len()];
    file.read_exact_at(&mut filled, 0).expect("read");
    assert!(filled == copied && reached.get() == image.bytes());
}

#[test]
fn what_fewer_ranks_could_not_take_up_is_not_parked() {
    let mut registry = Registry::new(Home {
        rank: 1,
        size: 2,
        ranks_here: 1,
        is_first: true,
    });
    let value = Value::owned([1_u8].as_slice());
    registry
        .per_rank("count", value, PerRankHooks::default())
        .expect("valid");
    assert!(Image::new(&mut registry, 0, Some(2)).is_ok());
    let refused = Image::new(&mut registry, 0, Some(1))
        .expect_err("no merge hook")
        .to_string();
    assert!(
        refused.contains("\"count\"") && refused.contains("merge hook"),
        "{refused}"
    );
}

#[test]
fn a_damaged_byte_is_found_before_it_is_used() {
    let mut images = park(old_ranks(2, false), 1);
    let whole = images.0[&Rank(1)].try_clone().expect("a file");
    let mut bytes = vec![0; whole.metadata().expect("a file").len() as usize];
    whole.read_exact_at(&mut bytes, 0).expect("read");
    let middle = bytes.len() - 100_000;
    bytes[middle] ^= 1;
    let damaged = File::from(rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("a file"));
    damaged.write_all_at(&bytes, 0).expect("written");
    images.0.insert(Rank(1), damaged);
    let mut program = program(0, 1, false, false);
    let refused = restore(&mut program.registry, &relaunched(2), &mut images)
        .expect_err("damaged")
        .to_string();
    assert!(refused.contains("rank 1") && refused.contains("checksum"), "{refused}");
}

#[test]
fn another_program_does_not_take_the_data_up() {
    let mut images = park(old_ranks(2, false), 2);
    let mut other = program(0, 2, false, true);
    let refused = restore(&mut other.registry, &relaunched(2), &mut images)
        .expect_err("other")
        .to_string();
    assert!(
        refused.contains("\"items\"") && refused.contains("not registered"),
        "{refused}"
    );
    images.0.remove(&Rank(1));
    let mut program = program(1, 2, false, false);
    let refused = restore(&mut program.registry, &relaunched(2), &mut images)
        .expect_err("lost")
        .to_string();
    assert!(refused.contains("data of rank 1"), "{refused}");
}
