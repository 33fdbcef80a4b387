//! Layouts of PMIx's structures and types of its callbacks. Must never have a type of a callback on more than one
//! statement: the test reads this file.
#![allow(unsafe_code, reason = "types of functions that libpmix calls")]

use super::numbers::{pmix_data_type_t, pmix_rank_t, pmix_status_t};
use std::ffi::{c_char, c_int, c_void};

/// Bytes of a namespace's name with its zero byte.
pub const NAMESPACE_BYTES: usize = 256;
/// Bytes of an attribute's name with its zero byte.
pub const KEY_BYTES: usize = 512;

/// A process: its namespace and its number in that.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_proc_t {
    pub nspace: [c_char; NAMESPACE_BYTES],
    pub rank: pmix_rank_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_byte_object_t {
    pub bytes: *mut c_char,
    pub size: usize,
}

/// A variable of the environment, with what separates the parts of its value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_envar_t {
    pub envar: *mut c_char,
    pub value: *mut c_char,
    pub separator: c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_data_array_t {
    // `type` in C.
    pub kind: pmix_data_type_t,
    pub size: usize,
    pub array: *mut c_void,
}

/// The members that are used, of 44. All begin at its first byte.
#[repr(C)]
#[derive(Clone, Copy)]
pub union pmix_value_data {
    pub flag: bool,
    pub number: u64,
    pub string: *mut c_char,
    pub proc: *mut pmix_proc_t,
    pub darray: *mut pmix_data_array_t,
    pub bo: pmix_byte_object_t,
    pub envar: pmix_envar_t,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_value_t {
    // `type` in C.
    pub kind: pmix_data_type_t,
    pub data: pmix_value_data,
}

/// An attribute and its value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_info_t {
    pub key: [c_char; KEY_BYTES],
    pub flags: u32,
    pub value: pmix_value_t,
}

/// A value that was published, and by which process.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_pdata_t {
    pub proc: pmix_proc_t,
    pub key: [c_char; KEY_BYTES],
    pub value: pmix_value_t,
}

/// A program to start, and how many processes of it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pmix_app_t {
    pub cmd: *mut c_char,
    pub argv: *mut *mut c_char,
    pub env: *mut *mut c_char,
    pub cwd: *mut c_char,
    pub maxprocs: c_int,
    pub info: *mut pmix_info_t,
    pub ninfo: usize,
}

pub type pmix_release_cbfunc_t = Option<unsafe extern "C" fn(cbdata: *mut c_void)>;
pub type pmix_op_cbfunc_t = Option<unsafe extern "C" fn(status: pmix_status_t, cbdata: *mut c_void)>;
pub type pmix_modex_cbfunc_t = Option<
    unsafe extern "C" fn(
        status: pmix_status_t,
        data: *const c_char,
        ndata: usize,
        cbdata: *mut c_void,
        release_fn: pmix_release_cbfunc_t,
        release_cbdata: *mut c_void,
    ),
>;
pub type pmix_spawn_cbfunc_t =
    Option<unsafe extern "C" fn(status: pmix_status_t, nspace: *mut c_char, cbdata: *mut c_void)>;
pub type pmix_lookup_cbfunc_t =
    Option<unsafe extern "C" fn(status: pmix_status_t, data: *mut pmix_pdata_t, ndata: usize, cbdata: *mut c_void)>;
pub type pmix_info_cbfunc_t = Option<
    unsafe extern "C" fn(
        status: pmix_status_t,
        info: *mut pmix_info_t,
        ninfo: usize,
        cbdata: *mut c_void,
        release_fn: pmix_release_cbfunc_t,
        release_cbdata: *mut c_void,
    ),
>;
pub type pmix_dmodex_response_fn_t =
    Option<unsafe extern "C" fn(status: pmix_status_t, data: *mut c_char, sz: usize, cbdata: *mut c_void)>;

pub type pmix_server_client_finalized_fn_t = Option<
    unsafe extern "C" fn(
        proc: *const pmix_proc_t,
        server_object: *mut c_void,
        cbfunc: pmix_op_cbfunc_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t,
>;
pub type pmix_server_client_connected2_fn_t = Option<
    unsafe extern "C" fn(
        proc: *const pmix_proc_t,
        server_object: *mut c_void,
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: pmix_op_cbfunc_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t,
>;
pub type pmix_server_abort_fn_t = Option<
    unsafe extern "C" fn(
        proc: *const pmix_proc_t,
        server_object: *mut c_void,
        status: c_int,
        msg: *const c_char,
        procs: *mut pmix_proc_t,
        nprocs: usize,
        cbfunc: pmix_op_cbfunc_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t,
>;
pub type pmix_server_fencenb_fn_t = Option<
    unsafe extern "C" fn(
        procs: *const pmix_proc_t,
        nprocs: usize,
        info: *const pmix_info_t,
        ninfo: usize,
        data: *mut c_char,
        ndata: usize,
        cbfunc: pmix_modex_cbfunc_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t,
>;
pub type pmix_server_dmodex_req_fn_t = Option<
    unsafe extern "C" fn(
        proc: *const pmix_proc_t,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: pmix_modex_cbfunc_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t,
>;
pub type pmix_server_publish_fn_t = Option<
    unsafe extern "C" fn(
        proc: *const pmix_proc_t,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: pmix_op_cbfunc_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t,
>;
pub type pmix_server_lookup_fn_t = Option<
    unsafe extern "C" fn(
        proc: *const pmix_proc_t,
        keys: *mut *mut c_char,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: pmix_lookup_cbfunc_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t,
>;
pub type pmix_server_unpublish_fn_t = Option<
    unsafe extern "C" fn(
        proc: *const pmix_proc_t,
        keys: *mut *mut c_char,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: pmix_op_cbfunc_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t,
>;
pub type pmix_server_spawn_fn_t = Option<
    unsafe extern "C" fn(
        proc: *const pmix_proc_t,
        job_info: *const pmix_info_t,
        ninfo: usize,
        apps: *const pmix_app_t,
        napps: usize,
        cbfunc: pmix_spawn_cbfunc_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t,
>;
pub type pmix_server_connect_fn_t = Option<
    unsafe extern "C" fn(
        procs: *const pmix_proc_t,
        nprocs: usize,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: pmix_op_cbfunc_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t,
>;
pub type pmix_server_register_events_fn_t = Option<
    unsafe extern "C" fn(
        codes: *mut pmix_status_t,
        ncodes: usize,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: pmix_op_cbfunc_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t,
>;
pub type pmix_server_deregister_events_fn_t = Option<
    unsafe extern "C" fn(
        codes: *mut pmix_status_t,
        ncodes: usize,
        cbfunc: pmix_op_cbfunc_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t,
>;
pub type pmix_server_grp_fn_t = Option<
    unsafe extern "C" fn(
        op: u32,
        grp: *mut c_char,
        procs: *const pmix_proc_t,
        nprocs: usize,
        directives: *const pmix_info_t,
        ndirs: usize,
        cbfunc: pmix_info_cbfunc_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t,
>;

/// What libpmix calls. What is not given here stays a null pointer: libpmix then refuses or does without.
#[repr(C)]
pub struct pmix_server_module_t {
    pub client_connected: *const c_void,
    pub client_finalized: pmix_server_client_finalized_fn_t,
    pub abort: pmix_server_abort_fn_t,
    pub fence_nb: pmix_server_fencenb_fn_t,
    pub direct_modex: pmix_server_dmodex_req_fn_t,
    pub publish: pmix_server_publish_fn_t,
    pub lookup: pmix_server_lookup_fn_t,
    pub unpublish: pmix_server_unpublish_fn_t,
    pub spawn: pmix_server_spawn_fn_t,
    pub connect: pmix_server_connect_fn_t,
    pub disconnect: pmix_server_connect_fn_t,
    pub register_events: pmix_server_register_events_fn_t,
    pub deregister_events: pmix_server_deregister_events_fn_t,
    pub listener: *const c_void,
    pub notify_event: *const c_void,
    pub query: *const c_void,
    pub tool_connected: *const c_void,
    pub log: *const c_void,
    pub allocate: *const c_void,
    pub job_control: *const c_void,
    pub monitor: *const c_void,
    pub get_credential: *const c_void,
    pub validate_credential: *const c_void,
    pub iof_pull: *const c_void,
    pub push_stdin: *const c_void,
    pub group: pmix_server_grp_fn_t,
    pub fabric: *const c_void,
    pub client_connected2: pmix_server_client_connected2_fn_t,
    pub session_control: *const c_void,
    // Places that later releases of libpmix may have added: it reads them as not given.
    pub later: [*const c_void; 16],
}
