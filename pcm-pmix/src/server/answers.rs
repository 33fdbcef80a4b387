//! Calls of libpmix that wait, and their answers. Each is answered once.
#![allow(unsafe_code, reason = "callbacks of libpmix are called")]

use super::infos::{Found, Infos, text_of};
use crate::{
    bindings::{
        attributes::{PMIX_GROUP_CONTEXT_ID, PMIX_GROUP_ENDPT_DATA, PMIX_GROUP_MEMBERSHIP},
        numbers::{PMIX_SIZE, PMIX_SUCCESS, pmix_status_t},
        types::{pmix_info_cbfunc_t, pmix_lookup_cbfunc_t, pmix_modex_cbfunc_t, pmix_op_cbfunc_t, pmix_spawn_cbfunc_t},
    },
    names::{Published, Value},
    rules::{Answer, Collected, Group},
};
use std::{ffi::c_void, ptr};

/// What libpmix gave to be called.
#[derive(Clone, Copy, Debug)]
pub(super) enum Callback {
    Plain(pmix_op_cbfunc_t),
    Data(pmix_modex_cbfunc_t),
    Lookup(pmix_lookup_cbfunc_t),
    Spawn(pmix_spawn_cbfunc_t),
    Group(pmix_info_cbfunc_t),
}

/// A callback with libpmix's own word for the call.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) callback: Callback,
    pub(super) word: *mut c_void,
}

// SAFETY: libpmix lets any thread call back; the word is only handed back.
unsafe impl Send for Waiting {}

impl Waiting {
    /// Answers the call. An answer of another form is one of its status alone.
    pub(super) fn answer(self, answer: Answer) {
        let status = match &answer {
            Answer::Done(status) => status.0,
            _ => PMIX_SUCCESS,
        };
        match self.callback {
            Callback::Plain(Some(call)) => {
                // SAFETY: libpmix gave this function and this word.
                unsafe { call(status, self.word) };
            }
            Callback::Data(call) => self.data(call, status, answer),
            Callback::Lookup(call) => self.found(call, status, answer),
            Callback::Spawn(Some(call)) => {
                let name = match answer {
                    Answer::Spawned(name) => name,
                    _ => String::new(),
                };
                let name = text_of(name.as_bytes());
                // SAFETY: libpmix gave this function and this word, and copies the name.
                unsafe { call(status, name.as_ptr().cast_mut(), self.word) };
            }
            Callback::Group(call) => self.group(call, status, answer),
            Callback::Plain(None) | Callback::Spawn(None) => {}
        }
    }

    fn data(&self, call: pmix_modex_cbfunc_t, status: pmix_status_t, answer: Answer) {
        let data = match answer {
            Answer::Collected(Collected { data, .. }) | Answer::Data(data) => data,
            _ => Vec::new(),
        };
        let Some(call) = call else { return };
        if data.is_empty() {
            // SAFETY: libpmix gave this function and this word.
            return unsafe { call(status, ptr::null(), 0, self.word, None, ptr::null_mut()) };
        }
        let data = Box::new(data);
        let (bytes, count) = (data.as_ptr(), data.len());
        let held = Box::into_raw(data);
        // SAFETY: libpmix gave this function and this word, and reads the data until it releases it.
        unsafe {
            call(
                status,
                bytes.cast(),
                count,
                self.word,
                Some(release::<Vec<u8>>),
                held.cast(),
            )
        };
    }

    fn found(&self, call: pmix_lookup_cbfunc_t, status: pmix_status_t, answer: Answer) {
        let all: Vec<Published> = match answer {
            Answer::Found(found) => found,
            _ => Vec::new(),
        };
        let mut found = Found::new(&all);
        let Some(call) = call else { return };
        // SAFETY: libpmix gave this function and this word, and copies what was found.
        unsafe { call(status, found.as_mut_ptr(), found.len(), self.word) };
    }

    fn group(&self, call: pmix_info_cbfunc_t, status: pmix_status_t, answer: Answer) {
        let mut infos = Box::new(Infos::default());
        if let Answer::Collected(collected) = answer {
            if let Some(Group { context, members }) = collected.group {
                let context = Value::Number {
                    kind: PMIX_SIZE,
                    bits: context,
                };
                infos.put(PMIX_GROUP_CONTEXT_ID, &context);
                infos.processes(PMIX_GROUP_MEMBERSHIP, &members);
            }
            if !collected.data.is_empty() {
                infos.give(PMIX_GROUP_ENDPT_DATA, &collected.data);
            }
        }
        let (list, count) = (infos.as_mut_ptr(), infos.len());
        let held = Box::into_raw(infos);
        let Some(call) = call else { return };
        // SAFETY: libpmix gave this function and this word, and reads the attributes until it releases them.
        unsafe { call(status, list, count, self.word, Some(release::<Infos>), held.cast()) };
    }
}

/// # Safety
/// A box of this type that libpmix held.
unsafe extern "C" fn release<T>(held: *mut c_void) {
    // SAFETY: as the caller says; it is released once.
    drop(unsafe { Box::from_raw(held.cast::<T>()) });
}
