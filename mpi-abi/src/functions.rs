//! What this repository calls of the MPI that is loaded, whoever stands in front of it.
#![allow(
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "contracts and signatures are those of MPI"
)]

use crate::*;
use std::{
    ffi::{c_char, c_int, c_void},
    mem::transmute,
    ptr::NonNull,
};

/// Functions that are found when they are first called. One that the MPI lacks returns the code of an error.
macro_rules! of_mpi {
    ($(pub fn $name:ident($($argument:ident: $kind:ty),* $(,)?) -> c_int;)*) => {
        $(
            #[inline]
            pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                static FUNCTION: Function = Function::new(concat!(stringify!($name), "\0"));
                let Some(address) = FUNCTION.address() else {
                    return MPI_ERR_UNSUPPORTED_OPERATION;
                };
                // SAFETY: a function of this name has this type in the ABI; the arguments are the caller's.
                unsafe {
                    transmute::<NonNull<c_void>, unsafe extern "C" fn($($kind),*) -> c_int>(address)($($argument),*)
                }
            }
        )*
    };
}

#[path = "collectives.rs"]
mod collectives;
pub use collectives::*;

of_mpi! {
    pub fn PMPI_Abort(comm: MPI_Comm, errorcode: c_int) -> c_int;
    pub fn PMPI_Add_error_class(errorclass: *mut c_int) -> c_int;
    pub fn PMPI_Add_error_code(errorclass: c_int, errorcode: *mut c_int) -> c_int;
    pub fn PMPI_Add_error_string(errorcode: c_int, string: *const c_char) -> c_int;
    pub fn PMPI_Cancel(request: *mut MPI_Request) -> c_int;
    pub fn PMPI_Close_port(port_name: *const c_char) -> c_int;
    pub fn PMPI_Comm_accept(
        port_name: *const c_char,
        info: MPI_Info,
        root: c_int,
        comm: MPI_Comm,
        newcomm: *mut MPI_Comm,
    ) -> c_int;
    pub fn PMPI_Comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) -> c_int;
    pub fn PMPI_Comm_connect(
        port_name: *const c_char,
        info: MPI_Info,
        root: c_int,
        comm: MPI_Comm,
        newcomm: *mut MPI_Comm,
    ) -> c_int;
    pub fn PMPI_Comm_create(comm: MPI_Comm, group: MPI_Group, newcomm: *mut MPI_Comm) -> c_int;
    pub fn PMPI_Comm_create_errhandler(
        comm_errhandler_fn: *mut MPI_Comm_errhandler_function,
        errhandler: *mut MPI_Errhandler,
    ) -> c_int;
    pub fn PMPI_Comm_create_from_group(
        group: MPI_Group,
        stringtag: *const c_char,
        info: MPI_Info,
        errhandler: MPI_Errhandler,
        newcomm: *mut MPI_Comm,
    ) -> c_int;
    pub fn PMPI_Comm_create_group(comm: MPI_Comm, group: MPI_Group, tag: c_int, newcomm: *mut MPI_Comm) -> c_int;
    pub fn PMPI_Comm_create_keyval(
        comm_copy_attr_fn: *mut MPI_Comm_copy_attr_function,
        comm_delete_attr_fn: *mut MPI_Comm_delete_attr_function,
        comm_keyval: *mut c_int,
        extra_state: *mut c_void,
    ) -> c_int;
    pub fn PMPI_Comm_disconnect(comm: *mut MPI_Comm) -> c_int;
    pub fn PMPI_Comm_dup(comm: MPI_Comm, newcomm: *mut MPI_Comm) -> c_int;
    pub fn PMPI_Comm_free(comm: *mut MPI_Comm) -> c_int;
    pub fn PMPI_Comm_get_attr(
        comm: MPI_Comm,
        comm_keyval: c_int,
        attribute_val: *mut c_void,
        flag: *mut c_int,
    ) -> c_int;
    pub fn PMPI_Comm_get_errhandler(comm: MPI_Comm, errhandler: *mut MPI_Errhandler) -> c_int;
    pub fn PMPI_Comm_get_name(comm: MPI_Comm, comm_name: *mut c_char, resultlen: *mut c_int) -> c_int;
    pub fn PMPI_Comm_group(comm: MPI_Comm, group: *mut MPI_Group) -> c_int;
    pub fn PMPI_Comm_idup(comm: MPI_Comm, newcomm: *mut MPI_Comm, request: *mut MPI_Request) -> c_int;
    pub fn PMPI_Comm_rank(comm: MPI_Comm, rank: *mut c_int) -> c_int;
    pub fn PMPI_Comm_remote_group(comm: MPI_Comm, group: *mut MPI_Group) -> c_int;
    pub fn PMPI_Comm_remote_size(comm: MPI_Comm, size: *mut c_int) -> c_int;
    pub fn PMPI_Comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) -> c_int;
    pub fn PMPI_Comm_set_info(comm: MPI_Comm, info: MPI_Info) -> c_int;
    pub fn PMPI_Comm_set_name(comm: MPI_Comm, comm_name: *const c_char) -> c_int;
    pub fn PMPI_Comm_size(comm: MPI_Comm, size: *mut c_int) -> c_int;
    pub fn PMPI_Comm_spawn(
        command: *const c_char,
        argv: *mut *mut c_char,
        maxprocs: c_int,
        info: MPI_Info,
        root: c_int,
        comm: MPI_Comm,
        intercomm: *mut MPI_Comm,
        array_of_errcodes: *mut c_int,
    ) -> c_int;
    pub fn PMPI_Comm_spawn_multiple(
        count: c_int,
        array_of_commands: *mut *mut c_char,
        array_of_argv: *mut *mut *mut c_char,
        array_of_maxprocs: *const c_int,
        array_of_info: *const MPI_Info,
        root: c_int,
        comm: MPI_Comm,
        intercomm: *mut MPI_Comm,
        array_of_errcodes: *mut c_int,
    ) -> c_int;
    pub fn PMPI_Comm_test_inter(comm: MPI_Comm, flag: *mut c_int) -> c_int;
    pub fn PMPI_Errhandler_free(errhandler: *mut MPI_Errhandler) -> c_int;
    pub fn PMPI_Error_class(errorcode: c_int, errorclass: *mut c_int) -> c_int;
    pub fn PMPI_Error_string(errorcode: c_int, string: *mut c_char, resultlen: *mut c_int) -> c_int;
    pub fn PMPI_Finalize() -> c_int;
    pub fn PMPI_Finalized(flag: *mut c_int) -> c_int;
    pub fn PMPI_Get_count(status: *const MPI_Status, datatype: MPI_Datatype, count: *mut c_int) -> c_int;
    pub fn PMPI_Get_library_version(version: *mut c_char, resultlen: *mut c_int) -> c_int;
    pub fn PMPI_Get_processor_name(name: *mut c_char, resultlen: *mut c_int) -> c_int;
    pub fn PMPI_Grequest_complete(request: MPI_Request) -> c_int;
    pub fn PMPI_Grequest_start(
        query_fn: *mut MPI_Grequest_query_function,
        free_fn: *mut MPI_Grequest_free_function,
        cancel_fn: *mut MPI_Grequest_cancel_function,
        extra_state: *mut c_void,
        request: *mut MPI_Request,
    ) -> c_int;
    pub fn PMPI_Group_free(group: *mut MPI_Group) -> c_int;
    pub fn PMPI_Group_from_session_pset(
        session: MPI_Session,
        pset_name: *const c_char,
        newgroup: *mut MPI_Group,
    ) -> c_int;
    pub fn PMPI_Group_incl(group: MPI_Group, n: c_int, ranks: *const c_int, newgroup: *mut MPI_Group) -> c_int;
    pub fn PMPI_Group_size(group: MPI_Group, size: *mut c_int) -> c_int;
    pub fn PMPI_Group_translate_ranks(
        group1: MPI_Group,
        n: c_int,
        ranks1: *const c_int,
        group2: MPI_Group,
        ranks2: *mut c_int,
    ) -> c_int;
    pub fn PMPI_Ialltoallv_c(
        sendbuf: *const c_void,
        sendcounts: *const MPI_Count,
        sdispls: *const MPI_Aint,
        sendtype: MPI_Datatype,
        recvbuf: *mut c_void,
        recvcounts: *const MPI_Count,
        rdispls: *const MPI_Aint,
        recvtype: MPI_Datatype,
        comm: MPI_Comm,
        request: *mut MPI_Request,
    ) -> c_int;
    pub fn PMPI_Info_create(info: *mut MPI_Info) -> c_int;
    pub fn PMPI_Info_dup(info: MPI_Info, newinfo: *mut MPI_Info) -> c_int;
    pub fn PMPI_Info_free(info: *mut MPI_Info) -> c_int;
    pub fn PMPI_Info_get_string(
        info: MPI_Info,
        key: *const c_char,
        buflen: *mut c_int,
        value: *mut c_char,
        flag: *mut c_int,
    ) -> c_int;
    pub fn PMPI_Info_set(info: MPI_Info, key: *const c_char, value: *const c_char) -> c_int;
    pub fn PMPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int;
    pub fn PMPI_Init_thread(
        argc: *mut c_int,
        argv: *mut *mut *mut c_char,
        required: c_int,
        provided: *mut c_int,
    ) -> c_int;
    pub fn PMPI_Initialized(flag: *mut c_int) -> c_int;
    pub fn PMPI_Intercomm_create(
        local_comm: MPI_Comm,
        local_leader: c_int,
        peer_comm: MPI_Comm,
        remote_leader: c_int,
        tag: c_int,
        newintercomm: *mut MPI_Comm,
    ) -> c_int;
    pub fn PMPI_Intercomm_create_from_groups(
        local_group: MPI_Group,
        local_leader: c_int,
        remote_group: MPI_Group,
        remote_leader: c_int,
        stringtag: *const c_char,
        info: MPI_Info,
        errhandler: MPI_Errhandler,
        newintercomm: *mut MPI_Comm,
    ) -> c_int;
    pub fn PMPI_Intercomm_merge(intercomm: MPI_Comm, high: c_int, newintracomm: *mut MPI_Comm) -> c_int;
    pub fn PMPI_Iprobe(source: c_int, tag: c_int, comm: MPI_Comm, flag: *mut c_int, status: *mut MPI_Status) -> c_int;
    pub fn PMPI_Irecv(
        buf: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        source: c_int,
        tag: c_int,
        comm: MPI_Comm,
        request: *mut MPI_Request,
    ) -> c_int;
    pub fn PMPI_Is_thread_main(flag: *mut c_int) -> c_int;
    pub fn PMPI_Isend(
        buf: *const c_void,
        count: c_int,
        datatype: MPI_Datatype,
        dest: c_int,
        tag: c_int,
        comm: MPI_Comm,
        request: *mut MPI_Request,
    ) -> c_int;
    pub fn PMPI_Lookup_name(service_name: *const c_char, info: MPI_Info, port_name: *mut c_char) -> c_int;
    pub fn PMPI_Op_commutative(op: MPI_Op, commute: *mut c_int) -> c_int;
    pub fn PMPI_Op_free(op: *mut MPI_Op) -> c_int;
    pub fn PMPI_Open_port(info: MPI_Info, port_name: *mut c_char) -> c_int;
    pub fn PMPI_Pack(
        inbuf: *const c_void,
        incount: c_int,
        datatype: MPI_Datatype,
        outbuf: *mut c_void,
        outsize: c_int,
        position: *mut c_int,
        comm: MPI_Comm,
    ) -> c_int;
    pub fn PMPI_Pack_size(incount: c_int, datatype: MPI_Datatype, comm: MPI_Comm, size: *mut c_int) -> c_int;
    pub fn PMPI_Publish_name(service_name: *const c_char, info: MPI_Info, port_name: *const c_char) -> c_int;
    pub fn PMPI_Query_thread(provided: *mut c_int) -> c_int;
    pub fn PMPI_Recv_init(
        buf: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        source: c_int,
        tag: c_int,
        comm: MPI_Comm,
        request: *mut MPI_Request,
    ) -> c_int;
    pub fn PMPI_Reduce_local(
        inbuf: *const c_void,
        inoutbuf: *mut c_void,
        count: c_int,
        datatype: MPI_Datatype,
        op: MPI_Op,
    ) -> c_int;
    pub fn PMPI_Request_free(request: *mut MPI_Request) -> c_int;
    pub fn PMPI_Request_get_status(request: MPI_Request, flag: *mut c_int, status: *mut MPI_Status) -> c_int;
    pub fn PMPI_Request_get_status_all(
        count: c_int,
        array_of_requests: *const MPI_Request,
        flag: *mut c_int,
        array_of_statuses: *mut MPI_Status,
    ) -> c_int;
    pub fn PMPI_Request_get_status_any(
        count: c_int,
        array_of_requests: *const MPI_Request,
        indx: *mut c_int,
        flag: *mut c_int,
        status: *mut MPI_Status,
    ) -> c_int;
    pub fn PMPI_Request_get_status_some(
        incount: c_int,
        array_of_requests: *const MPI_Request,
        outcount: *mut c_int,
        array_of_indices: *mut c_int,
        array_of_statuses: *mut MPI_Status,
    ) -> c_int;
    pub fn PMPI_Sendrecv(
        sendbuf: *const c_void,
        sendcount: c_int,
        sendtype: MPI_Datatype,
        dest: c_int,
        sendtag: c_int,
        recvbuf: *mut c_void,
        recvcount: c_int,
        recvtype: MPI_Datatype,
        source: c_int,
        recvtag: c_int,
        comm: MPI_Comm,
        status: *mut MPI_Status,
    ) -> c_int;
    pub fn PMPI_Session_call_errhandler(session: MPI_Session, errorcode: c_int) -> c_int;
    pub fn PMPI_Session_finalize(session: *mut MPI_Session) -> c_int;
    pub fn PMPI_Session_get_pset_info(session: MPI_Session, pset_name: *const c_char, info: *mut MPI_Info) -> c_int;
    pub fn PMPI_Session_init(info: MPI_Info, errhandler: MPI_Errhandler, session: *mut MPI_Session) -> c_int;
    pub fn PMPI_Start(request: *mut MPI_Request) -> c_int;
    pub fn PMPI_Startall(count: c_int, array_of_requests: *mut MPI_Request) -> c_int;
    pub fn PMPI_Status_set_cancelled(status: *mut MPI_Status, flag: c_int) -> c_int;
    pub fn PMPI_Status_set_elements(status: *mut MPI_Status, datatype: MPI_Datatype, count: c_int) -> c_int;
    pub fn PMPI_Test(request: *mut MPI_Request, flag: *mut c_int, status: *mut MPI_Status) -> c_int;
    pub fn PMPI_Testall(
        count: c_int,
        array_of_requests: *mut MPI_Request,
        flag: *mut c_int,
        array_of_statuses: *mut MPI_Status,
    ) -> c_int;
    pub fn PMPI_Testany(
        count: c_int,
        array_of_requests: *mut MPI_Request,
        indx: *mut c_int,
        flag: *mut c_int,
        status: *mut MPI_Status,
    ) -> c_int;
    pub fn PMPI_Testsome(
        incount: c_int,
        array_of_requests: *mut MPI_Request,
        outcount: *mut c_int,
        array_of_indices: *mut c_int,
        array_of_statuses: *mut MPI_Status,
    ) -> c_int;
    pub fn PMPI_Type_free(datatype: *mut MPI_Datatype) -> c_int;
    pub fn PMPI_Type_get_extent(datatype: MPI_Datatype, lb: *mut MPI_Aint, extent: *mut MPI_Aint) -> c_int;
    pub fn PMPI_Type_get_true_extent(
        datatype: MPI_Datatype,
        true_lb: *mut MPI_Aint,
        true_extent: *mut MPI_Aint,
    ) -> c_int;
    pub fn PMPI_Type_size(datatype: MPI_Datatype, size: *mut c_int) -> c_int;
    pub fn PMPI_Unpack(
        inbuf: *const c_void,
        insize: c_int,
        position: *mut c_int,
        outbuf: *mut c_void,
        outcount: c_int,
        datatype: MPI_Datatype,
        comm: MPI_Comm,
    ) -> c_int;
    pub fn PMPI_Unpublish_name(service_name: *const c_char, info: MPI_Info, port_name: *const c_char) -> c_int;
    pub fn PMPI_Wait(request: *mut MPI_Request, status: *mut MPI_Status) -> c_int;
    pub fn PMPI_Waitall(
        count: c_int,
        array_of_requests: *mut MPI_Request,
        array_of_statuses: *mut MPI_Status,
    ) -> c_int;
    pub fn PMPI_Waitany(
        count: c_int,
        array_of_requests: *mut MPI_Request,
        indx: *mut c_int,
        status: *mut MPI_Status,
    ) -> c_int;
    pub fn PMPI_Waitsome(
        incount: c_int,
        array_of_requests: *mut MPI_Request,
        outcount: *mut c_int,
        array_of_indices: *mut c_int,
        array_of_statuses: *mut MPI_Status,
    ) -> c_int;
}
