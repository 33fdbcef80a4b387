//! Hands a program over to the libpcm for the MPI that it has. A program that was linked with another one begins again,
//! with the right one in front; before `main` nothing of it has happened. A library that a running program loads, or
//! that was preloaded, leaves it alone.
#![allow(unsafe_code, reason = "is called by the loader, begins the program again")]

use std::{
    env,
    ffi::{CString, OsStr, OsString, c_void},
    fs,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

/// Holds what the variable of preloaded libraries was before; empty where that was not set.
const BEFORE: &str = "PCM_PRELOAD_BEFORE";
const PRELOAD: &str = "LD_PRELOAD";

#[used]
#[cfg_attr(not(miri), unsafe(link_section = ".init_array"))]
static WHEN_LOADED: extern "C" fn() = when_loaded;

extern "C" fn when_loaded() {
    let here: *const c_void = (when_loaded as extern "C" fn() as *const ()).cast();
    let Some(own) = mpi_abi::linked_library(here) else {
        return;
    };
    if let Some(before) = env::var_os(BEFORE) {
        return restore(&before);
    }
    // What is in front of this one was put there for this program.
    if mpi_abi::libpcm_in_front().as_ref() != Some(&own) {
        return;
    }
    if let Some(right) = mpi_abi::other_family().and_then(|family| beside(&own, family.libpcm()?)) {
        begin_again(&right);
    }
}

/// What the program starts finds what its user set.
fn restore(before: &OsStr) {
    // SAFETY: before `main` there is one thread.
    unsafe {
        env::remove_var(BEFORE);
        match before.is_empty() {
            true => env::remove_var(PRELOAD),
            false => env::set_var(PRELOAD, before),
        }
    }
}

/// The library of this name in the folder of this one, under the name that its ABI has, or the one it is built with.
fn beside(own: &CString, name: &str) -> Option<PathBuf> {
    let own = Path::new(OsStr::from_bytes(own.as_bytes()));
    let real = own.canonicalize().ok();
    let folders = [Some(own), real.as_deref()]
        .into_iter()
        .flatten()
        .filter_map(Path::parent);
    let mut files = folders.flat_map(|folder| [folder.join(format!("{name}.0")), folder.join(name)]);
    files.find(|file| file.is_file())
}

/// Comes back where the program cannot begin again; `MPI_Init` says what is wrong then.
fn begin_again(right: &Path) {
    let right = right.as_os_str().as_bytes();
    let is_apart = |byte: &u8| *byte == b':' || byte.is_ascii_whitespace();
    // SAFETY: asks for a number.
    let has_rights_of_its_file = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    if has_rights_of_its_file || right.iter().any(is_apart) {
        return;
    }
    let (Ok(program), Ok(words)) = (fs::read_link("/proc/self/exe"), fs::read("/proc/self/cmdline")) else {
        return;
    };
    let words: Vec<CString> = words
        .split_inclusive(|byte| *byte == 0)
        .filter_map(|word| CString::from_vec_with_nul(word.to_vec()).ok())
        .collect();
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let Ok(program) = CString::new(program.into_os_string().into_vec()) else {
        return;
    };
    let before = env::var_os(PRELOAD).unwrap_or_default();
    let mut preload = OsString::from_vec(right.to_vec());
    if !before.is_empty() {
        preload.push(":");
        preload.push(&before);
    }
    // SAFETY: before `main` there is one thread; the words end with a null pointer, each with a zero byte.
    unsafe {
        env::set_var(PRELOAD, preload);
        env::set_var(BEFORE, &before);
        libc::execv(program.as_ptr(), pointers.as_ptr());
    }
    restore(&before);
}
