//! Types that every ABI has: handles, of which it says how wide they are, and functions of programs.

use crate::constants::Handle;
use std::ffi::{c_long, c_longlong, c_void};

/// Each kind of handle is a type of its own.
macro_rules! handles {
    ($($name:ident),* $(,)?) => {
        $(
            #[repr(transparent)]
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name(pub Handle);
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
    MPI_Grequest_cancel_function,
    MPI_Grequest_free_function,
    MPI_Grequest_query_function,
);

pub type MPI_Aint = c_long;
pub type MPI_Count = c_longlong;
pub type MPI_File = *mut c_void;
pub type MPI_Offset = c_longlong;
