//! Functions of the program that MPI calls with a communicator: error handlers and those of attributes. Where that is
//! the job's communicator, which the program never sees, they are told MPI_COMM_WORLD.
#![allow(unsafe_code, reason = "stands between MPI and functions of the program")]
#![allow(non_snake_case, reason = "the names are those of MPI")]

use super::recorder;
use mpi_abi::{
    MPI_Comm, MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function, MPI_Comm_errhandler_function, MPI_Errhandler,
};
use std::{
    collections::BTreeMap,
    mem::transmute,
    os::raw::{c_int, c_void},
    ptr::{from_ref, null_mut},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire},
    },
};

/// Different functions that one program has as error handlers. MPI gives a handler nothing to know its function by, so
/// each has one of as many functions here; those beyond get the job's communicator by its own handle.
const HANDLERS_MAX: usize = 16;

type Handler = unsafe extern "C" fn(*mut MPI_Comm, *mut c_int);
type Copy = unsafe extern "C" fn(MPI_Comm, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
type Delete = unsafe extern "C" fn(MPI_Comm, c_int, *mut c_void, *mut c_void) -> c_int;

static FUNCTIONS: [AtomicPtr<MPI_Comm_errhandler_function>; HANDLERS_MAX] =
    [const { AtomicPtr::new(null_mut()) }; HANDLERS_MAX];

const HANDLERS: [Handler; HANDLERS_MAX] = [
    handle::<0>,
    handle::<1>,
    handle::<2>,
    handle::<3>,
    handle::<4>,
    handle::<5>,
    handle::<6>,
    handle::<7>,
    handle::<8>,
    handle::<9>,
    handle::<10>,
    handle::<11>,
    handle::<12>,
    handle::<13>,
    handle::<14>,
    handle::<15>,
];

/// What the program calls a communicator that MPI names.
fn shown(communicator: MPI_Comm) -> MPI_Comm {
    recorder::active().map_or(communicator, |recorder| recorder.shown(communicator))
}

/// Called by MPI with more arguments, which mean nothing.
unsafe extern "C" fn handle<const PLACE: usize>(communicator: *mut MPI_Comm, code: *mut c_int) {
    // SAFETY: MPI gives both; the function is one that the program gave for this signature.
    unsafe {
        let mut communicator = shown(*communicator);
        let function = FUNCTIONS[PLACE].load(Acquire);
        transmute::<*mut MPI_Comm_errhandler_function, Handler>(function)(&mut communicator, code);
    }
}

/// The function that stands for one of the program's.
fn handler_for(function: *mut MPI_Comm_errhandler_function) -> Option<Handler> {
    let place = FUNCTIONS.iter().position(|known| {
        let taken = known.compare_exchange(null_mut(), function, AcqRel, Acquire);
        taken.is_ok() || taken == Err(function)
    });
    place.map(|place| HANDLERS[place])
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Comm_create_errhandler(
    function: *mut MPI_Comm_errhandler_function,
    handler: *mut MPI_Errhandler,
) -> c_int {
    let known = (!function.is_null()).then(|| handler_for(function)).flatten();
    let function = known.map_or(function, |known| known as *mut MPI_Comm_errhandler_function);
    // SAFETY: the caller's contract.
    unsafe { mpi_abi::PMPI_Comm_create_errhandler(function, handler) }
}

/// What a program gave for a key of attributes.
struct Key {
    copy: Option<Copy>,
    delete: Option<Delete>,
    extra: AtomicPtr<c_void>,
}

/// All of them, by what the program gave. Attributes outlive their key, so that it is unknown when one is used last; a
/// program that makes the same key again and again has one here.
static KEYS: Mutex<BTreeMap<[usize; 3], Box<Key>>> = Mutex::new(BTreeMap::new());

fn kept(key: Key, given: [usize; 3]) -> *mut c_void {
    let mut keys = KEYS.lock().unwrap_or_else(PoisonError::into_inner);
    let key = keys.entry(given).or_insert_with(|| Box::new(key));
    from_ref::<Key>(key).cast_mut().cast()
}

unsafe extern "C" fn copy(
    communicator: MPI_Comm,
    key: c_int,
    given: *mut c_void,
    value: *mut c_void,
    copied: *mut c_void,
    is_copied: *mut c_int,
) -> c_int {
    // SAFETY: `given` is a box of `KEYS`, which is never freed.
    unsafe {
        let Key { copy, extra, .. } = &*given.cast::<Key>();
        copy.map_or(0, |copy| {
            copy(shown(communicator), key, extra.load(Acquire), value, copied, is_copied)
        })
    }
}

/// What MPI does itself for a number in the place of a function.
unsafe extern "C" fn duplicate(
    _communicator: MPI_Comm,
    _key: c_int,
    _extra: *mut c_void,
    value: *mut c_void,
    copied: *mut c_void,
    is_copied: *mut c_int,
) -> c_int {
    // SAFETY: MPI gives a place for an address, and one for an int.
    unsafe {
        *copied.cast::<*mut c_void>() = value;
        *is_copied = 1;
    }
    0
}

unsafe extern "C" fn delete(communicator: MPI_Comm, key: c_int, value: *mut c_void, given: *mut c_void) -> c_int {
    // SAFETY: as in `copy`.
    unsafe {
        let Key { delete, extra, .. } = &*given.cast::<Key>();
        delete.map_or(0, |delete| delete(shown(communicator), key, value, extra.load(Acquire)))
    }
}

/// As MPI says.
///
/// # Safety
/// The caller's arguments of the MPI function.
pub(super) unsafe fn MPI_Comm_create_keyval(
    copy_function: *mut MPI_Comm_copy_attr_function,
    delete_function: *mut MPI_Comm_delete_attr_function,
    key: *mut c_int,
    extra: *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract; a function that is not given is NULL, as `None` is.
    unsafe {
        if copy_function.is_null() && delete_function.is_null() {
            return mpi_abi::PMPI_Comm_create_keyval(copy_function, delete_function, key, extra);
        }
        let own = Key {
            copy: if mpi_abi::MPI_COMM_DUP_FN == Some(copy_function.addr()) {
                Some(duplicate)
            } else {
                transmute::<*mut MPI_Comm_copy_attr_function, Option<Copy>>(copy_function)
            },
            delete: transmute::<*mut MPI_Comm_delete_attr_function, Option<Delete>>(delete_function),
            extra: AtomicPtr::new(extra),
        };
        let functions = (
            own.copy
                .map_or(null_mut(), |_| copy as *mut MPI_Comm_copy_attr_function),
            own.delete
                .map_or(null_mut(), |_| delete as *mut MPI_Comm_delete_attr_function),
        );
        let given = kept(own, [copy_function.addr(), delete_function.addr(), extra.addr()]);
        mpi_abi::PMPI_Comm_create_keyval(functions.0, functions.1, key, given)
    }
}
