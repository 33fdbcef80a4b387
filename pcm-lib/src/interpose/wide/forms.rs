//! The functions of MPI: each operation in a form that waits and in one that does not.
#![allow(unsafe_code, reason = "calls MPI")]
#![allow(non_snake_case, reason = "the names are those of MPI")]
#![allow(clippy::too_many_arguments, reason = "signatures are those of MPI")]

use super::operation::Form;
use super::{blocks, sums};
use mpi_abi::{MPI_Comm, MPI_Datatype, MPI_Op, MPI_Request};
use std::os::raw::{c_int, c_void};

/// Both forms of an operation; the function that has what they share; MPI's own.
macro_rules! forms {
    ($(
        $(#[$meta:meta])*
        unsafe fn $waiting:ident($($name:ident: $kind:ty),*);
        unsafe fn $nonblocking:ident(.., request);
        $shared:path, $own:ident, $own_nonblocking:ident;
    )*) => {
        $(
            /// As MPI says.
            ///
            /// # Safety
            /// The caller's arguments of the MPI function.
            pub(in crate::interpose) unsafe fn $waiting($($name: $kind),*) -> c_int {
                // SAFETY: the caller's contract.
                unsafe { $shared($($name),*, Form::Waiting, || mpi_abi::$own($($name),*)) }
            }

            /// As MPI says.
            ///
            /// # Safety
            /// The caller's arguments of the MPI function.
            pub(in crate::interpose) unsafe fn $nonblocking($($name: $kind),*, request: *mut MPI_Request) -> c_int {
                // SAFETY: the caller's contract.
                unsafe {
                    let own = || mpi_abi::$own_nonblocking($($name),*, request);
                    $shared($($name),*, Form::Nonblocking(request), own)
                }
            }
        )*
    };
}

forms! {
    unsafe fn MPI_Barrier(comm: MPI_Comm);
    unsafe fn MPI_Ibarrier(.., request);
    sums::barrier, PMPI_Barrier, PMPI_Ibarrier;

    unsafe fn MPI_Bcast(buffer: *mut c_void, count: c_int, datatype: MPI_Datatype, root: c_int, comm: MPI_Comm);
    unsafe fn MPI_Ibcast(.., request);
    sums::bcast, PMPI_Bcast, PMPI_Ibcast;

    unsafe fn MPI_Reduce(
        sendbuf: *mut c_void,
        recvbuf: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        op: MPI_Op,
        root: c_int,
        comm: MPI_Comm
    );
    unsafe fn MPI_Ireduce(.., request);
    sums::reduce, PMPI_Reduce, PMPI_Ireduce;

    unsafe fn MPI_Allreduce(
        sendbuf: *mut c_void,
        recvbuf: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        op: MPI_Op,
        comm: MPI_Comm
    );
    unsafe fn MPI_Iallreduce(.., request);
    sums::allreduce, PMPI_Allreduce, PMPI_Iallreduce;

    unsafe fn MPI_Reduce_scatter_block(
        sendbuf: *mut c_void,
        recvbuf: *mut c_void,
        recvcount: c_int,
        datatype: MPI_Datatype,
        op: MPI_Op,
        comm: MPI_Comm
    );
    unsafe fn MPI_Ireduce_scatter_block(.., request);
    sums::reduce_scatter_block, PMPI_Reduce_scatter_block, PMPI_Ireduce_scatter_block;

    unsafe fn MPI_Reduce_scatter(
        sendbuf: *mut c_void,
        recvbuf: *mut c_void,
        recvcounts: *mut c_int,
        datatype: MPI_Datatype,
        op: MPI_Op,
        comm: MPI_Comm
    );
    unsafe fn MPI_Ireduce_scatter(.., request);
    sums::reduce_scatter, PMPI_Reduce_scatter, PMPI_Ireduce_scatter;

    unsafe fn MPI_Scan(
        sendbuf: *mut c_void,
        recvbuf: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        op: MPI_Op,
        comm: MPI_Comm
    );
    unsafe fn MPI_Iscan(.., request);
    sums::scan_inclusive, PMPI_Scan, PMPI_Iscan;

    unsafe fn MPI_Exscan(
        sendbuf: *mut c_void,
        recvbuf: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        op: MPI_Op,
        comm: MPI_Comm
    );
    unsafe fn MPI_Iexscan(.., request);
    sums::scan_exclusive, PMPI_Exscan, PMPI_Iexscan;

    unsafe fn MPI_Gather(
        sendbuf: *mut c_void,
        sendcount: c_int,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcount: c_int,
        recvtype: MPI_Datatype,
        root: c_int,
        comm: MPI_Comm
    );
    unsafe fn MPI_Igather(.., request);
    blocks::gather_equal, PMPI_Gather, PMPI_Igather;

    unsafe fn MPI_Gatherv(
        sendbuf: *mut c_void,
        sendcount: c_int,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcounts: *mut c_int,
        displs: *mut c_int,
        recvtype: MPI_Datatype,
        root: c_int,
        comm: MPI_Comm
    );
    unsafe fn MPI_Igatherv(.., request);
    blocks::gather_varied, PMPI_Gatherv, PMPI_Igatherv;

    unsafe fn MPI_Scatter(
        sendbuf: *mut c_void,
        sendcount: c_int,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcount: c_int,
        recvtype: MPI_Datatype,
        root: c_int,
        comm: MPI_Comm
    );
    unsafe fn MPI_Iscatter(.., request);
    blocks::scatter_equal, PMPI_Scatter, PMPI_Iscatter;

    unsafe fn MPI_Scatterv(
        sendbuf: *mut c_void,
        sendcounts: *mut c_int,
        displs: *mut c_int,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcount: c_int,
        recvtype: MPI_Datatype,
        root: c_int,
        comm: MPI_Comm
    );
    unsafe fn MPI_Iscatterv(.., request);
    blocks::scatter_varied, PMPI_Scatterv, PMPI_Iscatterv;

    unsafe fn MPI_Allgather(
        sendbuf: *mut c_void,
        sendcount: c_int,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcount: c_int,
        recvtype: MPI_Datatype,
        comm: MPI_Comm
    );
    unsafe fn MPI_Iallgather(.., request);
    blocks::allgather_equal, PMPI_Allgather, PMPI_Iallgather;

    unsafe fn MPI_Allgatherv(
        sendbuf: *mut c_void,
        sendcount: c_int,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcounts: *mut c_int,
        displs: *mut c_int,
        recvtype: MPI_Datatype,
        comm: MPI_Comm
    );
    unsafe fn MPI_Iallgatherv(.., request);
    blocks::allgather_varied, PMPI_Allgatherv, PMPI_Iallgatherv;

    unsafe fn MPI_Alltoall(
        sendbuf: *mut c_void,
        sendcount: c_int,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcount: c_int,
        recvtype: MPI_Datatype,
        comm: MPI_Comm
    );
    unsafe fn MPI_Ialltoall(.., request);
    blocks::alltoall_equal, PMPI_Alltoall, PMPI_Ialltoall;

    unsafe fn MPI_Alltoallv(
        sendbuf: *mut c_void,
        sendcounts: *mut c_int,
        sdispls: *mut c_int,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcounts: *mut c_int,
        rdispls: *mut c_int,
        recvtype: MPI_Datatype,
        comm: MPI_Comm
    );
    unsafe fn MPI_Ialltoallv(.., request);
    blocks::alltoall_varied, PMPI_Alltoallv, PMPI_Ialltoallv;
}
