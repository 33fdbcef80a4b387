//! Regions of random shape, and what each byte of them must be.
#![allow(unsafe_code, reason = "fills and reads the storage of arrays")]

use crate::pieces;
use pcm_core::{
    partition::{ArraySpec, AxisSpec, Edge, Split},
    redistribution::{
        HaloFill,
        invariant::{Cell, cell_at},
    },
};
use pcm_lib::region::{ArrayForm, CustomHooks, Delivered, ElementType, HookFailed, PerRankHooks, Registry, Value};
use pcm_proto::ids::Rank;
use pcm_proto::random::{Random, mix};
use std::{cell::RefCell, rc::Rc};

/// Objects of the custom region, over all ranks.
pub(crate) const OBJECTS: u64 = 500;

/// An array of up to three axes, divided at random.
pub(crate) fn random_form(random: &mut Random) -> ArrayForm {
    let (element, size) = [
        (ElementType::Double, 8),
        (ElementType::Int32, 4),
        (ElementType::Uint8, 1),
        (ElementType::Bytes(24), 24),
    ][random.below(4) as usize];
    let axes = 1 + random.below(3);
    let extent_max = [9000, 150, 28][axes as usize - 1];
    let mut spec = ArraySpec::new(
        size,
        (0..axes).map(|_| random_axis(random, extent_max)).collect::<Vec<_>>(),
    );
    if spec.axes.iter().all(|axis| axis.split == Split::Whole) {
        spec.axes[0].split = Split::Block;
    }
    ArrayForm {
        element,
        spec,
        halo: if random.one_in(4) {
            HaloFill::Stale
        } else {
            HaloFill::Filled
        },
        is_scratch: false,
        is_constant: false,
    }
}

fn random_axis(random: &mut Random, extent_max: u64) -> AxisSpec {
    let extent = random.below(extent_max + 1);
    let split = match random.below(4) {
        0 => Split::Whole,
        1 | 2 => Split::Block,
        _ => Split::Cyclic {
            block: 1 + random.below(7),
        },
    };
    let is_cyclic = matches!(split, Split::Cyclic { .. });
    let mut axis = AxisSpec::new(extent, split);
    if !is_cyclic && random.one_in(2) {
        axis.halo = random.below(3).min(extent);
        axis.edge = if random.one_in(2) {
            Edge::Periodic
        } else {
            Edge::Carried
        };
    }
    axis
}

/// Byte `byte` of a cell of array `n` in some round.
fn expected(n: u64, round: u64, cell: Cell, byte: u64) -> u8 {
    let place = cell
        .iter()
        .fold(n ^ (round << 32), |sum, index| mix(sum ^ index.cast_unsigned()));
    mix(place ^ byte) as u8
}

/// Writes what a round's arrays hold: every cell, halo copies too; and its rows and records.
pub(crate) fn fill(registry: &mut Registry, round: u64) {
    pieces::fill(registry, round);
    each_cell(registry, |n, cell, _, bytes| {
        (0..)
            .zip(bytes)
            .for_each(|(byte, value)| *value = expected(n, round, cell, byte));
    });
}

/// Holds every cell against what it must be, halo copies where they are kept filled, rows and records.
pub(crate) fn check(registry: &mut Registry, round: u64) {
    pieces::check(registry, round);
    each_cell(registry, |n, cell, must_hold, bytes| {
        for (byte, value) in (0..).zip(bytes) {
            let expected = expected(n, round, cell, byte);
            assert!(
                !must_hold || *value == expected,
                "array {n}, cell {cell:?}, byte {byte} in round {round}: {value}, not {expected}, at {:?}",
                registry.home()
            );
        }
    });
}

/// Visits every cell of every array that has contents: its number, whether it must hold, its bytes.
fn each_cell(registry: &Registry, mut visit: impl FnMut(u64, Cell, bool, &mut [u8])) {
    let names = registry.regions().map(|(_, region)| region.name.clone());
    for name in names.filter(|name| name.starts_with("array")) {
        let array = registry.array_named(&name).unwrap();
        let n = name["array".len()..].parse().unwrap();
        let size = u64::from(array.partition().spec().element_size);
        // The halo of a rank that holds nothing repeats nothing.
        let holds_some = array.partition().elements(array.rank()) > 0;
        let is_filled = holds_some && array.form().halo == HaloFill::Filled;
        for offset in (0..array.storage().length() as u64).step_by(size as usize) {
            if let Some((cell, is_own)) = cell_at(array.partition(), Rank(array.rank()), offset) {
                // SAFETY: the offset is in the storage, which nobody else uses.
                let bytes = unsafe {
                    let first = array.storage().pointer().add(offset as usize);
                    std::slice::from_raw_parts_mut(first.as_ptr(), size as usize)
                };
                visit(n, cell, is_own || is_filled, bytes);
            }
        }
    }
}

/// All bytes of all arrays, values, rows and records of this process.
pub(crate) fn snapshot(registry: &mut Registry) -> Vec<Vec<u8>> {
    let pieces = pieces::snapshot(registry);
    let storages = registry.storages();
    // SAFETY: nobody writes.
    let arrays = storages.map(|(_, storage)| unsafe { storage.bytes() }.to_vec());
    let values = ["iteration", "tally"].map(|name| value_bytes(registry, name));
    arrays.chain(values).chain(pieces).collect()
}

/// The bytes of a value.
pub(crate) fn value_bytes(registry: &Registry, name: &str) -> Vec<u8> {
    registry.value_bytes(name).unwrap().to_vec()
}

/// The objects that a process holds.
pub(crate) type Objects = Rc<RefCell<Vec<u64>>>;

/// The rank that is to hold an object, as `block_targets` divides.
pub(crate) fn holder(object: u64, ranks: u32) -> u32 {
    (object * u64::from(ranks) / OBJECTS) as u32
}

struct ObjectHooks(Objects);

impl CustomHooks for ObjectHooks {
    fn targets(&mut self, _: u32, _: u32, _: u32) -> Option<Vec<u32>> {
        None
    }

    fn pack(&mut self, to: u32, ranks_after: u32, out: &mut Vec<u8>) -> Result<(), HookFailed> {
        let objects = self.0.borrow();
        let meant = objects.iter().filter(|object| holder(**object, ranks_after) == to);
        meant.for_each(|object| out.extend_from_slice(&object.to_le_bytes()));
        Ok(())
    }

    fn unpack(&mut self, parts: &[Delivered<'_>]) -> Result<(), HookFailed> {
        let bytes = parts.iter().flat_map(|part| part.bytes).copied().collect::<Vec<_>>();
        let objects = bytes
            .chunks_exact(8)
            .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
        *self.0.borrow_mut() = objects.collect();
        Ok(())
    }
}

/// Registers a value that must be the same everywhere, one that each rank has its own of, a custom region, rows and
/// records.
pub(crate) fn register_opaque(registry: &mut Registry, objects: &Objects) {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let hooks = PerRankHooks {
        merge: Some(Box::new(move |own, other| {
            let sum = number(own).wrapping_add(number(other));
            own.copy_from_slice(&sum.to_le_bytes());
            Ok(())
        })),
        split: Some(Box::new(move |own, share, left| {
            let given = number(own) / (u64::from(left) + 1);
            share.copy_from_slice(&given.to_le_bytes());
            let rest = number(own) - given;
            own.copy_from_slice(&rest.to_le_bytes());
            Ok(())
        })),
    };
    registry.value("iteration", Value::owned([0; 8])).unwrap();
    registry.per_rank("tally", Value::owned([0; 8]), hooks).unwrap();
    registry
        .custom("objects", Box::new(ObjectHooks(Rc::clone(objects))))
        .unwrap();
    pieces::register(registry);
}

/// Sets a value of 8 bytes.
pub(crate) fn set_value(registry: &mut Registry, name: &str, number: u64) {
    registry.value_write(name, &number.to_le_bytes()).unwrap();
}
