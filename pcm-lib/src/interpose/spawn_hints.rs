//! The hint `path` of a spawn, which Open MPI does not pass on: it goes to the daemon among the variables of the
//! children, which Open MPI does pass on.
#![allow(unsafe_code, reason = "calls MPI")]

use mpi_abi::{Family, MPI_Comm, MPI_Info};
use pcm_proto::app::environment::SPAWN_PATH;
use std::{
    ffi::{CStr, CString},
    os::raw::{c_char, c_int},
};

/// Variables for children, one a line.
const VARIABLES: &CStr = c"PMIX_ENVAR";

/// Longest value of a hint that is read; MPIs allow 1024 bytes at most.
const VALUE_BYTES_MAX: usize = 1025;

/// Hints of the commands of a spawn, and those of them that were made here.
#[derive(Debug)]
pub(super) struct Hints {
    pub(super) all: Vec<MPI_Info>,
    made: Vec<MPI_Info>,
}

impl Hints {
    /// The hints to give to MPI, where they are not those of the caller: the root's of Open MPI, if one has a path.
    ///
    /// # Safety
    /// MPI checks the communicator. At its root, `given` points to so many hints.
    pub(super) unsafe fn passing_path(
        given: *const MPI_Info,
        count: c_int,
        (root, communicator): (c_int, MPI_Comm),
    ) -> Option<Self> {
        let count = usize::try_from(count).ok().filter(|_| !given.is_null())?;
        if mpi_abi::FAMILY != Family::OpenMpi {
            return None;
        }
        // SAFETY: the caller's contract; hints mean something at the root alone.
        let given = unsafe {
            let mut rank = -1;
            if mpi_abi::PMPI_Comm_rank(communicator, &mut rank) != 0 || rank != root {
                return None;
            }
            std::slice::from_raw_parts(given, count)
        };
        let (mut all, mut made) = (Vec::with_capacity(count), Vec::new());
        for info in given {
            // SAFETY: hints of a caller of MPI.
            let with_path = unsafe { with_path(*info) };
            made.extend(with_path);
            all.push(with_path.unwrap_or(*info));
        }
        (!made.is_empty()).then_some(Self { all, made })
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        for info in &mut self.made {
            // SAFETY: made by PMPI_Info_dup and freed once.
            unsafe { mpi_abi::PMPI_Info_free(info) };
        }
    }
}

/// A copy of these hints that passes their path on, if they have one and there is room for it.
///
/// # Safety
/// Hints of a caller of MPI.
unsafe fn with_path(info: MPI_Info) -> Option<MPI_Info> {
    let none = mpi_abi::MPI_INFO_NULL();
    if info == none {
        return None;
    }
    // SAFETY: the caller's hints, which are copied; texts end with a zero byte.
    unsafe {
        let path = value(info, c"path")?;
        let mut variables = value(info, VARIABLES).unwrap_or_default();
        variables.extend_from_slice(if variables.is_empty() { b"" } else { b"\n" });
        variables.extend_from_slice(format!("{SPAWN_PATH}=").as_bytes());
        variables.extend_from_slice(&path);
        let variables = CString::new(variables).ok()?;
        let mut copy = none;
        if mpi_abi::PMPI_Info_dup(info, &mut copy) != 0 {
            return None;
        }
        // Where there is no room for it, the program is looked for as if there were no path.
        mpi_abi::PMPI_Info_set(copy, VARIABLES.as_ptr(), variables.as_ptr());
        Some(copy)
    }
}

/// # Safety
/// Hints of a caller of MPI.
unsafe fn value(info: MPI_Info, key: &CStr) -> Option<Vec<u8>> {
    let mut text = vec![0_u8; VALUE_BYTES_MAX];
    let (mut length, mut is_there) = (VALUE_BYTES_MAX as c_int, 0);
    // SAFETY: the room is as long as is said.
    let code = unsafe {
        let room = text.as_mut_ptr().cast::<c_char>();
        mpi_abi::PMPI_Info_get_string(info, key.as_ptr(), &mut length, room, &mut is_there)
    };
    let text = CStr::from_bytes_until_nul(&text).ok()?;
    (code == 0 && is_there != 0).then(|| text.to_bytes().to_vec())
}
