//! What Open MPI's ABI says by names of its objects and by numbers, and its status.

use crate::*;
use std::{
    ffi::{CStr, c_int, c_void},
    ptr,
};

/// Handles are addresses of objects of which only the library knows what is in them.
pub(crate) type Handle = usize;

/// What is loaded where there is no MPI.
pub(crate) const LIBRARY: &CStr = c"libmpi.so.40";

/// The family of programs that call MPI so.
pub const FAMILY: Family = Family::OpenMpi;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MPI_Status {
    pub MPI_SOURCE: c_int,
    pub MPI_TAG: c_int,
    pub MPI_ERROR: c_int,
    pub cancelled: c_int,
    pub bytes: usize,
}

predefined! {
    MPI_COMM_NULL: MPI_Comm = ompi_mpi_comm_null;
    MPI_COMM_WORLD: MPI_Comm = ompi_mpi_comm_world;
    MPI_COMM_SELF: MPI_Comm = ompi_mpi_comm_self;
    MPI_DATATYPE_NULL: MPI_Datatype = ompi_mpi_datatype_null;
    MPI_DOUBLE: MPI_Datatype = ompi_mpi_double;
    MPI_UINT8_T: MPI_Datatype = ompi_mpi_uint8_t;
    MPI_UINT64_T: MPI_Datatype = ompi_mpi_uint64_t;
    MPI_ERRORS_ARE_FATAL: MPI_Errhandler = ompi_mpi_errors_are_fatal;
    MPI_ERRORS_RETURN: MPI_Errhandler = ompi_mpi_errors_return;
    MPI_ERRHANDLER_NULL: MPI_Errhandler = ompi_mpi_errhandler_null;
    MPI_GROUP_NULL: MPI_Group = ompi_mpi_group_null;
    MPI_INFO_NULL: MPI_Info = ompi_mpi_info_null;
    MPI_MAX: MPI_Op = ompi_mpi_op_max;
    MPI_MIN: MPI_Op = ompi_mpi_op_min;
    MPI_SUM: MPI_Op = ompi_mpi_op_sum;
    MPI_OP_NULL: MPI_Op = ompi_mpi_op_null;
    MPI_SESSION_NULL: MPI_Session = ompi_mpi_instance_null;
    MPI_REQUEST_NULL: MPI_Request = ompi_request_null;
}

pub const MPI_ANY_SOURCE: c_int = -1;
pub const MPI_ANY_TAG: c_int = -1;
pub const MPI_PROC_NULL: c_int = -2;
pub const MPI_ROOT: c_int = -4;
pub const MPI_UNDEFINED: c_int = -32_766;
pub const MPI_TAG_UB: c_int = 0;
pub const MPI_THREAD_MULTIPLE: c_int = 3;
pub const MPI_ERR_COUNT: c_int = 2;
pub const MPI_ERR_COMM: c_int = 5;
pub const MPI_ERR_REQUEST: c_int = 7;
pub const MPI_ERR_UNKNOWN: c_int = 14;
pub const MPI_ERR_OTHER: c_int = 16;
pub const MPI_ERR_INTERN: c_int = 17;
pub const MPI_ERR_NAME: c_int = 38;
pub const MPI_ERR_SPAWN: c_int = 50;
pub const MPI_ERR_UNSUPPORTED_OPERATION: c_int = 52;

pub const MPI_MAX_ERROR_STRING: usize = 256;
pub const MPI_MAX_LIBRARY_VERSION_STRING: usize = 256;
pub const MPI_MAX_OBJECT_NAME: usize = 64;
pub const MPI_MAX_PORT_NAME: usize = 1024;
pub const MPI_MAX_PROCESSOR_NAME: usize = 256;

pub const MPI_STATUS_IGNORE: *mut MPI_Status = ptr::null_mut();
pub const MPI_STATUSES_IGNORE: *mut MPI_Status = ptr::null_mut();

/// The place of a buffer that another argument stands for.
pub const MPI_IN_PLACE: *mut c_void = ptr::without_provenance_mut(1);

/// What a program gives for a function that copies an attribute as it is, where that is no function to be called.
pub const MPI_COMM_DUP_FN: Option<usize> = None;
