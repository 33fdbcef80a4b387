//! Values as Rust programs see them: a typed name for a replicated value, read and written through the registry.
#![allow(unsafe_code, reason = "reads the memory of values as their type")]

use super::{Array, Element, Kind, RegionError, Registry, Value};
use pcm_proto::ids::RegionId;
use std::{
    marker::PhantomData,
    ops::{Index, IndexMut},
    ptr::NonNull,
};

/// A registered value of type `T`, the same on every rank.
#[derive(Debug)]
pub struct Scalar<T> {
    id: RegionId,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for Scalar<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Scalar<T> {}

impl Registry {
    /// Registers a replicated value. A rank that joins has the others' once it has joined.
    pub fn value_of<T: Element>(&mut self, name: &str, initial: T) -> Result<Scalar<T>, RegionError> {
        // Never given back, as a registry lives as long as its program; a box has the alignment of `T`.
        let first = NonNull::from(Box::leak(Box::new(initial))).cast();
        // SAFETY: the memory is this region's alone, for ever.
        let value = unsafe { Value::borrowed(first, size_of::<T>()) };
        Ok(Scalar {
            id: self.value(name, value)?,
            value: PhantomData,
        })
    }
}

impl<T: Element> Index<Scalar<T>> for Registry {
    type Output = T;

    /// # Panics
    /// If another registry gave the name.
    fn index(&self, scalar: Scalar<T>) -> &T {
        let Kind::Value(value) = &self.region(scalar.id).kind else {
            panic!("the value is not one of this registry");
        };
        let first = typed::<T>(value.bytes().into());
        // SAFETY: as many bytes as `T` has, aligned, of plain values; borrowed like the registry.
        unsafe { first.as_ref() }
    }
}

impl<T: Element> IndexMut<Scalar<T>> for Registry {
    fn index_mut(&mut self, scalar: Scalar<T>) -> &mut T {
        let Kind::Value(value) = &mut self.region_mut(scalar.id).kind else {
            panic!("the value is not one of this registry");
        };
        let mut first = typed::<T>(value.bytes_mut().into());
        // SAFETY: as in `index`; the registry is borrowed for this reference alone.
        unsafe { first.as_mut() }
    }
}

/// The value in these bytes, which may be written through it if they may.
fn typed<T>(bytes: NonNull<[u8]>) -> NonNull<T> {
    let first = bytes.cast::<T>();
    assert!(
        bytes.len() == size_of::<T>() && first.is_aligned(),
        "the value is one of this registry"
    );
    first
}

impl<T: Element> Index<Array<T>> for Registry {
    type Output = [T];

    /// This rank's part, row-major, its halo included.
    fn index(&self, array: Array<T>) -> &[T] {
        array.of(self)
    }
}

impl<T: Element> IndexMut<Array<T>> for Registry {
    fn index_mut(&mut self, array: Array<T>) -> &mut [T] {
        array.of_mut(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Home;

    #[test]
    fn a_value_is_read_and_written_by_its_name() {
        let mut registry = Registry::new(Home {
            rank: 0,
            size: 1,
            ranks_here: 1,
            is_first: true,
        });
        let count = registry.value_of("count", 7_u64).expect("valid");
        registry[count] += 1;
        assert_eq!(registry[count], 8);
        assert_eq!(registry.value_bytes("count").expect("it is one"), 8_u64.to_ne_bytes());
    }
}
