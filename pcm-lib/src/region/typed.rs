//! Arrays as Rust programs see them: a typed name for a region, and slices of this rank's part that live no longer
//! than the registry stays as it is.
#![allow(unsafe_code, reason = "reads the storage of arrays as slices of their element type")]

use super::{ArrayForm, ArrayRegion, Element, RegionError, Registry};
use pcm_core::{
    partition::{ArraySpec, AxisSpec, GlobalBox},
    redistribution::HaloFill,
};
use pcm_proto::ids::RegionId;
use std::{marker::PhantomData, ops::Range};

/// A registered array of elements of type `T`. It holds no data: slices come from the registry, and end before anything
/// can move.
#[derive(Debug)]
pub struct Array<T> {
    id: RegionId,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Array<T> {}

/// What can be said of an array beside its axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrayOptions {
    /// Whether halos are brought up to date when parts move.
    pub halo: HaloFill,
    /// Its contents mean nothing between two iterations: it is resized, but nothing moves.
    pub is_scratch: bool,
    /// Its contents never change after the start.
    pub is_constant: bool,
}

impl Registry {
    /// Registers an array and allocates this rank's part, zeroed.
    pub fn array_of<T: Element>(
        &mut self,
        name: &str,
        axes: impl Into<Vec<AxisSpec>>,
        options: ArrayOptions,
    ) -> Result<Array<T>, RegionError> {
        let element = T::element_type();
        let form = ArrayForm {
            element,
            spec: ArraySpec::new(element.size(), axes),
            halo: options.halo,
            is_scratch: options.is_scratch,
            is_constant: options.is_constant,
        };
        Ok(Array {
            id: self.array(name, form)?,
            element: PhantomData,
        })
    }

    /// An array that was registered before, if its elements are of this type.
    pub fn typed<T: Element>(&self, name: &str) -> Result<Array<T>, RegionError> {
        let is = self.array_named(name)?.form().element;
        if is != T::element_type() {
            return Err(RegionError::Kind {
                name: name.to_owned(),
                is: format!("an array of {is}"),
                wanted: format!("one of {}", T::element_type()),
            });
        }
        Ok(Array {
            id: self.find(name)?,
            element: PhantomData,
        })
    }

    /// Two arrays at once, to be changed.
    ///
    /// # Panics
    /// If both are the same.
    pub fn both_mut<A: Element, B: Element>(&mut self, one: Array<A>, other: Array<B>) -> (&mut [A], &mut [B]) {
        assert_ne!(one.id, other.id, "the same array twice");
        // SAFETY: the storages are different; the registry is borrowed as long as the slices live.
        unsafe { (elements(one.region(self)), elements(other.region(self))) }
    }
}

impl<T: Element> Array<T> {
    /// This rank's part, row-major, its halo included.
    pub fn of<'r>(&self, registry: &'r Registry) -> &'r [T] {
        // SAFETY: the registry is borrowed as long as the slice lives.
        unsafe { elements(self.region(registry)) }
    }

    /// This rank's part, to be changed.
    pub fn of_mut<'r>(&self, registry: &'r mut Registry) -> &'r mut [T] {
        // SAFETY: the registry is borrowed, for this slice alone, as long as it lives.
        unsafe { elements(self.region(registry)) }
    }

    /// The global indices that this rank owns along an axis; none where they are not one interval.
    pub fn bounds(&self, registry: &Registry, axis: usize) -> Option<Range<u64>> {
        let array = self.region(registry);
        let (start, end) = array.partition().owned_interval(array.rank(), axis)?;
        Some(start..end)
    }

    /// The boxes of global indices that this rank owns.
    pub fn boxes<'r>(&self, registry: &'r Registry) -> impl Iterator<Item = GlobalBox> + use<'r, T> {
        let array = self.region(registry);
        array.partition().owned_boxes(array.rank())
    }

    /// Elements of this rank's part along each axis, halo included.
    pub fn local_extents(&self, registry: &Registry) -> Vec<u64> {
        let array = self.region(registry);
        array.partition().local_extents(array.rank())
    }

    /// Where this rank has a global index it owns, in elements from the start of its part.
    pub fn local_offset(&self, registry: &Registry, index: &[u64]) -> Option<u64> {
        let array = self.region(registry);
        array.partition().local_offset(array.rank(), index)
    }

    /// The rank that owns a global index.
    pub fn owner(&self, registry: &Registry, index: &[u64]) -> Option<u32> {
        self.region(registry).partition().owner(index)
    }

    fn region<'r>(&self, registry: &'r Registry) -> &'r ArrayRegion {
        registry.array_by_id(self.id)
    }
}

/// The elements of an array that was registered with this type.
///
/// # Safety
/// Nobody else uses them while the slice lives. The lifetime is the caller's to choose.
unsafe fn elements<'a, T: Element>(array: &ArrayRegion) -> &'a mut [T] {
    let storage = array.storage();
    assert!(
        array.form().element == T::element_type() && storage.pointer().cast::<T>().is_aligned(),
        "the array is one of this registry"
    );
    // SAFETY: the storage has this many elements of plain bytes, aligned as asserted.
    unsafe { std::slice::from_raw_parts_mut(storage.pointer().cast().as_ptr(), storage.length() / size_of::<T>()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Home;

    fn registry() -> Registry {
        Registry::new(Home {
            rank: 1,
            size: 2,
            ranks_here: 1,
            is_first: true,
        })
    }

    #[test]
    fn slices_are_this_rank_s_part_with_its_halo() {
        let mut registry = registry();
        let axes = [AxisSpec::block(5).with_halo(1), AxisSpec::whole(3)];
        let t: Array<f64> = registry.array_of("t", axes, ArrayOptions::default()).expect("valid");
        assert_eq!(t.bounds(&registry, 0), Some(3..5));
        assert_eq!(t.local_extents(&registry), [4, 3]);
        assert_eq!(t.of(&registry), [0.0; 12]);
        let at = t.local_offset(&registry, &[4, 2]).expect("it owns it") as usize;
        t.of_mut(&mut registry)[at] = 1.5;
        assert_eq!(t.of(&registry)[2 * 3 + 2], 1.5);
        assert_eq!(t.owner(&registry, &[0, 0]), Some(0));
    }

    #[test]
    fn an_array_is_found_again_by_its_name_and_type_only() {
        let mut registry = registry();
        let t: Array<f64> = registry
            .array_of("t", [AxisSpec::block(4)], ArrayOptions::default())
            .expect("valid");
        let next: Array<u32> = registry
            .array_of("next", [AxisSpec::block(4)], ArrayOptions::default())
            .expect("valid");
        let (a, b) = registry.both_mut(t, next);
        (a[0], b[0]) = (1.0, 2);
        let again: Array<u32> = registry.typed("next").expect("it is one");
        assert_eq!(again.of(&registry), [2, 0]);
        let refused = registry.typed::<f32>("t").expect_err("it is of double");
        assert!(refused.to_string().contains("an array of double"), "{refused}");
    }
}
