//! Which rank of the job's communicator a rank of another communicator is.
#![allow(unsafe_code, reason = "asks MPI for groups")]

use mpi_abi::{MPI_Comm, MPI_Group};
use pcm_proto::page::NOT_ONE;
use std::os::raw::c_int;

/// Peer of a message to a process outside of the job's communicator, or to an unknown one.
pub(super) const OUTSIDE: i32 = NOT_ONE + 1;

/// The translation for one communicator. For an intercommunicator the ranks are those of the remote group, which is
/// what messages over it are addressed by.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ranks {
    in_job: Box<[i32]>,
}

impl Ranks {
    /// Asks MPI; all of it is local. A question MPI does not answer leaves every rank [`OUTSIDE`].
    ///
    /// # Safety
    /// MPI is initialised and both communicators exist.
    pub(super) unsafe fn translate(communicator: MPI_Comm, job: MPI_Comm) -> Self {
        // SAFETY: by the contract; every group is freed that was made.
        let in_job = unsafe {
            match (group(communicator), group(job)) {
                (Some(from), Some(to)) => {
                    let ranks = ranks(from, to);
                    mpi_abi::PMPI_Group_free(&mut { from });
                    mpi_abi::PMPI_Group_free(&mut { to });
                    ranks
                }
                (Some(one), None) | (None, Some(one)) => {
                    mpi_abi::PMPI_Group_free(&mut { one });
                    None
                }
                (None, None) => None,
            }
        };
        Self {
            in_job: in_job.unwrap_or_default().into_boxed_slice(),
        }
    }

    /// All of them in order.
    pub(super) fn into_list(self) -> Vec<i32> {
        self.in_job.into_vec()
    }

    /// See the file head.
    pub(super) fn rank_in_job(&self, rank: i32) -> i32 {
        usize::try_from(rank)
            .ok()
            .and_then(|rank| self.in_job.get(rank))
            .copied()
            .unwrap_or(OUTSIDE)
    }
}

unsafe fn group(communicator: MPI_Comm) -> Option<MPI_Group> {
    // SAFETY: the caller's contract; outputs are written on success.
    unsafe {
        let mut between: c_int = 0;
        let mut group = mpi_abi::MPI_GROUP_NULL();
        let code = match mpi_abi::PMPI_Comm_test_inter(communicator, &mut between) {
            0 if between != 0 => mpi_abi::PMPI_Comm_remote_group(communicator, &mut group),
            0 => mpi_abi::PMPI_Comm_group(communicator, &mut group),
            code => code,
        };
        (code == 0).then_some(group)
    }
}

/// The ranks in the job of a group's members, [`OUTSIDE`] for those that have none. `None` where MPI does not answer.
///
/// # Safety
/// MPI is initialised, both exist.
pub(super) unsafe fn in_job(from: MPI_Group, job: MPI_Comm) -> Option<Vec<i32>> {
    // SAFETY: by the contract; the group is freed.
    unsafe {
        let mut to = group(job)?;
        let ranks = ranks(from, to);
        mpi_abi::PMPI_Group_free(&mut to);
        ranks
    }
}

unsafe fn ranks(from: MPI_Group, to: MPI_Group) -> Option<Vec<i32>> {
    // SAFETY: both groups exist; both lists have `size` places.
    unsafe {
        let mut size: c_int = 0;
        if mpi_abi::PMPI_Group_size(from, &mut size) != 0 {
            return None;
        }
        let own: Vec<c_int> = (0..size).collect();
        let mut job = vec![0; own.len()];
        let code = mpi_abi::PMPI_Group_translate_ranks(from, size, own.as_ptr(), to, job.as_mut_ptr());
        job.iter_mut()
            .filter(|rank| **rank < 0)
            .for_each(|rank| *rank = OUTSIDE);
        (code == 0).then_some(job)
    }
}
