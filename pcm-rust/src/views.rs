//! Arrays as those of the crate `ndarray`.

use ndarray::{ArrayView, ArrayViewMut, Dimension, IxDyn};
use pcm_lib::{Array, Registry, Session, region::Element};
use std::ops::IndexMut;

/// Views of this rank's part of an array, its halo included. The number of dimensions is that of the array's axes, or
/// dynamic: `let t: ndarray::ArrayView2<f64> = session.view(t)`. A view ends before an iteration, as slices do.
pub trait Views<T: Element>: IndexMut<Array<T>, Output = [T]> {
    /// What the array is registered in.
    fn registry(&self) -> &Registry;

    /// The part, to be read.
    ///
    /// # Panics
    /// If the array has another number of axes.
    fn view<D: Dimension>(&self, array: Array<T>) -> ArrayView<'_, T, D> {
        let shape = shape(self.registry(), array);
        let view = ArrayView::from_shape(shape, &self[array]).and_then(ArrayView::into_dimensionality);
        view.unwrap_or_else(|_| wrong_dimensions())
    }

    /// The part, to be changed.
    ///
    /// # Panics
    /// If the array has another number of axes.
    fn view_mut<D: Dimension>(&mut self, array: Array<T>) -> ArrayViewMut<'_, T, D> {
        let shape = shape(self.registry(), array);
        let view = ArrayViewMut::from_shape(shape, &mut self[array]).and_then(ArrayViewMut::into_dimensionality);
        view.unwrap_or_else(|_| wrong_dimensions())
    }
}

impl<T: Element> Views<T> for Registry {
    fn registry(&self) -> &Registry {
        self
    }
}

impl<T: Element> Views<T> for Session {
    fn registry(&self) -> &Registry {
        self
    }
}

fn shape<T: Element>(registry: &Registry, array: Array<T>) -> IxDyn {
    let extents = array.local_extents(registry);
    let extents: Vec<usize> = extents.into_iter().map(|extent| extent as usize).collect();
    IxDyn(&extents)
}

fn wrong_dimensions() -> ! {
    panic!("the view has another number of dimensions than the array has axes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{ArrayView1, ArrayView2, ArrayViewD, ArrayViewMut2, s};
    use pcm_lib::{ArrayOptions, AxisSpec, region::Home};

    fn registered() -> (Registry, Array<f64>) {
        let mut registry = Registry::new(Home {
            rank: 1,
            size: 2,
            ranks_here: 1,
            is_first: true,
        });
        let axes = [AxisSpec::block(5).with_halo(1), AxisSpec::whole(3)];
        let t = registry.array_of("t", axes, ArrayOptions::default()).expect("valid");
        (registry, t)
    }

    #[test]
    fn a_view_has_the_shape_of_this_rank_s_part_with_its_halo() {
        let (mut registry, t) = registered();
        let mut view: ArrayViewMut2<'_, f64> = registry.view_mut(t);
        assert_eq!(view.dim(), (4, 3));
        view.slice_mut(s![1..3, ..]).fill(2.0);
        view[(3, 1)] = 5.0;
        assert_eq!(registry[t], [0., 0., 0., 2., 2., 2., 2., 2., 2., 0., 5., 0.]);
        let view: ArrayView2<'_, f64> = registry.view(t);
        assert_eq!((view[(3, 1)], view.sum()), (5.0, 17.0));
        let view: ArrayViewD<'_, f64> = registry.view(t);
        assert_eq!(view.shape(), [4, 3]);
    }

    #[test]
    #[should_panic(expected = "another number of dimensions")]
    fn a_view_of_another_number_of_dimensions_is_a_mistake() {
        let (registry, t) = registered();
        let _: ArrayView1<'_, f64> = registry.view(t);
    }
}
