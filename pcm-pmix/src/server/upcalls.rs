//! The functions that libpmix calls, on its own threads: each copies what it is passed, hands it to the process's own
//! thread, and returns. Must never wait.
#![allow(unsafe_code, reason = "functions that libpmix calls")]

use super::{
    answers::{Callback, Waiting},
    link::Input,
    reading::{self, Attributes},
};
use crate::{
    bindings::{
        attributes::{
            PMIX_GROUP_ENDPT_DATA, PMIX_GROUP_LOCAL_ONLY, PMIX_LOCAL_COLLECTIVE_STATUS, PMIX_PERSISTENCE, PMIX_WAIT,
        },
        numbers::{
            PMIX_ERR_BAD_PARAM, PMIX_ERR_NOT_SUPPORTED, PMIX_ERR_RESOURCE_BUSY, PMIX_GROUP_CONSTRUCT,
            PMIX_GROUP_DESTRUCT, PMIX_OPERATION_SUCCEEDED, PMIX_PERSIST_FIRST_READ, PMIX_SUCCESS, pmix_status_t,
        },
        types::{
            pmix_app_t, pmix_info_cbfunc_t, pmix_info_t, pmix_lookup_cbfunc_t, pmix_modex_cbfunc_t, pmix_op_cbfunc_t,
            pmix_proc_t, pmix_server_module_t, pmix_spawn_cbfunc_t,
        },
    },
    names::{Process, Status},
    rules::{CollectiveCall, Kind, Upcall},
};
use std::{
    ffi::{c_char, c_int, c_void},
    mem,
    sync::{OnceLock, mpsc::SyncSender},
};

/// Where calls go. There is one libpmix in a process, and it has no word of ours in most of its calls.
static TO_PROCESS: OnceLock<SyncSender<Input>> = OnceLock::new();

/// All functions that are given, for calls that go to `to_process`.
pub(super) fn module(to_process: SyncSender<Input>) -> pmix_server_module_t {
    // The first counts, which is the only one.
    _ = TO_PROCESS.set(to_process);
    // SAFETY: null pointers are functions that are not given.
    let mut module: pmix_server_module_t = unsafe { mem::zeroed() };
    module.client_connected2 = Some(client_connected);
    module.client_finalized = Some(client_finalized);
    module.abort = Some(abort);
    module.fence_nb = Some(fence);
    module.direct_modex = Some(direct_modex);
    module.publish = Some(publish);
    module.lookup = Some(lookup);
    module.unpublish = Some(unpublish);
    module.spawn = Some(spawn);
    module.connect = Some(connect);
    module.disconnect = Some(disconnect);
    module.register_events = Some(register_events);
    module.deregister_events = Some(deregister_events);
    module.group = Some(group);
    module
}

/// Hands something to the process; whether it was taken.
pub(super) fn send(input: Input) -> bool {
    TO_PROCESS
        .get()
        .is_some_and(|to_process| to_process.try_send(input).is_ok())
}

fn called(upcall: Upcall, callback: Callback, word: *mut c_void) -> pmix_status_t {
    let waiting = Waiting { callback, word };
    match send(Input::Called { waiting, upcall }) {
        true => PMIX_SUCCESS,
        false => PMIX_ERR_RESOURCE_BUSY,
    }
}

fn collective(kind: Kind, members: Vec<Process>, data: Vec<u8>, attributes: Attributes<'_>) -> Upcall {
    let local = attributes.number(PMIX_LOCAL_COLLECTIVE_STATUS).unwrap_or(0);
    Upcall::Collective(CollectiveCall {
        kind,
        members,
        data,
        timeout: attributes.timeout(),
        local: Status((local as u32).cast_signed()),
        is_local: attributes.is_set(PMIX_GROUP_LOCAL_ONLY),
    })
}

unsafe extern "C" fn client_connected(
    process: *const pmix_proc_t,
    _: *mut c_void,
    _: *mut pmix_info_t,
    _: usize,
    callback: pmix_op_cbfunc_t,
    word: *mut c_void,
) -> pmix_status_t {
    // SAFETY: libpmix passes a process.
    let process = unsafe { reading::process(process) };
    called(Upcall::Connected(process), Callback::Plain(callback), word)
}

unsafe extern "C" fn client_finalized(
    process: *const pmix_proc_t,
    _: *mut c_void,
    callback: pmix_op_cbfunc_t,
    word: *mut c_void,
) -> pmix_status_t {
    // SAFETY: libpmix passes a process.
    let process = unsafe { reading::process(process) };
    called(Upcall::Finalized(process), Callback::Plain(callback), word)
}

unsafe extern "C" fn abort(
    process: *const pmix_proc_t,
    _: *mut c_void,
    status: c_int,
    message: *const c_char,
    victims: *mut pmix_proc_t,
    count: usize,
    callback: pmix_op_cbfunc_t,
    word: *mut c_void,
) -> pmix_status_t {
    // SAFETY: libpmix passes a process, a text or none, and a list of its length or none.
    let (process, message, victims) = unsafe {
        (
            reading::process(process),
            reading::bytes_of(message),
            reading::processes(victims, count),
        )
    };
    let upcall = Upcall::Aborted {
        process,
        status,
        message: String::from_utf8_lossy(&message).into_owned(),
        victims,
    };
    called(upcall, Callback::Plain(callback), word)
}

unsafe extern "C" fn fence(
    members: *const pmix_proc_t,
    count: usize,
    list: *const pmix_info_t,
    length: usize,
    data: *mut c_char,
    bytes: usize,
    callback: pmix_modex_cbfunc_t,
    word: *mut c_void,
) -> pmix_status_t {
    // SAFETY: libpmix passes lists of their lengths.
    let (members, attributes, data) = unsafe {
        (
            reading::processes(members, count),
            Attributes::new(list, length),
            reading::bytes(data, bytes),
        )
    };
    let upcall = collective(Kind::Fence, members, data, attributes);
    called(upcall, Callback::Data(callback), word)
}

unsafe extern "C" fn direct_modex(
    process: *const pmix_proc_t,
    list: *const pmix_info_t,
    length: usize,
    callback: pmix_modex_cbfunc_t,
    word: *mut c_void,
) -> pmix_status_t {
    // SAFETY: libpmix passes a process and a list of its length.
    let (process, attributes) = unsafe { (reading::process(process), Attributes::new(list, length)) };
    let timeout = attributes.timeout();
    called(Upcall::Modex { process, timeout }, Callback::Data(callback), word)
}

unsafe extern "C" fn publish(
    publisher: *const pmix_proc_t,
    list: *const pmix_info_t,
    length: usize,
    callback: pmix_op_cbfunc_t,
    word: *mut c_void,
) -> pmix_status_t {
    // SAFETY: libpmix passes a process and a list of its length.
    let (publisher, attributes) = unsafe { (reading::process(publisher), Attributes::new(list, length)) };
    let Ok(values) = attributes.own_values() else {
        return PMIX_ERR_NOT_SUPPORTED;
    };
    let upcall = Upcall::Publish {
        publisher,
        values,
        is_read_once: attributes.number(PMIX_PERSISTENCE) == Some(u64::from(PMIX_PERSIST_FIRST_READ)),
    };
    called(upcall, Callback::Plain(callback), word)
}

unsafe extern "C" fn lookup(
    _: *const pmix_proc_t,
    keys: *mut *mut c_char,
    list: *const pmix_info_t,
    length: usize,
    callback: pmix_lookup_cbfunc_t,
    word: *mut c_void,
) -> pmix_status_t {
    // SAFETY: libpmix passes texts to a null pointer, and a list of its length.
    let (keys, attributes) = unsafe { (reading::texts(keys), Attributes::new(list, length)) };
    let upcall = Upcall::Lookup {
        keys: in_words(keys),
        waits: attributes.is_set(PMIX_WAIT),
        timeout: attributes.timeout(),
    };
    called(upcall, Callback::Lookup(callback), word)
}

unsafe extern "C" fn unpublish(
    publisher: *const pmix_proc_t,
    keys: *mut *mut c_char,
    _: *const pmix_info_t,
    _: usize,
    callback: pmix_op_cbfunc_t,
    word: *mut c_void,
) -> pmix_status_t {
    // SAFETY: libpmix passes a process, and texts to a null pointer.
    let (publisher, keys) = unsafe { (reading::process(publisher), reading::texts(keys)) };
    let keys = in_words(keys);
    called(Upcall::Unpublish { publisher, keys }, Callback::Plain(callback), word)
}

unsafe extern "C" fn spawn(
    process: *const pmix_proc_t,
    list: *const pmix_info_t,
    length: usize,
    apps: *const pmix_app_t,
    count: usize,
    callback: pmix_spawn_cbfunc_t,
    word: *mut c_void,
) -> pmix_status_t {
    // SAFETY: libpmix passes a process, and lists of their lengths with what they point to.
    let (process, attributes, commands) = unsafe {
        let attributes = Attributes::new(list, length);
        (
            reading::process(process),
            attributes,
            reading::commands(apps, count, attributes),
        )
    };
    let upcall = Upcall::Spawn {
        process,
        commands,
        timeout: attributes.timeout(),
    };
    called(upcall, Callback::Spawn(callback), word)
}

unsafe extern "C" fn connect(
    members: *const pmix_proc_t,
    count: usize,
    list: *const pmix_info_t,
    length: usize,
    callback: pmix_op_cbfunc_t,
    word: *mut c_void,
) -> pmix_status_t {
    // SAFETY: libpmix passes lists of their lengths.
    let (members, attributes) = unsafe { (reading::processes(members, count), Attributes::new(list, length)) };
    let upcall = collective(Kind::Connect, members, Vec::new(), attributes);
    called(upcall, Callback::Plain(callback), word)
}

unsafe extern "C" fn disconnect(
    members: *const pmix_proc_t,
    count: usize,
    list: *const pmix_info_t,
    length: usize,
    callback: pmix_op_cbfunc_t,
    word: *mut c_void,
) -> pmix_status_t {
    // SAFETY: libpmix passes lists of their lengths.
    let (members, attributes) = unsafe { (reading::processes(members, count), Attributes::new(list, length)) };
    let upcall = collective(Kind::Disconnect, members, Vec::new(), attributes);
    called(upcall, Callback::Plain(callback), word)
}

unsafe extern "C" fn group(
    operation: u32,
    name: *mut c_char,
    members: *const pmix_proc_t,
    count: usize,
    list: *const pmix_info_t,
    length: usize,
    callback: pmix_info_cbfunc_t,
    word: *mut c_void,
) -> pmix_status_t {
    // SAFETY: libpmix passes a text, and lists of their lengths.
    let (name, members, attributes) = unsafe {
        (
            reading::bytes_of(name),
            reading::processes(members, count),
            Attributes::new(list, length),
        )
    };
    let name = String::from_utf8_lossy(&name).into_owned();
    let kind = match operation {
        PMIX_GROUP_CONSTRUCT => Kind::Construct(name),
        PMIX_GROUP_DESTRUCT => Kind::Destruct(name),
        _ => return PMIX_ERR_BAD_PARAM,
    };
    if operation == PMIX_GROUP_DESTRUCT && attributes.is_set(PMIX_GROUP_LOCAL_ONLY) {
        // A libpmix that has to wait for the answer (5.0.11) asks once more, for the same call.
        return PMIX_OPERATION_SUCCEEDED;
    }
    let data = attributes.bytes(PMIX_GROUP_ENDPT_DATA);
    let upcall = collective(kind, members, data, attributes);
    called(upcall, Callback::Group(callback), word)
}

/// All that is known is announced to all, so there is nothing to note.
unsafe extern "C" fn register_events(
    _: *mut pmix_status_t,
    _: usize,
    _: *const pmix_info_t,
    _: usize,
    _: pmix_op_cbfunc_t,
    _: *mut c_void,
) -> pmix_status_t {
    PMIX_OPERATION_SUCCEEDED
}

unsafe extern "C" fn deregister_events(
    _: *mut pmix_status_t,
    _: usize,
    _: pmix_op_cbfunc_t,
    _: *mut c_void,
) -> pmix_status_t {
    PMIX_OPERATION_SUCCEEDED
}

fn in_words(texts: Vec<Vec<u8>>) -> Vec<String> {
    let word = |text: Vec<u8>| String::from_utf8_lossy(&text).into_owned();
    texts.into_iter().map(word).collect()
}
