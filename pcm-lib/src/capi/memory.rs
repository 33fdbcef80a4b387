//! Arrays in memory that the program makes, in C.
#![allow(non_camel_case_types, reason = "the names are those of C")]
#![allow(unsafe_code, reason = "calls functions of the program")]
#![allow(unreachable_pub, reason = "what pcm.h is made of is public")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the words are those of pcm.h: pointers are NULL or good"
)]

use super::{
    arguments::{Misuse, code_of, text},
    axis::{form_of_axes, pcm_axis},
    result::pcm_result,
};
use crate::region::memory::ProgramMemory;
use std::{
    cell::RefCell,
    ffi::{c_char, c_int, c_void},
    ptr::NonNull,
    rc::Rc,
};

/// Memory that the program makes for an array, such as that of a std::vector. The hooks must not call libpcm;
/// but make may ask pcm_bounds and pcm_local_extents of its array: they tell of the part that it makes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pcm_memory_hooks {
    /// Passed to each hook.
    pub context: *mut c_void,
    /// Returns `bytes` bytes for a new part, beside the present one, which must stay as it is: the change may still be
    /// aborted. NULL if there are none: the change is then refused. Called in pcm_adopt, and in pcm_iterate or
    /// pcm_start before a change.
    pub make: Option<unsafe extern "C" fn(context: *mut c_void, bytes: usize) -> *mut c_void>,
    /// The array is in `memory`, returned by make, from now on; `bytes` is what make was asked for. The program lets
    /// go of the memory before.
    pub take_up: Option<unsafe extern "C" fn(context: *mut c_void, memory: *mut c_void, bytes: usize)>,
    /// `memory`, returned by make, is not needed: the change was aborted.
    pub give_back: Option<unsafe extern "C" fn(context: *mut c_void, memory: *mut c_void)>,
}

/// Registers an array as pcm_array_axes does, in memory of the program: the hooks make it, in this call for the first
/// part. The program must not resize or move it by itself. When ranks join, leave or move, parts are copied from the
/// old memory to the new one, where an array of pcm_array keeps most elements in place. The hooks are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_adopt(
    name: *const c_char,
    element: c_int,
    ndims: c_int,
    axes: *const pcm_axis,
    flags: c_int,
    hooks: *const pcm_memory_hooks,
) -> pcm_result {
    code_of(|registry| {
        // SAFETY: the caller's pointers are NULL or good.
        let (name, hooks) = unsafe {
            (
                text(name)?,
                hooks.as_ref().ok_or(Misuse::Null("the address of the hooks"))?,
            )
        };
        if hooks.make.is_none() || hooks.take_up.is_none() || hooks.give_back.is_none() {
            return Err(Misuse::Null("the make, the take_up or the give_back hook"));
        }
        // SAFETY: as above.
        let form = unsafe { form_of_axes(name, element, ndims, axes, flags)? };
        registry.array_held(name, form, Some(Rc::new(RefCell::new(*hooks))))?;
        Ok(())
    })
}

impl ProgramMemory for pcm_memory_hooks {
    fn make(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        // SAFETY: the program's function, with the context that it gave.
        let made = unsafe { (self.make?)(self.context, bytes) };
        NonNull::new(made.cast())
    }

    fn take_up(&mut self, memory: NonNull<u8>, bytes: usize) {
        if let Some(hook) = self.take_up {
            // SAFETY: as above, with memory that it made.
            unsafe { hook(self.context, memory.as_ptr().cast(), bytes) }
        }
    }

    fn give_back(&mut self, memory: NonNull<u8>) {
        if let Some(hook) = self.give_back {
            // SAFETY: as above.
            unsafe { hook(self.context, memory.as_ptr().cast()) }
        }
    }
}
