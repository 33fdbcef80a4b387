//! What a program can query about libpcm itself.
#![allow(unsafe_code, reason = "C API")]
#![allow(unreachable_pub, reason = "what pcm.h is made of is public")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the words are those of pcm.h: pointers are NULL or good"
)]

use super::{
    failure,
    result::{PCM_ERROR_NULL, PCM_OK, boundary, pcm_result},
};
use crate::{status, status::Status};
use std::{
    cell::RefCell,
    ffi::CString,
    os::raw::{c_char, c_int},
    panic::catch_unwind,
};

thread_local! {
    static TEXT: RefCell<CString> = RefCell::default();
}

/// The version of libpcm, such as "0.1.0". The string is statically allocated; do not free it.
#[unsafe(no_mangle)]
pub extern "C" fn pcm_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Writes 1 to *active if a daemon started this program and libpcm works with that daemon, else 0: then the program is
/// plain MPI. Call it after MPI_Init.
///
/// Returns PCM_OK in both cases. If a daemon started the program and libpcm cannot work with it, returns the reason as
/// a code (and pcm_last_error as a text); *active is written in this case too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_active(active: *mut c_int) -> pcm_result {
    boundary(|| {
        // SAFETY: by the contract.
        let Some(active) = (unsafe { active.as_mut() }) else {
            return PCM_ERROR_NULL;
        };
        let status = status::now();
        *active = c_int::from(status == Status::Active);
        match status {
            Status::Failed(error) => pcm_result::from(&error),
            Status::Active | Status::Plain => PCM_OK,
        }
    })
}

/// Describes the last failed call of this thread: what failed, with which region, what to do. If no call failed, says
/// why libpcm does not work with the daemon; "" otherwise. The string is valid until this thread calls the function
/// again; do not free it.
#[unsafe(no_mangle)]
pub extern "C" fn pcm_last_error() -> *const c_char {
    let text = catch_unwind(|| match status::now() {
        _ if !failure::last().is_empty() => CString::new(failure::last()).unwrap_or_default(),
        Status::Failed(error) => CString::new(error.to_string()).unwrap_or_default(),
        Status::Active | Status::Plain => CString::default(),
    });
    TEXT.with(|kept| match kept.try_borrow_mut() {
        Ok(mut kept) => {
            *kept = text.unwrap_or_default();
            kept.as_ptr()
        }
        Err(_) => c"".as_ptr(),
    })
}
