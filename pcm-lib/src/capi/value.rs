//! Values and custom regions in C.
#![allow(non_camel_case_types, reason = "the names are those of C")]
#![allow(unsafe_code, reason = "C API")]
#![allow(unreachable_pub, reason = "what pcm.h is made of is public")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the words are those of pcm.h: pointers are NULL or good"
)]

use super::{
    arguments::{Misuse, code_of, text},
    result::{PCM_ERROR_NULL, PCM_OK, boundary, pcm_result},
};
use crate::region::{CustomHooks, Delivered, HookFailed, PerRankHooks, Value};
use std::{
    ffi::{c_char, c_int, c_void},
    panic::AssertUnwindSafe,
    ptr::NonNull,
};

/// Merges the value of a rank that ends (*other) into that of the rank that takes its place (*mine), both of the
/// registered size. Returns 0, or another number to abort the change.
pub type pcm_merge_hook =
    Option<unsafe extern "C" fn(context: *mut c_void, mine: *mut c_void, other: *const c_void) -> c_int>;

/// Whether the program can run on so many ranks: 0 for no.
pub type pcm_possible_hook = Option<unsafe extern "C" fn(context: *mut c_void, ranks: c_int) -> c_int>;

/// Splits a share for a new rank (*share, zeroed) off a value (*mine). `left` new ranks still get one, this one
/// included: an equal share is the value divided by left + 1. Returns 0, or another number to abort the change.
pub type pcm_split_hook =
    Option<unsafe extern "C" fn(context: *mut c_void, mine: *mut c_void, share: *mut c_void, left: c_int) -> c_int>;

/// Output of a pack hook, filled with pcm_pack.
pub struct pcm_packer(Vec<u8>);

/// What one old rank packed for this one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pcm_part {
    /// The rank it comes from, as numbered before the change.
    pub from: c_int,
    /// The packed bytes. Valid until the hook returns.
    pub data: *const c_void,
    /// Its length in bytes.
    pub size: usize,
}

/// The hooks of a custom region: data that only the program can interpret. Each returns 0, or another number for a
/// failure. They must not call libpcm, except pcm_pack.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pcm_custom_hooks {
    /// Passed to each hook.
    pub context: *mut c_void,
    /// Packs this rank's data for new rank `to` of `ranks` with pcm_pack; it may pack nothing. Called once for each of
    /// the targets; a rank that stays packs for itself too. The data must stay unchanged: the change may still be
    /// aborted.
    pub pack:
        Option<unsafe extern "C" fn(context: *mut c_void, to: c_int, ranks: c_int, packer: *mut pcm_packer) -> c_int>,
    /// Replaces the data by what was packed for this rank, in the order of the old ranks. The change is committed by
    /// then: a failure ends this rank's part in the job.
    pub unpack: Option<unsafe extern "C" fn(context: *mut c_void, parts: *const pcm_part, count: usize) -> c_int>,
    /// Writes the new ranks that get a part of old rank `from`'s data to `targets`, which has room for ranks_after
    /// numbers, and returns their count, or a negative number. Every rank calls it for every old rank; all must get
    /// the same answers. NULL: the ranks whose blocks overlap if both numbers of ranks divide the same range evenly.
    pub targets: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            from: c_int,
            ranks_before: c_int,
            ranks_after: c_int,
            targets: *mut c_int,
        ) -> c_int,
    >,
}

/// Registers a variable that has the same value on every rank, such as the number of the iteration. A joining rank
/// gets the value in pcm_start; a rank that stays keeps its own. Up to 1 KiB long, it has the value with which the job
/// began as soon as it is registered in a joining rank: register what your arrays' extents depend on before them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_value(name: *const c_char, value: *mut c_void, size: usize) -> pcm_result {
    code_of(|registry| {
        // SAFETY: the caller's pointers are NULL or good, and the variable lives as long as the program uses libpcm.
        let (name, value) = unsafe { (text(name)?, borrowed(value, size)?) };
        registry.value(name, value)?;
        Ok(())
    })
}

/// Says on which numbers of ranks the program can run, from 1 to 4096: `is_possible` returns 0 for those on which it
/// cannot. Every rank calls it, before pcm_start, which fails on a number of ranks that is not possible. Agents and
/// pcmctl change the job to possible numbers only. `context` is passed on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_possible_ranks(is_possible: pcm_possible_hook, context: *mut c_void) -> pcm_result {
    code_of(|registry| {
        let Some(is_possible) = is_possible else {
            return Err(Misuse::Null("is_possible"));
        };
        // SAFETY: the program's function, with the context that it gave.
        registry.possible_ranks(|ranks| unsafe { is_possible(context, ranks.cast_signed()) } != 0)?;
        Ok(())
    })
}

/// Registers a variable that has a separate value on each rank. The value moves with its rank. When the job shrinks,
/// `merge` merges the values of ranks that end into others; NULL: the job cannot shrink. When it grows, `split` makes
/// a value for each new rank; NULL: a new rank keeps the value it registered. `context` is passed to both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_value_per_rank(
    name: *const c_char,
    value: *mut c_void,
    size: usize,
    merge: pcm_merge_hook,
    split: pcm_split_hook,
    context: *mut c_void,
) -> pcm_result {
    code_of(|registry| {
        // SAFETY: as in `pcm_value`.
        let (name, value) = unsafe { (text(name)?, borrowed(value, size)?) };
        let mut hooks = PerRankHooks::default();
        if let Some(merge) = merge {
            hooks.merge = Some(Box::new(move |mine, other| {
                // SAFETY: the program's function, with the values it was promised.
                returned(unsafe { merge(context, mine.as_mut_ptr().cast(), other.as_ptr().cast()) })
            }));
        }
        if let Some(split) = split {
            hooks.split = Some(Box::new(move |mine, share, left| {
                let (mine, share) = (mine.as_mut_ptr().cast(), share.as_mut_ptr().cast());
                // SAFETY: the program's function, with the values it was promised.
                returned(unsafe { split(context, mine, share, left.cast_signed()) })
            }));
        }
        registry.per_rank(name, value, hooks)?;
        Ok(())
    })
}

/// Registers data that only the program can interpret. The hooks are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_custom(name: *const c_char, hooks: *const pcm_custom_hooks) -> pcm_result {
    code_of(|registry| {
        // SAFETY: the caller's pointers are NULL or good.
        let (name, hooks) = unsafe {
            (
                text(name)?,
                hooks.as_ref().ok_or(Misuse::Null("the address of the hooks"))?,
            )
        };
        if hooks.pack.is_none() || hooks.unpack.is_none() {
            return Err(Misuse::Null("the pack or the unpack hook"));
        }
        registry.custom(name, Box::new(*hooks))?;
        Ok(())
    })
}

/// Appends bytes to the output of a pack hook. Call it in a pack hook only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_pack(packer: *mut pcm_packer, data: *const c_void, size: usize) -> pcm_result {
    boundary(AssertUnwindSafe(|| {
        // SAFETY: the packer is the one the hook was given; the data is NULL or good.
        let Some(packer) = (unsafe { packer.as_mut() }) else {
            return PCM_ERROR_NULL;
        };
        if size > 0 {
            if data.is_null() {
                return PCM_ERROR_NULL;
            }
            // SAFETY: as above.
            packer
                .0
                .extend_from_slice(unsafe { std::slice::from_raw_parts(data.cast(), size) });
        }
        PCM_OK
    }))
}

impl CustomHooks for pcm_custom_hooks {
    fn targets(&mut self, from: u32, ranks_before: u32, ranks_after: u32) -> Option<Vec<u32>> {
        let hook = self.targets?;
        let mut targets = vec![0; ranks_after as usize];
        let [from, before, after] = [from, ranks_before, ranks_after].map(u32::cast_signed);
        // SAFETY: the program's function, with the room it was promised.
        let count = unsafe { hook(self.context, from, before, after, targets.as_mut_ptr()) };
        // No target at all is refused by the plan.
        targets.truncate(usize::try_from(count).unwrap_or(0));
        Some(
            targets
                .into_iter()
                .map(|rank: c_int| u32::try_from(rank).unwrap_or(u32::MAX))
                .collect(),
        )
    }

    fn pack(&mut self, to: u32, ranks_after: u32, out: &mut Vec<u8>) -> Result<(), HookFailed> {
        let Some(hook) = self.pack else {
            return Ok(());
        };
        let mut packer = pcm_packer(std::mem::take(out));
        // SAFETY: the program's function.
        let code = unsafe { hook(self.context, to.cast_signed(), ranks_after.cast_signed(), &mut packer) };
        *out = packer.0;
        returned(code)
    }

    fn unpack(&mut self, parts: &[Delivered<'_>]) -> Result<(), HookFailed> {
        let Some(hook) = self.unpack else {
            return Ok(());
        };
        let part = |part: &Delivered<'_>| pcm_part {
            from: part.from.cast_signed(),
            data: part.bytes.as_ptr().cast(),
            size: part.bytes.len(),
        };
        let parts: Vec<_> = parts.iter().map(part).collect();
        // SAFETY: the program's function, with parts that live as long as the call.
        returned(unsafe { hook(self.context, parts.as_ptr(), parts.len()) })
    }
}

fn returned(code: c_int) -> Result<(), HookFailed> {
    if code == 0 {
        Ok(())
    } else {
        Err(HookFailed::with_code(code))
    }
}

/// A variable of the program.
///
/// # Safety
/// NULL, or good for `size` bytes as long as the program uses libpcm.
unsafe fn borrowed(value: *mut c_void, size: usize) -> Result<Value, Misuse> {
    let first = NonNull::new(value.cast()).ok_or(Misuse::Null("the address of the value"))?;
    // SAFETY: by the contract; functions of libpcm run on the program's own thread.
    Ok(unsafe { Value::borrowed(first, size) })
}
