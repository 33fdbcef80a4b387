//! MPI as programs see it that were compiled for the ABI of MPICH, which Intel MPI, MVAPICH and Cray MPICH share: what
//! this repository uses of it. Nothing here is linked: functions are found in the MPI that the program has loaded. A
//! test holds every line against the `mpi.h` of an MPI, where there is one.
#![allow(
    unsafe_code,
    non_camel_case_types,
    non_snake_case,
    reason = "declares C functions by the names they have there"
)]

mod datatypes;
mod functions;
mod loaded;

pub use datatypes::*;
pub use functions::*;
pub use loaded::{Function, library, usable};

use std::{
    ffi::{c_char, c_int, c_long, c_longlong, c_void},
    ptr,
};

/// Handles are numbers that mean something to the library alone.
macro_rules! handles {
    ($($name:ident),* $(,)?) => {
        $(
            #[repr(transparent)]
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name(pub c_int);
        )*
    };
}

handles!(
    MPI_Comm,
    MPI_Datatype,
    MPI_Errhandler,
    MPI_Group,
    MPI_Info,
    MPI_Message,
    MPI_Op,
    MPI_Request,
    MPI_Session,
    MPI_Win,
);

/// Functions of a program, which only their addresses stand for here.
macro_rules! functions {
    ($($name:ident),* $(,)?) => {
        $(
            #[repr(C)]
            #[derive(Debug)]
            pub struct $name([u8; 0]);
        )*
    };
}

functions!(
    MPI_Comm_copy_attr_function,
    MPI_Comm_delete_attr_function,
    MPI_Comm_errhandler_function,
);

pub type MPI_Aint = c_long;
pub type MPI_Count = c_longlong;
pub type MPI_File = *mut c_void;
pub type MPI_Offset = c_longlong;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MPI_Status {
    pub count_lo: c_int,
    pub count_hi_and_cancelled: c_int,
    pub MPI_SOURCE: c_int,
    pub MPI_TAG: c_int,
    pub MPI_ERROR: c_int,
}

pub const MPI_COMM_NULL: MPI_Comm = MPI_Comm(0x0400_0000);
pub const MPI_COMM_WORLD: MPI_Comm = MPI_Comm(0x4400_0000);
pub const MPI_COMM_SELF: MPI_Comm = MPI_Comm(0x4400_0001);
pub const MPI_DATATYPE_NULL: MPI_Datatype = MPI_Datatype(0x0c00_0000);
pub const MPI_DOUBLE: MPI_Datatype = MPI_Datatype(0x4c00_080b);
pub const MPI_UINT8_T: MPI_Datatype = MPI_Datatype(0x4c00_013b);
pub const MPI_UINT64_T: MPI_Datatype = MPI_Datatype(0x4c00_083e);
pub const MPI_ERRORS_ARE_FATAL: MPI_Errhandler = MPI_Errhandler(0x5400_0000);
pub const MPI_ERRORS_RETURN: MPI_Errhandler = MPI_Errhandler(0x5400_0001);
pub const MPI_ERRHANDLER_NULL: MPI_Errhandler = MPI_Errhandler(0x1400_0000);
pub const MPI_GROUP_NULL: MPI_Group = MPI_Group(0x0800_0000);
pub const MPI_INFO_NULL: MPI_Info = MPI_Info(0x1c00_0000);
pub const MPI_MAX: MPI_Op = MPI_Op(0x5800_0001);
pub const MPI_MIN: MPI_Op = MPI_Op(0x5800_0002);
pub const MPI_SUM: MPI_Op = MPI_Op(0x5800_0003);
pub const MPI_SESSION_NULL: MPI_Session = MPI_Session(0x3800_0000);
pub const MPI_REQUEST_NULL: MPI_Request = MPI_Request(0x2c00_0000);

pub const MPI_ANY_SOURCE: c_int = -2;
pub const MPI_ANY_TAG: c_int = -1;
pub const MPI_PROC_NULL: c_int = -1;
pub const MPI_ROOT: c_int = -3;
pub const MPI_UNDEFINED: c_int = -32_766;
pub const MPI_THREAD_MULTIPLE: c_int = 3;
pub const MPI_ERR_COUNT: c_int = 2;
pub const MPI_ERR_COMM: c_int = 5;
pub const MPI_ERR_OTHER: c_int = 15;
pub const MPI_ERR_INTERN: c_int = 16;
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

// As programs call them: what they reach is whatever stands in front of MPI.
unsafe extern "C" {
    pub fn MPI_Abort(comm: MPI_Comm, errorcode: c_int) -> c_int;
    pub fn MPI_Comm_rank(comm: MPI_Comm, rank: *mut c_int) -> c_int;
    pub fn MPI_Comm_size(comm: MPI_Comm, size: *mut c_int) -> c_int;
    pub fn MPI_Finalize() -> c_int;
    pub fn MPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int;
    pub fn MPI_Irecv(
        buf: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        source: c_int,
        tag: c_int,
        comm: MPI_Comm,
        request: *mut MPI_Request,
    ) -> c_int;
    pub fn MPI_Isend(
        buf: *const c_void,
        count: c_int,
        datatype: MPI_Datatype,
        dest: c_int,
        tag: c_int,
        comm: MPI_Comm,
        request: *mut MPI_Request,
    ) -> c_int;
    pub fn MPI_Recv(
        buf: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        source: c_int,
        tag: c_int,
        comm: MPI_Comm,
        status: *mut MPI_Status,
    ) -> c_int;
    pub fn MPI_Reduce(
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        op: MPI_Op,
        root: c_int,
        comm: MPI_Comm,
    ) -> c_int;
    pub fn MPI_Send(
        buf: *const c_void,
        count: c_int,
        datatype: MPI_Datatype,
        dest: c_int,
        tag: c_int,
        comm: MPI_Comm,
    ) -> c_int;
    pub fn MPI_Waitall(count: c_int, array_of_requests: *mut MPI_Request, array_of_statuses: *mut MPI_Status) -> c_int;
}
