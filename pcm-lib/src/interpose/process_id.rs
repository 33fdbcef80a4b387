//! What libfabric takes for a process's number. Two ranks whose first messages to each other cross connect to each
//! other twice, and libfabric drops one of the two connections; it tells by the peer's process number whether the one
//! it has is that of an earlier process. The number it remembers may belong to another peer, though, whose record it
//! used again: then both connections are dropped, a message is lost with them, and the ranks wait for ever (decision
//! 35). So all processes bear the same number for it. Whoever else asks is told the real one.
#![allow(unsafe_code, reason = "defines a function of libc, asks the loader what is loaded")]
#![allow(unreachable_pub, reason = "a symbol for the linker")]
#![allow(missing_docs, reason = "the name and meaning are those of libc")]

use std::{
    ffi::CStr,
    os::raw::{c_int, c_void},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Nobody's: zero stands for none.
const EVERYBODYS: libc::pid_t = 1;

/// The provider that goes by the number for nothing else.
const PROVIDER: &str = "tcp";

/// Where libfabric's program code lies; nothing at all until it was looked for, or where it is not of use.
static BEGIN: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);

/// From now on libfabric, if it is there, is told the number that all processes bear.
pub(super) fn find_libfabric() {
    if std::env::var_os("FI_PROVIDER").is_some_and(|provider| provider == PROVIDER) {
        // SAFETY: the function is called before the call returns, with what it expects.
        unsafe { libc::dl_iterate_phdr(Some(keep_if_libfabric), std::ptr::null_mut()) };
    }
}

unsafe extern "C" fn keep_if_libfabric(object: *mut libc::dl_phdr_info, _size: usize, _data: *mut c_void) -> c_int {
    // SAFETY: the loader describes an object that is loaded: its name ends with a zero byte, it has so many headers.
    let (object, name, headers) = unsafe {
        let object = &*object;
        if object.dlpi_name.is_null() || object.dlpi_phdr.is_null() {
            return 0;
        }
        let headers = std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
        (object, CStr::from_ptr(object.dlpi_name), headers)
    };
    let code = headers
        .iter()
        .find(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0);
    let (true, Some(code)) = (is_libfabric(name), code) else {
        return 0;
    };
    let is_provider = is_own_library_of_provider(name);
    if END.load(Relaxed) != 0 && !is_provider {
        return 0;
    }
    let begin = (object.dlpi_addr + code.p_vaddr) as usize;
    BEGIN.store(begin, Relaxed);
    END.store(begin + code.p_memsz as usize, Relaxed);
    c_int::from(is_provider)
}

fn is_libfabric(path: &CStr) -> bool {
    let file = file_name(path);
    file.starts_with(b"libfabric.so") || file.starts_with(b"libfabric-") || is_own_library_of_provider(path)
}

/// Intel has each provider in a library of its own, which is then who asks.
fn is_own_library_of_provider(path: &CStr) -> bool {
    file_name(path) == b"libtcp-fi.so"
}

fn file_name(path: &CStr) -> &[u8] {
    let path = path.to_bytes();
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

extern "C" fn number_for(caller: usize) -> libc::pid_t {
    if (BEGIN.load(Relaxed)..END.load(Relaxed)).contains(&caller) {
        return EVERYBODYS;
    }
    // SAFETY: a system call without arguments.
    unsafe { libc::syscall(libc::SYS_getpid) as libc::pid_t }
}

#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(miri), unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn getpid() -> libc::pid_t {
    // Where the caller goes on is on top of the stack.
    std::arch::naked_asm!("mov rdi, [rsp]", "jmp {}", sym number_for)
}

#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(miri), unsafe(no_mangle))]
#[unsafe(naked)]
pub extern "C" fn getpid() -> libc::pid_t {
    // Where the caller goes on is in the link register.
    std::arch::naked_asm!("mov x0, x30", "b {}", sym number_for)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_libfabric_is_told_another_number_than_the_real_one() {
        let own = std::fs::read_link("/proc/self").expect("the process's number");
        let own: libc::pid_t = own.to_string_lossy().parse().expect("a number");
        let here = only_libfabric_is_told_another_number_than_the_real_one as fn() as usize;
        assert_eq!(getpid(), own);
        BEGIN.store(here, Relaxed);
        END.store(here + 1, Relaxed);
        let told = (number_for(here), number_for(here + 1), number_for(here - 1));
        BEGIN.store(0, Relaxed);
        END.store(usize::MAX, Relaxed);
        let to_the_caller = getpid();
        END.store(0, Relaxed);
        assert_eq!(told, (EVERYBODYS, own, own));
        assert_eq!(to_the_caller, EVERYBODYS, "the caller's address is seen");
    }

    #[test]
    fn libfabric_is_known_by_its_name() {
        for (path, is) in [
            (c"/a/libfabric.so.1", true),
            (c"libfabric-5f3a.so.1.30", true),
            (c"/a/libtcp-fi.so", true),
            (c"/a/libshm-fi.so", false),
            (c"/libfabric.so/libmpi.so.12", false),
            (c"", false),
        ] {
            assert_eq!(is_libfabric(path), is, "{path:?}");
        }
    }
}
