//! Rows of different lengths and records in C.
#![allow(non_camel_case_types, reason = "the names are those of C")]
#![allow(unsafe_code, reason = "C API")]
#![allow(unreachable_pub, reason = "what pcm.h is made of is public")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the words are those of pcm.h: pointers are NULL or good"
)]

use super::{
    arguments::{Misuse, code_of, list, on_registry, room, text},
    result::pcm_result,
};
use crate::region::{Divide, HookFailed, RegionError, memory::MemoryError};
use std::{
    ffi::{c_char, c_int, c_void},
    ptr::{null, null_mut},
};

/// The rank, of so many ranks, that a record belongs to.
pub type pcm_owner_hook =
    Option<unsafe extern "C" fn(context: *mut c_void, record: *const c_void, ranks: c_int) -> c_int>;

/// Writes the owners of the rows among `ranks` ranks over those that there were, in owners[0] to owners[rows - 1].
/// Returns 0, or another number for a failure.
pub type pcm_divide_hook =
    Option<unsafe extern "C" fn(context: *mut c_void, ranks: c_int, owners: *mut c_int, rows: usize) -> c_int>;

/// Registers a list of owners, to divide rows of pcm_rows: row i belongs to rank owners[i]. Every rank gives the same
/// list; a rank that joins gets it from the others, whatever it gives. NULL: equal blocks. When the number of ranks
/// changes, `divide` says the next owners. Every rank calls it, and must get the same answer; after a restart from
/// files or a relaunch it is called in pcm_start. It must not call libpcm; `context` is passed on. NULL: each rank's
/// rows stay side by side, and all ranks get equally many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_owner_list(
    name: *const c_char,
    rows: usize,
    owners: *const c_int,
    divide: pcm_divide_hook,
    context: *mut c_void,
) -> pcm_result {
    code_of(|registry| {
        // SAFETY: the caller's pointers are NULL or good.
        let (name, given) = unsafe { (text(name)?, list(owners, rows, "owners").ok()) };
        let given = given.map(|owners| owners.iter().map(|owner| owner.cast_unsigned()).collect());
        let divide = divide.map(|divide| -> Divide {
            Box::new(move |owners: &mut [u32], ranks: u32| {
                let first = owners.as_mut_ptr().cast();
                // SAFETY: the program's function, with the context that it gave and a list of as many owners.
                match unsafe { divide(context, ranks.cast_signed(), first, owners.len()) } {
                    0 => Ok(()),
                    code => Err(HookFailed::with_code(code)),
                }
            })
        });
        registry.owners(name, rows, given, divide)?;
        Ok(())
    })
}

/// Returns the numbers of the rows that this rank owns, rising, and writes how many they are to *count; `name` is a
/// list of owners. Valid until pcm_iterate returns PCM_CHANGED. NULL on failure (see pcm_last_error).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_row_numbers(name: *const c_char, count: *mut usize) -> *const usize {
    let found = on_registry(|registry| {
        // SAFETY: the caller's pointers are NULL or good.
        let (name, count) = unsafe { (text(name)?, room(count, 1, "count")?) };
        let Some(owners) = registry.owners_named(name)? else {
            return Err(Misuse::Argument(format!("region \"{name}\" is no list of owners")));
        };
        count[0] = owners.numbers().len();
        Ok(owners.numbers().as_ptr())
    });
    found.unwrap_or(null())
}

/// Registers rows of different lengths, such as those of a sparse matrix. `like` is registered already: an array whose
/// first axis is the only divided one, and row i belongs to the rank that owns index i of it, or a list of owners. A
/// row has entries in each of `columns` columns, for example column numbers and values; an entry of column c has
/// entry_sizes[c] bytes. At first all rows are empty: see pcm_rows_resize. The library keeps the entries, and moves
/// them with their rows; a checkpoint can be restored on any number of ranks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_rows(
    name: *const c_char,
    like: *const c_char,
    columns: c_int,
    entry_sizes: *const usize,
) -> pcm_result {
    code_of(|registry| {
        let columns = usize::try_from(columns).unwrap_or(0);
        // SAFETY: the caller's pointers are NULL or good.
        let (name, like, sizes) = unsafe { (text(name)?, text(like)?, list(entry_sizes, columns, "entry_sizes")?) };
        registry.rows(name, like, sizes.to_vec())?;
        Ok(())
    })
}

/// Gives this rank's rows these lengths, in entries, one for each index of pcm_bounds of the array, or for each number
/// of pcm_row_numbers of the list of owners. All entries are
/// zero then, whatever was in them. Call pcm_row_offsets and pcm_row_entries afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_rows_resize(name: *const c_char, lengths: *const usize) -> pcm_result {
    code_of(|registry| {
        // SAFETY: the caller's pointer is NULL or good.
        let name = unsafe { text(name)? };
        let rows = registry.rows_named(name)?;
        let lengths = match rows.count() {
            0 => &[],
            // SAFETY: NULL, or a length for each row.
            count => unsafe { list(lengths, count, "lengths")? },
        };
        rows.set_lengths(lengths).map_err(|error| no_memory(name, error))
    })
}

/// Returns where each of this rank's rows begins, in entries, and, last, where the last one ends: one number more than
/// there are rows. Valid until pcm_iterate returns PCM_CHANGED or pcm_rows_resize is called. NULL on failure (see
/// pcm_last_error).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_row_offsets(name: *const c_char) -> *const usize {
    let found = on_registry(|registry| {
        // SAFETY: the caller's pointer is NULL or good.
        let name = unsafe { text(name)? };
        Ok(registry.rows_named(name)?.offsets().as_ptr())
    });
    found.unwrap_or(null())
}

/// Returns the entries of a column, counted from 0, of all rows of this rank, one row after the other. Valid until
/// pcm_iterate returns PCM_CHANGED or pcm_rows_resize is called. NULL on failure (see pcm_last_error).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_row_entries(name: *const c_char, column: c_int) -> *mut c_void {
    let found = on_registry(|registry| {
        // SAFETY: the caller's pointer is NULL or good.
        let name = unsafe { text(name)? };
        let rows = registry.rows_named(name)?;
        let columns = rows.columns();
        let entries = usize::try_from(column).ok().and_then(|column| rows.column(column));
        let entries = entries.ok_or_else(|| {
            Misuse::Argument(format!(
                "region \"{name}\" has columns 0 to {}, not {column}",
                columns.saturating_sub(1)
            ))
        })?;
        Ok(entries.as_mut_ptr().cast())
    });
    found.unwrap_or(null_mut())
}

/// Registers records of `size` bytes, such as particles. Each rank has any number of them, none at first: see
/// pcm_records_resize. When the number of ranks changes, each record goes to the rank that `owner` returns for it; at
/// all other times a record stays with its rank. The library keeps the records; a checkpoint can be restored on any
/// number of ranks. `owner` must not call libpcm; `context` is passed on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_records(
    name: *const c_char,
    size: usize,
    owner: pcm_owner_hook,
    context: *mut c_void,
) -> pcm_result {
    code_of(|registry| {
        let Some(owner) = owner else {
            return Err(Misuse::Null("the owner hook"));
        };
        // SAFETY: the caller's pointer is NULL or good.
        let name = unsafe { text(name)? };
        let owner = move |record: &[u8], ranks: u32| {
            // SAFETY: the program's function, with the context that it gave and a record that lives as long as the
            // call.
            let rank = unsafe { owner(context, record.as_ptr().cast(), ranks.cast_signed()) };
            u32::try_from(rank).map_err(|_| HookFailed::with_code(rank))
        };
        registry.records(name, size, Box::new(owner))?;
        Ok(())
    })
}

/// Makes room for `count` records on this rank. Those that there are stay, the first ones; new ones are zero. Returns
/// the address of the first record, valid until pcm_iterate returns PCM_CHANGED or the next call; NULL on failure (see
/// pcm_last_error).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_records_resize(name: *const c_char, count: usize) -> *mut c_void {
    let made = on_registry(|registry| {
        // SAFETY: the caller's pointer is NULL or good.
        let name = unsafe { text(name)? };
        let records = registry.records_named(name)?;
        records.resize(count).map_err(|error| no_memory(name, error))?;
        Ok(records.bytes_mut().as_mut_ptr().cast())
    });
    made.unwrap_or(null_mut())
}

/// Returns the address of this rank's first record, and writes their number to *count. Valid until pcm_iterate returns
/// PCM_CHANGED or pcm_records_resize is called. NULL on failure (see pcm_last_error).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_record_data(name: *const c_char, count: *mut usize) -> *mut c_void {
    let found = on_registry(|registry| {
        // SAFETY: the caller's pointers are NULL or good.
        let (name, count) = unsafe { (text(name)?, room(count, 1, "count")?) };
        let records = registry.records_named(name)?;
        count[0] = records.count();
        Ok(records.bytes_mut().as_mut_ptr().cast())
    });
    found.unwrap_or(null_mut())
}

fn no_memory(name: &str, error: MemoryError) -> Misuse {
    let name = name.to_owned();
    Misuse::Region(RegionError::Memory { name, error })
}
