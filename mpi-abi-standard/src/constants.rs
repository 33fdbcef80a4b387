//! What the standard ABI says by numbers, and its status.

use crate::*;
use std::{
    ffi::{CStr, c_int, c_void},
    ptr,
    sync::OnceLock,
};

/// Handles are pointers to what only the library knows, and constants small numbers in their place.
pub(crate) type Handle = usize;

/// What is loaded where there is no MPI.
pub(crate) const LIBRARY: &CStr = c"libmpi_abi.so.1";

/// The family of programs that call MPI so.
pub const FAMILY: Family = Family::Standard;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MPI_Status {
    pub MPI_SOURCE: c_int,
    pub MPI_TAG: c_int,
    pub MPI_ERROR: c_int,
    pub MPI_internal: [c_int; 5],
}

predefined! {
    MPI_COMM_NULL: MPI_Comm = 0x100;
    MPI_COMM_WORLD: MPI_Comm = 0x101;
    MPI_COMM_SELF: MPI_Comm = 0x102;
    MPI_DATATYPE_NULL: MPI_Datatype = 0x200;
    MPI_DOUBLE: MPI_Datatype = 0x214;
    MPI_UINT8_T: MPI_Datatype = 0x241;
    MPI_UINT64_T: MPI_Datatype = 0x259;
    MPI_ERRORS_ARE_FATAL: MPI_Errhandler = 0x141;
    MPI_ERRHANDLER_NULL: MPI_Errhandler = 0x140;
    MPI_GROUP_NULL: MPI_Group = 0x108;
    MPI_INFO_NULL: MPI_Info = 0x130;
    MPI_MAX: MPI_Op = 0x023;
    MPI_MIN: MPI_Op = 0x022;
    MPI_SUM: MPI_Op = 0x021;
    MPI_OP_NULL: MPI_Op = 0x20;
    MPI_SESSION_NULL: MPI_Session = 0x120;
    MPI_REQUEST_NULL: MPI_Request = 0x180;
}

/// What MPI-5 says, and what Intel MPI 2021.18 has, where it is the number of MPI_ERRORS_ABORT.
const ERRORS_RETURN: [Handle; 2] = [0x143, 0x142];

/// The one number used here of the eight that differ.
pub fn MPI_ERRORS_RETURN() -> MPI_Errhandler {
    static NUMBER: OnceLock<Handle> = OnceLock::new();
    MPI_Errhandler(*NUMBER.get_or_init(|| ERRORS_RETURN[usize::from(is_of_intel())]))
}

fn is_of_intel() -> bool {
    let mut text = [0_u8; MPI_MAX_LIBRARY_VERSION_STRING];
    let mut length: c_int = 0;
    // SAFETY: the room is as large as MPI may need, and MPI allows the call at any time.
    unsafe { PMPI_Get_library_version(text.as_mut_ptr().cast(), &mut length) };
    text.starts_with(b"Intel(R) MPI Library")
}

pub const MPI_ANY_SOURCE: c_int = -1;
pub const MPI_ANY_TAG: c_int = -2;
pub const MPI_PROC_NULL: c_int = -3;
pub const MPI_ROOT: c_int = -4;
pub const MPI_UNDEFINED: c_int = -32_766;
pub const MPI_TAG_UB: c_int = 501;
pub const MPI_THREAD_MULTIPLE: c_int = 4096;
pub const MPI_ERR_COUNT: c_int = 2;
pub const MPI_ERR_COMM: c_int = 5;
pub const MPI_ERR_REQUEST: c_int = 7;
pub const MPI_ERR_UNKNOWN: c_int = 14;
pub const MPI_ERR_OTHER: c_int = 16;
pub const MPI_ERR_INTERN: c_int = 17;
pub const MPI_ERR_NAME: c_int = 38;
pub const MPI_ERR_SPAWN: c_int = 53;
pub const MPI_ERR_UNSUPPORTED_OPERATION: c_int = 55;

pub const MPI_MAX_ERROR_STRING: usize = 512;
pub const MPI_MAX_LIBRARY_VERSION_STRING: usize = 8192;
pub const MPI_MAX_OBJECT_NAME: usize = 128;
pub const MPI_MAX_PORT_NAME: usize = 1024;
pub const MPI_MAX_PROCESSOR_NAME: usize = 256;

pub const MPI_STATUS_IGNORE: *mut MPI_Status = ptr::null_mut();
pub const MPI_STATUSES_IGNORE: *mut MPI_Status = ptr::null_mut();

/// The place of a buffer that another argument stands for.
pub const MPI_IN_PLACE: *mut c_void = ptr::without_provenance_mut(1);

/// What a program gives for a function that copies an attribute as it is, where that is no function to be called.
pub const MPI_COMM_DUP_FN: Option<usize> = Some(1);
