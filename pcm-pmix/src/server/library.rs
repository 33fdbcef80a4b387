//! A libpmix that serves: what this process does with it, in plain terms. Must never wait without a deadline.
#![allow(unsafe_code, reason = "functions of libpmix are called")]

use super::{
    infos::{Infos, process, text_of},
    link::Input,
    reading, registration, upcalls,
};
use crate::{
    bindings::{
        attributes::{PMIX_EVENT_AFFECTED_PROC, PMIX_HOSTNAME, PMIX_SERVER_TMPDIR, PMIX_SYSTEM_TMPDIR},
        functions::Functions,
        numbers::{PMIX_ERR_PROC_ABORTED, PMIX_OPERATION_SUCCEEDED, PMIX_RANGE_SESSION, PMIX_SUCCESS, pmix_status_t},
        types::pmix_op_cbfunc_t,
    },
    names::{Process, Status, Value},
};
use pcm_proto::ids::NodeName;
use pcm_proto::pmix::{Environment, Namespace, Serve};
use std::{
    ffi::{OsStr, c_char, c_void},
    mem,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    ptr,
    sync::mpsc::{self, SyncSender},
    time::Duration,
};

/// How long libpmix may take to note something: it does so within a millisecond, on a thread that others may keep from
/// a CPU.
const NOTED_MAX: Duration = Duration::from_secs(10);

/// Longest path of a socket, as the kernel has it, with the name that libpmix gives it.
const FOLDER_BYTES_MAX: usize = 80;

pub(super) struct Library {
    functions: Functions,
    node: NodeName,
    folder: PathBuf,
    pub(super) version: String,
}

impl Library {
    /// Loads a libpmix and starts its server. Its calls go to `to_process`.
    pub(super) fn start(serve: &Serve, to_process: SyncSender<Input>) -> Result<Self, String> {
        let folder = PathBuf::from(OsStr::from_bytes(&serve.folder));
        if serve.folder.len() > FOLDER_BYTES_MAX {
            return Err(format!(
                "{} has {} bytes, and libpmix makes sockets in it: name a folder of at most {FOLDER_BYTES_MAX}",
                folder.display(),
                serve.folder.len()
            ));
        }
        std::fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        let path = Path::new(OsStr::from_bytes(&serve.library));
        let (functions, version) = Functions::load(path).map_err(|error| error.to_string())?;
        let mut infos = Infos::default();
        infos.text(PMIX_HOSTNAME, &serve.host);
        infos.put(PMIX_SERVER_TMPDIR, &Value::Text(serve.folder.clone()));
        infos.put(PMIX_SYSTEM_TMPDIR, &Value::Text(serve.folder.clone()));
        let mut module = upcalls::module(to_process);
        // SAFETY: libpmix copies the functions and the attributes before it returns.
        let status = unsafe { (functions.PMIx_server_init)(&raw mut module, infos.as_mut_ptr(), infos.len()) };
        if status != PMIX_SUCCESS {
            return Err(format!(
                "libpmix ({version}) cannot serve: {}; see its own lines above",
                functions.said(status)
            ));
        }
        Ok(Self {
            functions,
            node: serve.node.clone(),
            folder,
            version,
        })
    }

    /// Makes a namespace known; what its processes on this node need in their environment.
    pub(super) fn register(&self, namespace: &Namespace) -> Result<Vec<Environment>, String> {
        let ranks = namespace.ranks_on(&self.node);
        let folders = registration::folders(&self.folder, &namespace.name, ranks)?;
        let infos = registration::infos(namespace, &self.node, &folders);
        let name = text_of(namespace.name.as_bytes());
        let count = i32::try_from(ranks.len()).map_err(|error| error.to_string())?;
        self.noted("the namespace", infos, |infos, callback, word| {
            // SAFETY: a text, and attributes that live until libpmix has called back.
            unsafe {
                (self.functions.PMIx_server_register_nspace)(
                    name.as_ptr(),
                    count,
                    infos.as_mut_ptr(),
                    infos.len(),
                    callback,
                    word,
                )
            }
        })?;
        let environment = |rank: &u32| self.client(&Process::new(&namespace.name, *rank));
        ranks.iter().map(environment).collect()
    }

    fn client(&self, named: &Process) -> Result<Environment, String> {
        let user = rustix::process::getuid().as_raw();
        let group = rustix::process::getgid().as_raw();
        let word_of_ours = ptr::null_mut();
        self.noted("a process", Box::new(process(named)), |named, callback, word| {
            // SAFETY: a process that lives until libpmix has called back.
            unsafe {
                (self.functions.PMIx_server_register_client)(
                    &raw const **named,
                    user,
                    group,
                    word_of_ours,
                    callback,
                    word,
                )
            }
        })?;
        let mut variables: *mut *mut c_char = ptr::null_mut();
        let c_process = process(named);
        // SAFETY: libpmix makes a list of texts, which is read and given back to it.
        let (status, texts) = unsafe {
            let status = (self.functions.PMIx_server_setup_fork)(&raw const c_process, &raw mut variables);
            let texts = reading::texts(variables);
            (self.functions.PMIx_Argv_free)(variables);
            (status, texts)
        };
        if status != PMIX_SUCCESS {
            return Err(format!("no environment for {named}: {}", self.functions.said(status)));
        }
        let pair = |text: Vec<u8>| {
            let at = text.iter().position(|byte| *byte == b'=')?;
            Some((text[..at].to_vec(), text[at + 1..].to_vec()))
        };
        Ok(Environment {
            rank: named.rank,
            variables: texts.into_iter().filter_map(pair).collect(),
        })
    }

    /// Drops a namespace, whose processes are over, and their files.
    pub(super) fn forget(&self, namespace: &str) -> Result<(), String> {
        let name = text_of(namespace.as_bytes());
        self.noted("the end of a namespace", (), |(), callback, word| {
            // SAFETY: a text, which libpmix copies.
            unsafe { (self.functions.PMIx_server_deregister_nspace)(name.as_ptr(), callback, word) };
            PMIX_SUCCESS
        })?;
        registration::remove_folders(&self.folder, namespace)
    }

    /// Says to all processes here that one is lost.
    pub(super) fn announce(&self, lost: &Process) {
        let mut infos = Box::new(Infos::default());
        infos.put(PMIX_EVENT_AFFECTED_PROC, &Value::Process(lost.clone()));
        let source = process(lost);
        let (list, count) = (infos.as_mut_ptr(), infos.len());
        let held = Box::into_raw(infos);
        // SAFETY: libpmix copies the source; the attributes live until it calls back, which gives them back.
        let status = unsafe {
            (self.functions.PMIx_Notify_event)(
                PMIX_ERR_PROC_ABORTED,
                &raw const source,
                PMIX_RANGE_SESSION,
                list,
                count,
                Some(announced),
                held.cast(),
            )
        };
        if status != PMIX_SUCCESS {
            // SAFETY: libpmix does not call back after anything but success.
            drop(unsafe { Box::from_raw(held) });
        }
    }

    /// Asks what a process of this node has published; the answer is `Input::Fetched`.
    pub(super) fn fetch(&self, number: u64, named: &Process) -> Result<(), Status> {
        let named = process(named);
        let held = Box::into_raw(Box::new(number));
        // SAFETY: libpmix copies the process; the number lives until it calls back.
        let status =
            unsafe { (self.functions.PMIx_server_dmodex_request)(&raw const named, Some(fetched), held.cast()) };
        if status == PMIX_SUCCESS {
            return Ok(());
        }
        // SAFETY: libpmix does not call back after anything but success.
        drop(unsafe { Box::from_raw(held) });
        Err(Status(status))
    }

    /// Ends the server and removes its files.
    pub(super) fn stop(self) {
        // SAFETY: it was started, and is not used after this.
        let status = unsafe { (self.functions.PMIx_server_finalize)() };
        if status != PMIX_SUCCESS {
            eprintln!("pcm-pmix: libpmix did not end well: {}", self.functions.said(status));
        }
    }

    /// Starts something that libpmix notes on its own thread, and waits until it has. `memory` is what it reads.
    fn noted<M>(
        &self,
        what: &str,
        mut memory: M,
        start: impl FnOnce(&mut M, pmix_op_cbfunc_t, *mut c_void) -> pmix_status_t,
    ) -> Result<(), String> {
        let (sender, receiver) = mpsc::sync_channel::<pmix_status_t>(1);
        let held = Box::into_raw(Box::new(sender));
        let status = match start(&mut memory, Some(noted), held.cast()) {
            PMIX_SUCCESS => receiver.recv_timeout(NOTED_MAX).map_err(|_| {
                // It may still read this.
                mem::forget(memory);
                format!("libpmix has not taken {what} within {} s", NOTED_MAX.as_secs())
            })?,
            other => {
                // SAFETY: libpmix does not call back after anything but success.
                drop(unsafe { Box::from_raw(held) });
                other
            }
        };
        match status {
            PMIX_SUCCESS | PMIX_OPERATION_SUCCEEDED => Ok(()),
            status => Err(format!("libpmix refuses {what}: {}", self.functions.said(status))),
        }
    }
}

/// # Safety
/// The sender of `noted`, once.
unsafe extern "C" fn noted(status: pmix_status_t, held: *mut c_void) {
    // SAFETY: as the caller says.
    let sender = unsafe { Box::from_raw(held.cast::<SyncSender<pmix_status_t>>()) };
    // A waiter that gave up hears nothing.
    _ = sender.try_send(status);
}

/// # Safety
/// The attributes of `announce`, once.
unsafe extern "C" fn announced(_: pmix_status_t, held: *mut c_void) {
    // SAFETY: as the caller says.
    drop(unsafe { Box::from_raw(held.cast::<Infos>()) });
}

/// # Safety
/// The number of `fetch`, once, and that many bytes.
unsafe extern "C" fn fetched(status: pmix_status_t, data: *mut c_char, count: usize, held: *mut c_void) {
    // SAFETY: as the caller says.
    let (number, data) = unsafe { (*Box::from_raw(held.cast::<u64>()), reading::bytes(data, count)) };
    let outcome = if status == PMIX_SUCCESS {
        Ok(data)
    } else {
        Err(Status(status))
    };
    // The asking node's deadline ends what the process does not take.
    _ = upcalls::send(Input::Fetched { number, outcome });
}
