//! Which MPI is in this process, and where its functions are. The program decides: what it was linked with, what its
//! libraries brought along, or what was preloaded. Where there is none at all, one is loaded by the name that MPICH and
//! its relatives have; must never load a second one beside another.

use crate::{
    constants::{FAMILY, LIBRARY as OURS},
    family::{Family, OTHERS},
};
use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    mem::MaybeUninit,
    ptr::{self, NonNull},
    sync::{
        OnceLock,
        atomic::{
            AtomicPtr,
            Ordering::{Acquire, Release},
        },
    },
};

/// Every MPI defines it.
const OF_EVERY_MPI: &CStr = c"PMPI_Init";
/// So does every libpcm, which also has this and is no MPI.
const OF_LIBPCM: &CStr = c"pcm_version";
/// Open MPI's constants are addresses of its data.
const OF_OPEN_MPI: &CStr = c"ompi_mpi_comm_world";
/// File name of an MPI for programs of the standard ABI, and of one of a time when that had other numbers.
const OF_STANDARD_ABI: &[u8] = b"libmpi_abi.so";
const OF_A_DRAFT: &[u8] = b"libmpi_abi.so.0";
/// Null until `source` was asked for the first time and has found an MPI.
static SOURCE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static LIBRARY: OnceLock<String> = OnceLock::new();

/// A function of the MPI that is loaded. Its address costs one load once it was found.
#[derive(Debug)]
pub struct Function {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Function {
    /// The function of a name that ends with a zero byte.
    pub const fn new(name: &'static str) -> Self {
        let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else {
            panic!("a name ends with a zero byte");
        };
        Self {
            name,
            address: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Where it is; nowhere if this MPI lacks it, or if there is none.
    #[inline]
    pub fn address(&self) -> Option<NonNull<c_void>> {
        NonNull::new(self.address.load(Acquire)).or_else(|| self.find())
    }

    #[cold]
    fn find(&self) -> Option<NonNull<c_void>> {
        let source = source().ok()?;
        // SAFETY: the source is a handle of the loader, the name ends with a zero byte.
        let address = unsafe { libc::dlsym(source, self.name.as_ptr()) };
        self.address.store(address, Release);
        NonNull::new(address)
    }
}

/// Why MPI cannot be called in this process, if it cannot.
pub fn usable() -> Result<(), String> {
    source().map(|_| ())
}

/// The file of the MPI in this process.
pub fn library() -> Option<&'static str> {
    source().ok()?;
    LIBRARY.get().map(String::as_str)
}

/// What to do about an ABI that this library does not have, after a comma.
fn advice(other: Family) -> String {
    let word = match other {
        Family::Mpich => "mpich",
        Family::Standard => "standard",
        Family::OpenMpi => "openmpi",
        Family::Draft => return format!("{OTHERS}, or run it with --no-preload"),
    };
    format!(
        "and this libpcm for {}: link the program with {} in place of {}, or set PCM_MPI_ABI={word} for 'pcmctl run'",
        FAMILY.name(),
        other.libpcm().unwrap_or_default(),
        FAMILY.libpcm().unwrap_or_default(),
    )
}

/// The family of the only MPI that is loaded, where this library is not for it. Loads none.
pub fn other_family() -> Option<Family> {
    match &loaded()[..] {
        [mpi] => Some(mpi.family()).filter(|family| *family != FAMILY),
        _ => None,
    }
}

/// Path of the library in which something lies, where the program itself was linked with that: such a library is there
/// before the program begins.
pub fn linked_library(address: *const c_void) -> Option<CString> {
    let mut needed: Vec<CString> = Vec::new();
    // SAFETY: the function is called before the call returns, with the list.
    unsafe { libc::dl_iterate_phdr(Some(needed_add), (&raw mut needed).cast()) };
    let path = object_with(address.cast_mut())?;
    let is_needed = needed.iter().any(|name| name.as_bytes() == file_name(&path));
    is_needed.then_some(path)
}

/// The libpcm whose functions programs call, by its path: the first in the order of the loader.
pub fn libpcm_in_front() -> Option<CString> {
    // SAFETY: a name that ends with a zero byte.
    object_with(unsafe { libc::dlsym(libc::RTLD_DEFAULT, OF_LIBPCM.as_ptr()) })
}

/// One line of what the loader reads in a program.
#[repr(C)]
struct Dynamic {
    tag: isize,
    value: usize,
}
const NO_MORE: isize = 0;
const NEEDED: isize = 1;
const NAMES: isize = 5;

/// Of the first object, which is the program: what it was linked with.
unsafe extern "C" fn needed_add(object: *mut libc::dl_phdr_info, _size: usize, needed: *mut c_void) -> c_int {
    // SAFETY: the loader describes an object that is loaded, with lines up to the last and names that end with a zero
    // byte; the list is that of `linked_library`.
    unsafe {
        let base = (*object).dlpi_addr as usize;
        let parts = std::slice::from_raw_parts((*object).dlpi_phdr, usize::from((*object).dlpi_phnum));
        let Some(part) = parts.iter().find(|part| part.p_type == libc::PT_DYNAMIC) else {
            return 1;
        };
        let first = ptr::with_exposed_provenance::<Dynamic>(base + part.p_vaddr as usize);
        let lines = (0..).map(|index| &*first.add(index));
        let lines: Vec<&Dynamic> = lines.take_while(|line| line.tag != NO_MORE).collect();
        let Some(names) = lines.iter().find(|line| line.tag == NAMES).map(|line| line.value) else {
            return 1;
        };
        // Some loaders write the address into the program, others leave what is in its file.
        let names = if names < base { base + names } else { names };
        for line in lines.iter().filter(|line| line.tag == NEEDED) {
            let name = CStr::from_ptr(ptr::with_exposed_provenance(names + line.value));
            (*needed.cast::<Vec<CString>>()).push(name.to_owned());
        }
    }
    1
}

/// A library that is loaded, and what `dlsym` calls it.
struct Object {
    name: CString,
    handle: *mut c_void,
}

/// Where `dlsym` finds the functions, once a first call has found out which MPI this process has.
pub(crate) fn source() -> Result<*mut c_void, String> {
    let known = SOURCE.load(Acquire);
    if !known.is_null() {
        return Ok(known);
    }
    let mut all = loaded();
    let (mpi, source) = match next() {
        Some(mpi) => (mpi, libc::RTLD_NEXT),
        None => {
            let mpi = if all.is_empty() { ours()? } else { all.remove(0) };
            let handle = mpi.handle;
            (mpi, handle)
        }
    };
    let path = mpi.name.to_string_lossy().into_owned();
    if let Some(second) = all.iter().find(|object| object.name != mpi.name) {
        return Err(format!(
            "this program has two MPIs: {path} and {}; run it with the one that all its parts were linked with \
             ('pcmctl run --mpi-lib')",
            second.name.to_string_lossy()
        ));
    }
    let family = mpi.family();
    if family != FAMILY {
        return Err(format!(
            "this program was compiled for {} ({path}), {}",
            family.name(),
            advice(family)
        ));
    }
    _ = LIBRARY.set(path);
    SOURCE.store(source, Release);
    Ok(source)
}

/// The MPI that is searched after this library: the usual case. What stands between the two in front of single
/// functions keeps its place.
fn next() -> Option<Object> {
    // SAFETY: a name that ends with a zero byte.
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, OF_EVERY_MPI.as_ptr()) };
    Object::loaded(object_with(address)?).filter(Object::is_mpi)
}

/// Every MPI that is loaded, also by a library that kept it for itself; the first to be searched comes first.
fn loaded() -> Vec<Object> {
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: the function is called before the call returns, with the list.
    unsafe { libc::dl_iterate_phdr(Some(name_add), (&raw mut names).cast()) };
    let objects = names.into_iter().filter_map(Object::loaded);
    objects.filter(Object::is_mpi).collect()
}

unsafe extern "C" fn name_add(object: *mut libc::dl_phdr_info, _size: usize, names: *mut c_void) -> c_int {
    // SAFETY: the loader describes an object that is loaded; the list is that of `loaded`.
    unsafe {
        let name = (*object).dlpi_name;
        // The program itself has no name, and is no library.
        if !name.is_null() && *name != 0 {
            (*names.cast::<Vec<CString>>()).push(CStr::from_ptr(name).to_owned());
        }
    }
    0
}

fn ours() -> Result<Object, String> {
    // SAFETY: a name that ends with a zero byte. The library runs what it runs in every MPI program.
    let handle = unsafe { libc::dlopen(OURS.as_ptr(), libc::RTLD_LAZY | libc::RTLD_GLOBAL) };
    // SAFETY: the handle is that of a library, or the text of the error is read before another.
    unsafe {
        if handle.is_null() {
            let reason = CStr::from_ptr(libc::dlerror().cast_const()).to_string_lossy();
            return Err(format!(
                "this program has loaded no MPI, and none is found ({reason}): link it with MPI, or name the library \
                 with 'pcmctl run --mpi-lib'"
            ));
        }
        let address = libc::dlsym(handle, OF_EVERY_MPI.as_ptr());
        Ok(Object {
            name: object_with(address).unwrap_or_else(|| OURS.to_owned()),
            handle,
        })
    }
}

impl Object {
    /// One that is loaded. It stays so from now on.
    fn loaded(name: CString) -> Option<Self> {
        // SAFETY: loads nothing.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Self { name, handle })
    }

    fn is_mpi(&self) -> bool {
        self.defines(OF_EVERY_MPI) && !self.defines(OF_LIBPCM)
    }

    fn family(&self) -> Family {
        let begins = |name| file_name(&self.name).starts_with(name);
        if !self.address(OF_OPEN_MPI).is_null() {
            Family::OpenMpi
        } else if begins(OF_A_DRAFT) {
            Family::Draft
        } else if begins(OF_STANDARD_ABI) {
            Family::Standard
        } else {
            Family::Mpich
        }
    }

    fn defines(&self, symbol: &CStr) -> bool {
        object_with(self.address(symbol)).is_some_and(|name| name == self.name)
    }

    fn address(&self, symbol: &CStr) -> *mut c_void {
        // SAFETY: a handle of the loader's, a name that ends with a zero byte.
        unsafe { libc::dlsym(self.handle, symbol.as_ptr()) }
    }
}

/// The last part of a path.
fn file_name(path: &CStr) -> &[u8] {
    let path = path.to_bytes();
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Name of the library in which something lies.
fn object_with(address: *mut c_void) -> Option<CString> {
    let mut found = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: any address may be asked for; after success there is a name that ends with a zero byte.
    unsafe {
        if address.is_null() || libc::dladdr(address, found.as_mut_ptr()) == 0 {
            return None;
        }
        let name: *const c_char = found.assume_init_ref().dli_fname;
        (!name.is_null()).then(|| CStr::from_ptr(name).to_owned())
    }
}
