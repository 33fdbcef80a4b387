//! What the ABI of MPICH says by numbers, and its status.

use crate::*;
use std::{
    ffi::{CStr, c_int, c_void},
    ptr,
};

/// Handles are numbers that mean something to the library alone.
pub(crate) type Handle = c_int;

/// What is loaded where there is no MPI.
pub(crate) const LIBRARY: &CStr = c"libmpi.so.12";

/// The family of programs that call MPI so.
pub const FAMILY: Family = Family::Mpich;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MPI_Status {
    pub count_lo: c_int,
    pub count_hi_and_cancelled: c_int,
    pub MPI_SOURCE: c_int,
    pub MPI_TAG: c_int,
    pub MPI_ERROR: c_int,
}

predefined! {
    MPI_COMM_NULL: MPI_Comm = 0x0400_0000;
    MPI_COMM_WORLD: MPI_Comm = 0x4400_0000;
    MPI_COMM_SELF: MPI_Comm = 0x4400_0001;
    MPI_DATATYPE_NULL: MPI_Datatype = 0x0c00_0000;
    MPI_DOUBLE: MPI_Datatype = 0x4c00_080b;
    MPI_UINT8_T: MPI_Datatype = 0x4c00_013b;
    MPI_UINT64_T: MPI_Datatype = 0x4c00_083e;
    MPI_ERRORS_ARE_FATAL: MPI_Errhandler = 0x5400_0000;
    MPI_ERRORS_RETURN: MPI_Errhandler = 0x5400_0001;
    MPI_ERRHANDLER_NULL: MPI_Errhandler = 0x1400_0000;
    MPI_GROUP_NULL: MPI_Group = 0x0800_0000;
    MPI_INFO_NULL: MPI_Info = 0x1c00_0000;
    MPI_MAX: MPI_Op = 0x5800_0001;
    MPI_MIN: MPI_Op = 0x5800_0002;
    MPI_SUM: MPI_Op = 0x5800_0003;
    MPI_OP_NULL: MPI_Op = 0x1800_0000;
    MPI_SESSION_NULL: MPI_Session = 0x3800_0000;
    MPI_REQUEST_NULL: MPI_Request = 0x2c00_0000;
}

pub const MPI_ANY_SOURCE: c_int = -2;
pub const MPI_ANY_TAG: c_int = -1;
pub const MPI_PROC_NULL: c_int = -1;
pub const MPI_ROOT: c_int = -3;
pub const MPI_UNDEFINED: c_int = -32_766;
pub const MPI_TAG_UB: c_int = 0x6440_0001;
pub const MPI_THREAD_MULTIPLE: c_int = 3;
pub const MPI_ERR_COUNT: c_int = 2;
pub const MPI_ERR_COMM: c_int = 5;
pub const MPI_ERR_UNKNOWN: c_int = 13;
pub const MPI_ERR_OTHER: c_int = 15;
pub const MPI_ERR_INTERN: c_int = 16;
pub const MPI_ERR_REQUEST: c_int = 19;
pub const MPI_ERR_NAME: c_int = 33;
pub const MPI_ERR_SPAWN: c_int = 42;
pub const MPI_ERR_UNSUPPORTED_OPERATION: c_int = 44;

pub const MPI_MAX_ERROR_STRING: usize = 512;
pub const MPI_MAX_LIBRARY_VERSION_STRING: usize = 8192;
pub const MPI_MAX_OBJECT_NAME: usize = 128;
pub const MPI_MAX_PORT_NAME: usize = 256;
pub const MPI_MAX_PROCESSOR_NAME: usize = 128;

pub const MPI_STATUS_IGNORE: *mut MPI_Status = ptr::without_provenance_mut(1);
pub const MPI_STATUSES_IGNORE: *mut MPI_Status = ptr::without_provenance_mut(1);

/// The place of a buffer that another argument stands for.
pub const MPI_IN_PLACE: *mut c_void = ptr::without_provenance_mut(usize::MAX);

/// What a program gives for a function that copies an attribute as it is, where that is no function to be called.
pub const MPI_COMM_DUP_FN: Option<usize> = None;
