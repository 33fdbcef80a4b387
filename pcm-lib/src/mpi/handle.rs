//! MPI handles as plain numbers, whatever type this MPI has for them: an int, a pointer.
#![allow(unsafe_code, reason = "reads the bytes of a handle")]

/// The handle's bytes as a number.
#[inline]
pub fn word<H: Copy>(handle: H) -> u64 {
    const { assert!(size_of::<H>() == 4 || size_of::<H>() == 8) };
    // SAFETY: `handle` is initialised and without padding, as it is one integer or one pointer of the size compared.
    unsafe {
        match size_of::<H>() {
            4 => u64::from(std::mem::transmute_copy::<H, u32>(&handle)),
            _ => std::mem::transmute_copy::<H, u64>(&handle),
        }
    }
}

/// The handle that [`word`] gave `number` for.
///
/// # Safety
/// `number` must come from [`word`] of the same type of handle.
#[inline]
pub unsafe fn from_word<H: Copy>(number: u64) -> H {
    const { assert!(size_of::<H>() == 4 || size_of::<H>() == 8) };
    // SAFETY: by the contract these are the bytes of a valid H.
    unsafe {
        match size_of::<H>() {
            4 => std::mem::transmute_copy::<u32, H>(&(number as u32)),
            _ => std::mem::transmute_copy::<u64, H>(&number),
        }
    }
}
