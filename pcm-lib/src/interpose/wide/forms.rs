//! The functions of MPI: each operation in a form that waits, in one that does not, and in one to be started often.
#![allow(unsafe_code, reason = "calls MPI")]
#![allow(non_snake_case, reason = "the names are those of MPI")]
#![allow(clippy::too_many_arguments, reason = "signatures are those of MPI")]

use super::operation::Form;
use super::persistent::Again;
use super::{blocks, sums};
use mpi_abi::{MPI_Comm, MPI_Datatype, MPI_Info, MPI_Op, MPI_Request};
use std::os::raw::{c_int, c_void};

/// All forms of an operation; the function that has what they share; MPI's own.
macro_rules! forms {
    ($(
        $(#[$meta:meta])*
        unsafe fn $waiting:ident($($name:ident: $kind:ty),*);
        unsafe fn $nonblocking:ident(.., request);
        unsafe fn $persistent:ident(.., info, request);
        $shared:path, $own:ident, $own_nonblocking:ident, $own_persistent:ident;
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

            /// As MPI says.
            ///
            /// # Safety
            /// The caller's arguments of the MPI function.
            pub(in crate::interpose) unsafe fn $persistent(
                $($name: $kind),*, info: MPI_Info, request: *mut MPI_Request
            ) -> c_int {
                // SAFETY: the caller's contract, which holds until the program frees the request.
                unsafe {
                    let again = || -> Again { Box::new(move |request| $nonblocking($($name),*, request)) };
                    let own = || mpi_abi::$own_persistent($($name),*, info, request);
                    $shared($($name),*, Form::Persistent(request, &again), own)
                }
            }
        )*
    };
}

forms! {
    unsafe fn MPI_Barrier(comm: MPI_Comm);
    unsafe fn MPI_Ibarrier(.., request);
    unsafe fn MPI_Barrier_init(.., info, request);
    sums::barrier, PMPI_Barrier, PMPI_Ibarrier, PMPI_Barrier_init;

    unsafe fn MPI_Bcast(buffer: *mut c_void, count: c_int, datatype: MPI_Datatype, root: c_int, comm: MPI_Comm);
    unsafe fn MPI_Ibcast(.., request);
    unsafe fn MPI_Bcast_init(.., info, request);
    sums::bcast, PMPI_Bcast, PMPI_Ibcast, PMPI_Bcast_init;

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
    unsafe fn MPI_Reduce_init(.., info, request);
    sums::reduce, PMPI_Reduce, PMPI_Ireduce, PMPI_Reduce_init;

    unsafe fn MPI_Allreduce(
        sendbuf: *mut c_void,
        recvbuf: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        op: MPI_Op,
        comm: MPI_Comm
    );
    unsafe fn MPI_Iallreduce(.., request);
    unsafe fn MPI_Allreduce_init(.., info, request);
    sums::allreduce, PMPI_Allreduce, PMPI_Iallreduce, PMPI_Allreduce_init;

    unsafe fn MPI_Reduce_scatter_block(
        sendbuf: *mut c_void,
        recvbuf: *mut c_void,
        recvcount: c_int,
        datatype: MPI_Datatype,
        op: MPI_Op,
        comm: MPI_Comm
    );
    unsafe fn MPI_Ireduce_scatter_block(.., request);
    unsafe fn MPI_Reduce_scatter_block_init(.., info, request);
    sums::reduce_scatter_block, PMPI_Reduce_scatter_block, PMPI_Ireduce_scatter_block, PMPI_Reduce_scatter_block_init;

    unsafe fn MPI_Reduce_scatter(
        sendbuf: *mut c_void,
        recvbuf: *mut c_void,
        recvcounts: *mut c_int,
        datatype: MPI_Datatype,
        op: MPI_Op,
        comm: MPI_Comm
    );
    unsafe fn MPI_Ireduce_scatter(.., request);
    unsafe fn MPI_Reduce_scatter_init(.., info, request);
    sums::reduce_scatter, PMPI_Reduce_scatter, PMPI_Ireduce_scatter, PMPI_Reduce_scatter_init;

    unsafe fn MPI_Scan(
        sendbuf: *mut c_void,
        recvbuf: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        op: MPI_Op,
        comm: MPI_Comm
    );
    unsafe fn MPI_Iscan(.., request);
    unsafe fn MPI_Scan_init(.., info, request);
    sums::scan_inclusive, PMPI_Scan, PMPI_Iscan, PMPI_Scan_init;

    unsafe fn MPI_Exscan(
        sendbuf: *mut c_void,
        recvbuf: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        op: MPI_Op,
        comm: MPI_Comm
    );
    unsafe fn MPI_Iexscan(.., request);
    unsafe fn MPI_Exscan_init(.., info, request);
    sums::scan_exclusive, PMPI_Exscan, PMPI_Iexscan, PMPI_Exscan_init;

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
    unsafe fn MPI_Gather_init(.., info, request);
    blocks::gather_equal, PMPI_Gather, PMPI_Igather, PMPI_Gather_init;

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
    unsafe fn MPI_Gatherv_init(.., info, request);
    blocks::gather_varied, PMPI_Gatherv, PMPI_Igatherv, PMPI_Gatherv_init;

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
    unsafe fn MPI_Scatter_init(.., info, request);
    blocks::scatter_equal, PMPI_Scatter, PMPI_Iscatter, PMPI_Scatter_init;

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
    unsafe fn MPI_Scatterv_init(.., info, request);
    blocks::scatter_varied, PMPI_Scatterv, PMPI_Iscatterv, PMPI_Scatterv_init;

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
    unsafe fn MPI_Allgather_init(.., info, request);
    blocks::allgather_equal, PMPI_Allgather, PMPI_Iallgather, PMPI_Allgather_init;

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
    unsafe fn MPI_Allgatherv_init(.., info, request);
    blocks::allgather_varied, PMPI_Allgatherv, PMPI_Iallgatherv, PMPI_Allgatherv_init;

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
    unsafe fn MPI_Alltoall_init(.., info, request);
    blocks::alltoall_equal, PMPI_Alltoall, PMPI_Ialltoall, PMPI_Alltoall_init;

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
    unsafe fn MPI_Alltoallv_init(.., info, request);
    blocks::alltoall_varied, PMPI_Alltoallv, PMPI_Ialltoallv, PMPI_Alltoallv_init;
}
