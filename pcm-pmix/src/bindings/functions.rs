//! The functions of a libpmix, found in the library that a path names. Must never load a second one.
#![allow(unsafe_code, reason = "a library is loaded at run time")]

use super::{
    numbers::pmix_status_t,
    types::{pmix_dmodex_response_fn_t, pmix_info_t, pmix_op_cbfunc_t, pmix_proc_t, pmix_server_module_t},
};
use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The release line whose layouts and rules this crate knows.
const MAJOR: &str = "5.";

/// Why a library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error(
        "{} cannot be loaded as the job's libpmix: {reason}; name the libpmix.so.2 of the job's Open MPI",
        path.display()
    )]
    NotLoaded { path: PathBuf, reason: String },
    #[error("{} is no libpmix of a server: it has no {function}", path.display())]
    Lacking { path: PathBuf, function: String },
    #[error(
        "{} is {version}; ranks are served through OpenPMIx 5, which Open MPI 5 brings along: name its libpmix.so.2",
        path.display()
    )]
    OtherVersion { path: PathBuf, version: String },
}

macro_rules! of_pmix {
    ($(pub fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $returned:ty)?;)*) => {
        /// A libpmix that is loaded, which it stays while the process lives.
        #[derive(Clone, Copy)]
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($argument: $kind),*) $(-> $returned)?,)*
        }

        impl Functions {
            fn found(library: *mut c_void, path: &Path) -> Result<Self, LoadError> {
                Ok(Self {
                    $($name: {
                        let address = found(library, path, concat!(stringify!($name), "\0"))?;
                        // SAFETY: the library says by this name that it has this function; a test holds the type
                        // against the header.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument: $kind),*) $(-> $returned)?,
                            >(address)
                        }
                    },)*
                })
            }
        }
    };
}

of_pmix! {
    pub fn PMIx_Get_version() -> *const c_char;
    pub fn PMIx_Error_string(status: pmix_status_t) -> *const c_char;
    pub fn PMIx_Argv_free(argv: *mut *mut c_char);
    pub fn PMIx_Notify_event(
        status: pmix_status_t,
        source: *const pmix_proc_t,
        range: u8,
        info: *const pmix_info_t,
        ninfo: usize,
        cbfunc: pmix_op_cbfunc_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t;
    pub fn PMIx_server_init(
        module: *mut pmix_server_module_t,
        info: *mut pmix_info_t,
        ninfo: usize,
    ) -> pmix_status_t;
    pub fn PMIx_server_finalize() -> pmix_status_t;
    pub fn PMIx_server_register_nspace(
        nspace: *const c_char,
        nlocalprocs: c_int,
        info: *mut pmix_info_t,
        ninfo: usize,
        cbfunc: pmix_op_cbfunc_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t;
    pub fn PMIx_server_deregister_nspace(
        nspace: *const c_char,
        cbfunc: pmix_op_cbfunc_t,
        cbdata: *mut c_void,
    );
    pub fn PMIx_server_register_client(
        proc: *const pmix_proc_t,
        uid: u32,
        gid: u32,
        server_object: *mut c_void,
        cbfunc: pmix_op_cbfunc_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t;
    pub fn PMIx_server_setup_fork(proc: *const pmix_proc_t, env: *mut *mut *mut c_char) -> pmix_status_t;
    pub fn PMIx_server_dmodex_request(
        proc: *const pmix_proc_t,
        cbfunc: pmix_dmodex_response_fn_t,
        cbdata: *mut c_void,
    ) -> pmix_status_t;
}

impl Functions {
    /// Loads a libpmix, if it is one that this crate knows; what it says of its version.
    pub fn load(path: &Path) -> Result<(Self, String), LoadError> {
        let not_loaded = |reason: String| LoadError::NotLoaded {
            path: path.to_owned(),
            reason,
        };
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| not_loaded(error.to_string()))?;
        // Its own plugins, if it has any, find it by name.
        // SAFETY: the name ends with a zero byte; the library's own initialisers run.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if library.is_null() {
            // SAFETY: the loader has a text after a failure, valid until the next call of it on this thread.
            let reason = unsafe { text(libc::dlerror()) };
            return Err(not_loaded(reason));
        }
        let functions = Self::found(library, path)?;
        // SAFETY: it may be called at any time and returns a text that stays.
        let version = unsafe { text((functions.PMIx_Get_version)()) };
        if !is_known(&version) {
            let path = path.to_owned();
            return Err(LoadError::OtherVersion { path, version });
        }
        Ok((functions, version))
    }

    /// A status in PMIx's own words.
    pub fn said(&self, status: pmix_status_t) -> String {
        // SAFETY: it takes any number and returns a text that stays.
        let words = unsafe { text((self.PMIx_Error_string)(status)) };
        format!("{words} ({status})")
    }
}

/// From texts as `OpenPMIx 5.0.11 (PMIx Standard: 5.1, ...)`.
fn is_known(version: &str) -> bool {
    let number = version.strip_prefix("OpenPMIx ").unwrap_or_default();
    number.starts_with(MAJOR)
}

fn found(library: *mut c_void, path: &Path, name: &str) -> Result<*mut c_void, LoadError> {
    // SAFETY: a handle of the loader and a name that ends with a zero byte.
    let address = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
    if address.is_null() {
        return Err(LoadError::Lacking {
            path: path.to_owned(),
            function: name.trim_end_matches('\0').to_owned(),
        });
    }
    Ok(address)
}

/// # Safety
/// A null pointer, or a text that ends with a zero byte.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: it is a text, as the caller says.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_other_than_5_are_refused() {
        assert!(is_known("OpenPMIx 5.0.11rc1 (PMIx Standard: 5.1, Stable ABI: 5.0)"));
        assert!(!is_known("OpenPMIx 4.2.2 (PMIx Standard: 4.1)"));
        assert!(!is_known("OpenPMIx 6.0.0"));
        assert!(!is_known("50.0"));
    }

    #[test]
    fn what_is_no_libpmix_is_refused_with_its_name() {
        let error = |path: &str| Functions::load(Path::new(path)).err().unwrap().to_string();
        let text = error("/nowhere/libpmix.so.2");
        assert!(text.starts_with("/nowhere/libpmix.so.2 cannot be loaded"), "{text}");
        let text = error("libc.so.6");
        assert_eq!(text, "libc.so.6 is no libpmix of a server: it has no PMIx_Get_version");
    }
}
