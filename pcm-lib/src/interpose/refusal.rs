//! Errors of the library's own as errors of MPI: with a text, through the error handler that the application chose.
#![allow(unsafe_code, reason = "calls MPI")]

use mpi_abi::{MPI_Comm, MPI_Session};
use std::{
    ffi::CString,
    os::raw::c_int,
    sync::{Mutex, Once, PoisonError},
};

/// The one code of such errors, once there is one; MPI never gives codes back.
static CODE: Mutex<Option<c_int>> = Mutex::new(None);

/// Raises an error on a communicator; returns its code if the handler returns.
pub(crate) fn raise(communicator: MPI_Comm, text: &str) -> c_int {
    let Some(code) = code_with(text) else {
        return mpi_abi::MPI_ERR_COMM;
    };
    // SAFETY: the communicator exists; the code is one of MPI's.
    unsafe { mpi_abi::PMPI_Comm_call_errhandler(communicator, code) };
    code
}

/// The same in a session.
pub(crate) fn raise_in(session: MPI_Session, text: &str) -> c_int {
    let Some(code) = code_with(text) else {
        return mpi_abi::MPI_ERR_OTHER;
    };
    // SAFETY: the session exists; the code is one of MPI's.
    unsafe { mpi_abi::PMPI_Session_call_errhandler(session, code) };
    code
}

/// Says why this process cannot call MPI: once, whatever it tries. There is no error handler to hear of it.
pub(super) fn say_unusable(reason: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| eprintln!("pcm: {reason}"));
}

/// A function that the MPI in use lacks was called.
#[cold]
pub(super) fn missing(name: &str, communicator: Option<MPI_Comm>) -> c_int {
    let text = match (mpi_abi::usable(), mpi_abi::library()) {
        (Err(reason), _) => {
            say_unusable(&reason);
            return mpi_abi::MPI_ERR_UNSUPPORTED_OPERATION;
        }
        (Ok(()), library) => {
            let library = library.unwrap_or_default();
            format!("the MPI of this program ({library}) has no {name}")
        }
    };
    let mut is_initialized = 0;
    // SAFETY: may be called at any time; the output is a local.
    unsafe { mpi_abi::PMPI_Initialized(&mut is_initialized) };
    if is_initialized != 0 {
        return raise(communicator.unwrap_or(mpi_abi::MPI_COMM_SELF()), &text);
    }
    eprintln!("pcm: {text}");
    mpi_abi::MPI_ERR_UNSUPPORTED_OPERATION
}

fn code_with(text: &str) -> Option<c_int> {
    let mut known = CODE.lock().unwrap_or_else(PoisonError::into_inner);
    let code = match *known {
        Some(code) => code,
        None => {
            let (mut class, mut code): (c_int, c_int) = (0, 0);
            // SAFETY: MPI is initialised, as a wrapper of one of its calls comes here; outputs are locals.
            let added = unsafe {
                mpi_abi::PMPI_Add_error_class(&mut class) == 0 && mpi_abi::PMPI_Add_error_code(class, &mut code) == 0
            };
            if !added {
                return None;
            }
            *known.insert(code)
        }
    };
    let longest = mpi_abi::MPI_MAX_ERROR_STRING - 1;
    let text = CString::new(text.chars().filter(|c| *c != '\0').take(longest).collect::<String>()).ok()?;
    // SAFETY: the code was added by this process; the text ends with a zero byte.
    unsafe { mpi_abi::PMPI_Add_error_string(code, text.as_ptr()) };
    Some(code)
}
