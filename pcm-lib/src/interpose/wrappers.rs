//! The wrappers that build.rs makes of `interpose/table.txt`.
#![allow(unsafe_code, reason = "defines functions of MPI")]
#![allow(unreachable_pub, reason = "symbols for the linker")]
#![allow(
    non_snake_case,
    non_upper_case_globals,
    missing_docs,
    reason = "names and meanings are those of MPI"
)]
#![allow(
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "signatures are those of MPI"
)]
#![allow(unused_variables, reason = "a function that another stands for must be there, too")]
#![allow(
    clippy::useless_conversion,
    reason = "one text serves counts of int and of MPI_Count"
)]
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "pointers are used as MPI says they may be"
)]

use super::{recorder, refusal};
use mpi_abi::Function;
use pcm_proto::page::NOT_ONE;
use std::{
    mem::transmute,
    os::raw::{c_int, c_void},
    ptr::NonNull,
};

/// Binds MPI's function of a name to a variable, or ends the call with an error: this MPI lacks the function.
macro_rules! real {
    ($real:ident = $function:ident, $name:literal, $communicator:expr, fn($($kind:ty),*)) => {
        let Some(address) = $function.address() else {
            return refusal::missing($name, $communicator);
        };
        // SAFETY: a function of this name has this type in the ABI.
        let $real = unsafe { transmute::<NonNull<c_void>, unsafe extern "C" fn($($kind),*) -> c_int>(address) };
    };
}

unsafe fn requests<'a>(first: *mut mpi_abi::MPI_Request, count: c_int) -> &'a [mpi_abi::MPI_Request] {
    match usize::try_from(count) {
        // SAFETY: MPI_Startall is given `count` requests at `first`.
        Ok(count) if count > 0 && !first.is_null() => unsafe { std::slice::from_raw_parts(first, count) },
        _ => &[],
    }
}

include!(concat!(env!("OUT_DIR"), "/wrappers.rs"));
