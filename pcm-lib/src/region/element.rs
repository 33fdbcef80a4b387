//! Types of array elements. All of them are plain bytes: they mean the same in another process of the same job.

use std::{any::TypeId, fmt};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// What one element of an array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float,
    Double,
    /// Real and imaginary part, each a `float`.
    ComplexFloat,
    /// Real and imaginary part, each a `double`.
    ComplexDouble,
    /// A structure of this many bytes, without pointers.
    Bytes(u32),
}

impl ElementType {
    /// Bytes of one element.
    pub fn size(self) -> u32 {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float => 4,
            Self::Int64 | Self::Uint64 | Self::Double | Self::ComplexFloat => 8,
            Self::ComplexDouble => 16,
            Self::Bytes(size) => size,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint8 => "uint8",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Float => "float",
            Self::Double => "double",
            Self::ComplexFloat => "complex float",
            Self::ComplexDouble => "complex double",
            Self::Bytes(size) => return write!(f, "{size} bytes"),
        };
        f.write_str(name)
    }
}

/// A Rust type whose values are plain bytes and may therefore be elements of an array: numbers, arrays of them, and
/// structures that derive the traits named here.
pub trait Element: FromBytes + IntoBytes + Immutable + Copy + 'static {
    /// Its name in a registration: two processes of a job must say the same.
    fn element_type() -> ElementType {
        let own = TypeId::of::<Self>();
        let numbers = [
            (TypeId::of::<i8>(), ElementType::Int8),
            (TypeId::of::<i16>(), ElementType::Int16),
            (TypeId::of::<i32>(), ElementType::Int32),
            (TypeId::of::<i64>(), ElementType::Int64),
            (TypeId::of::<u8>(), ElementType::Uint8),
            (TypeId::of::<u16>(), ElementType::Uint16),
            (TypeId::of::<u32>(), ElementType::Uint32),
            (TypeId::of::<u64>(), ElementType::Uint64),
            (TypeId::of::<f32>(), ElementType::Float),
            (TypeId::of::<f64>(), ElementType::Double),
            (TypeId::of::<[f32; 2]>(), ElementType::ComplexFloat),
            (TypeId::of::<[f64; 2]>(), ElementType::ComplexDouble),
        ];
        let known = numbers.into_iter().find(|(id, _)| *id == own);
        // A size beyond 4 GiB is refused by the partition, as are elements of no bytes.
        known.map_or_else(
            || ElementType::Bytes(u32::try_from(size_of::<Self>()).unwrap_or(0)),
            |(_, element)| element,
        )
    }
}

impl<T: FromBytes + IntoBytes + Immutable + Copy + 'static> Element for T {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_rust_type_is_that_of_its_element_type() {
        fn check<T: Element>(expected: ElementType) {
            assert_eq!(T::element_type(), expected);
            assert_eq!(expected.size() as usize, size_of::<T>());
        }
        check::<f64>(ElementType::Double);
        check::<f32>(ElementType::Float);
        check::<i16>(ElementType::Int16);
        check::<u64>(ElementType::Uint64);
        check::<[f32; 2]>(ElementType::ComplexFloat);
        check::<[f64; 2]>(ElementType::ComplexDouble);
        check::<[u16; 3]>(ElementType::Bytes(6));
    }
}
