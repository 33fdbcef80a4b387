//! What MPI does with the same bytes by itself.
#![allow(unsafe_code, reason = "calls MPI")]

use pcm::mpi::Communicator;
use std::{os::raw::c_int, ptr::null_mut, time::Instant};

pub(crate) fn initialize() {
    // SAFETY: MPI allows null pointers here; it is the first call.
    assert_eq!(unsafe { mpi_abi::MPI_Init(null_mut(), null_mut()) }, 0);
}

pub(crate) fn finalize() {
    // SAFETY: the last call.
    assert_eq!(unsafe { mpi_abi::MPI_Finalize() }, 0);
}

pub(crate) fn barrier(communicator: &Communicator) {
    // SAFETY: the communicator exists.
    assert_eq!(unsafe { mpi_abi::PMPI_Barrier(communicator.handle()) }, 0);
}

/// The largest of all processes' numbers.
pub(crate) fn largest(communicator: &Communicator, own: f64) -> f64 {
    let mut all = 0.0_f64;
    // SAFETY: both are locals.
    let code = unsafe {
        let (own, all) = ((&raw const own).cast(), (&raw mut all).cast());
        let (number, max) = (mpi_abi::MPI_DOUBLE, mpi_abi::MPI_MAX);
        mpi_abi::PMPI_Allreduce(own, all, 1, number, max, communicator.handle())
    };
    assert_eq!(code, 0);
    all
}

/// Seconds for so many bytes from the first process to the last, from and to memory that is there already: the best of
/// several lengths of messages, 16 of them under way.
pub(crate) fn one_way(world: &Communicator, bytes: u64) -> f64 {
    let (me, last) = (world.rank().unwrap(), world.size().unwrap() - 1);
    let mut memory = vec![1_u8; if me == 0 || me == last { bytes as usize } else { 0 }];
    let shapes = [256 << 10, 1 << 20, 4 << 20];
    let seconds = shapes.map(|message| {
        barrier(world);
        let start = Instant::now();
        stream(world, &mut memory, message);
        largest(world, start.elapsed().as_secs_f64())
    });
    seconds.into_iter().fold(f64::INFINITY, f64::min)
}

/// Sends, or receives, all of the memory.
fn stream(world: &Communicator, memory: &mut [u8], message: usize) {
    const UNDER_WAY: usize = 16;
    let (me, last) = (world.rank().unwrap(), world.size().unwrap() - 1);
    let mut requests = vec![mpi_abi::MPI_REQUEST_NULL; UNDER_WAY];
    for (n, part) in memory.chunks_mut(message).enumerate() {
        let request = &mut requests[n % UNDER_WAY];
        // SAFETY: the memory outlives the requests, which are all waited for; a null request is complete.
        let code = unsafe {
            assert_eq!(mpi_abi::PMPI_Wait(request, mpi_abi::MPI_STATUS_IGNORE), 0);
            let (data, count) = (part.as_mut_ptr().cast(), part.len() as c_int);
            let (byte, handle) = (mpi_abi::MPI_UINT8_T, world.handle());
            if me == 0 {
                mpi_abi::PMPI_Isend(data, count, byte, last as c_int, 9, handle, request)
            } else {
                mpi_abi::PMPI_Irecv(data, count, byte, 0, 9, handle, request)
            }
        };
        assert_eq!(code, 0);
    }
    // SAFETY: as above.
    let code = unsafe {
        let statuses = mpi_abi::MPI_STATUSES_IGNORE;
        mpi_abi::PMPI_Waitall(UNDER_WAY as c_int, requests.as_mut_ptr(), statuses)
    };
    assert_eq!(code, 0);
}

/// MPI_Alltoallv of bytes, with counts and displacements by process.
pub(crate) fn alltoallv(
    world: &Communicator,
    from: &[u8],
    sends: &[[c_int; 2]],
    to: &mut [u8],
    receives: &[[c_int; 2]],
) {
    let column = |list: &[[c_int; 2]], n: usize| list.iter().map(|pair| pair[n]).collect::<Vec<_>>();
    let lists = [
        column(sends, 0),
        column(sends, 1),
        column(receives, 0),
        column(receives, 1),
    ];
    let unit = mpi_abi::MPI_DOUBLE;
    // SAFETY: the lists have one entry per process, and lie in the buffers.
    let code = unsafe {
        mpi_abi::PMPI_Alltoallv(
            from.as_ptr().cast(),
            lists[0].as_ptr(),
            lists[1].as_ptr(),
            unit,
            to.as_mut_ptr().cast(),
            lists[2].as_ptr(),
            lists[3].as_ptr(),
            unit,
            world.handle(),
        )
    };
    assert_eq!(code, 0);
}

/// The sum of all processes' numbers.
pub(crate) fn total(communicator: &Communicator, own: u64) -> u64 {
    let mut all = 0_u64;
    // SAFETY: both are locals.
    let code = unsafe {
        let (own, all) = ((&raw const own).cast(), (&raw mut all).cast());
        let (number, add) = (mpi_abi::MPI_UINT64_T, mpi_abi::MPI_SUM);
        mpi_abi::PMPI_Allreduce(own, all, 1, number, add, communicator.handle())
    };
    assert_eq!(code, 0);
    all
}

/// The rank in `other` of a rank of `communicator`.
pub(crate) fn place_in(communicator: &Communicator, other: &Communicator, rank: u32) -> u32 {
    // SAFETY: both exist; the groups are freed.
    unsafe {
        let (mut from, mut to) = (mpi_abi::MPI_GROUP_NULL, mpi_abi::MPI_GROUP_NULL);
        assert_eq!(mpi_abi::PMPI_Comm_group(communicator.handle(), &mut from), 0);
        assert_eq!(mpi_abi::PMPI_Comm_group(other.handle(), &mut to), 0);
        let mut place: c_int = 0;
        assert_eq!(
            mpi_abi::PMPI_Group_translate_ranks(from, 1, &(rank as c_int), to, &mut place),
            0
        );
        mpi_abi::PMPI_Group_free(&mut from);
        mpi_abi::PMPI_Group_free(&mut to);
        place as u32
    }
}

/// Frees a communicator.
pub(crate) fn free(communicator: &Communicator) {
    // SAFETY: it exists and is not used again.
    assert_eq!(unsafe { mpi_abi::PMPI_Comm_free(&mut communicator.handle()) }, 0);
}
