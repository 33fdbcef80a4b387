//! Predefined handles of Open MPI: addresses of its objects, found when they are first asked for.
//!
//! Not references for the loader to fill: a library with those does not load into a program without Open MPI, as the
//! shell or the Python that a rank runs behind, nor into the command that starts the ranks.

use crate::loaded::source;
use std::{
    ffi::{CStr, c_void},
    ptr,
    sync::atomic::{AtomicPtr, Ordering::Relaxed},
};

/// A function for each handle, as where they are numbers.
macro_rules! predefined {
    ($($name:ident: $kind:ident = $object:ident;)*) => {
        $(
            #[inline]
            pub fn $name() -> $kind {
                static OBJECT: $crate::objects::Object =
                    $crate::objects::Object::new(concat!(stringify!($object), "\0"));
                $kind(OBJECT.address())
            }
        )*
    };
}

/// An object of the MPI that is loaded. Its address costs one load once it was found.
pub(crate) struct Object {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Object {
    /// The object of a name that ends with a zero byte.
    pub(crate) const fn new(name: &'static str) -> Self {
        let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else {
            panic!("a name ends with a zero byte");
        };
        Self {
            name,
            address: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Zero if the MPI lacks it, or if there is none.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        let known = self.address.load(Relaxed);
        if known.is_null() { self.find() } else { known.addr() }
    }

    /// The linker gives a program a copy of each object that it names, and MPI itself uses that copy: so the first one
    /// in the order of the loader counts, and MPI's own only where the program was not linked with MPI.
    #[cold]
    fn find(&self) -> usize {
        let Ok(source) = source() else { return 0 };
        // SAFETY: handles of the loader, and a name that ends with a zero byte.
        let address = unsafe {
            let first = libc::dlsym(libc::RTLD_DEFAULT, self.name.as_ptr());
            if first.is_null() {
                libc::dlsym(source, self.name.as_ptr())
            } else {
                first
            }
        };
        self.address.store(address, Relaxed);
        address.addr()
    }
}
