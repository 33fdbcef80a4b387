//! Attributes and values in PMIx's layout, with the memory that they point to.
#![allow(unsafe_code, reason = "structures of C are made of zeroes first")]

use crate::{
    bindings::{
        numbers::{PMIX_BYTE_OBJECT, PMIX_DATA_ARRAY, PMIX_INFO, PMIX_PROC, PMIX_STRING, pmix_data_type_t},
        types::{pmix_byte_object_t, pmix_data_array_t, pmix_info_t, pmix_pdata_t, pmix_proc_t, pmix_value_t},
    },
    names::{Process, Published, Value},
};
use std::{
    ffi::{CStr, CString, c_char, c_void},
    mem,
};

// The bits of a number are the first bytes of a value's union.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "numbers of PMIx are read as little-endian"
);

/// What values point to.
#[derive(Default)]
struct Memory {
    texts: Vec<CString>,
    bytes: Vec<Box<[u8]>>,
    #[expect(clippy::vec_box, reason = "values point to them, so they stay where they are")]
    processes: Vec<Box<pmix_proc_t>>,
    #[expect(clippy::vec_box, reason = "values point to them, so they stay where they are")]
    arrays: Vec<Box<pmix_data_array_t>>,
    lists: Vec<Infos>,
    groups: Vec<Vec<pmix_proc_t>>,
}

/// A list of attributes. What it points to moves with it.
#[derive(Default)]
pub(super) struct Infos {
    list: Vec<pmix_info_t>,
    memory: Memory,
    /// Which of the list have bytes of C's, that libpmix may take.
    given: Vec<usize>,
}

impl Infos {
    pub(super) fn put(&mut self, key: &CStr, value: &Value) {
        let value = self.memory.value(value);
        self.push(key, value);
    }

    /// Bytes that libpmix frees where it takes them; it leaves null behind.
    pub(super) fn give(&mut self, key: &CStr, bytes: &[u8]) {
        let mut value = nothing();
        value.kind = PMIX_BYTE_OBJECT;
        // SAFETY: memory of this size, unless there is none.
        let room = unsafe { libc::malloc(bytes.len()) }.cast::<u8>();
        if room.is_null() {
            return;
        }
        // SAFETY: the room was made for so many bytes.
        unsafe { room.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        value.data.bo = pmix_byte_object_t {
            bytes: room.cast(),
            size: bytes.len(),
        };
        self.given.push(self.list.len());
        self.push(key, value);
    }

    pub(super) fn number(&mut self, key: &CStr, kind: pmix_data_type_t, number: u32) {
        let bits = u64::from(number);
        self.put(key, &Value::Number { kind, bits });
    }

    pub(super) fn text(&mut self, key: &CStr, text: impl Into<String>) {
        self.put(key, &Value::text(text));
    }

    /// An attribute whose value is a list of attributes.
    pub(super) fn list(&mut self, key: &CStr, mut list: Self) {
        self.array(key, PMIX_INFO, (list.as_mut_ptr().cast(), list.len()));
        self.memory.lists.push(list);
    }

    /// An attribute whose value is a list of processes.
    pub(super) fn processes(&mut self, key: &CStr, all: &[Process]) {
        let mut all: Vec<pmix_proc_t> = all.iter().map(process).collect();
        self.array(key, PMIX_PROC, (all.as_mut_ptr().cast(), all.len()));
        self.memory.groups.push(all);
    }

    /// An attribute whose value is so many of this kind at this place.
    fn array(&mut self, key: &CStr, kind: pmix_data_type_t, (array, size): (*mut c_void, usize)) {
        let mut array = Box::new(pmix_data_array_t { kind, size, array });
        let mut value = nothing();
        value.kind = PMIX_DATA_ARRAY;
        value.data.darray = &raw mut *array;
        self.memory.arrays.push(array);
        self.push(key, value);
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut pmix_info_t {
        self.list.as_mut_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    fn push(&mut self, key: &CStr, value: pmix_value_t) {
        // SAFETY: zeroes are a valid attribute of no name and no value.
        let mut info: pmix_info_t = unsafe { mem::zeroed() };
        copy(key.to_bytes(), &mut info.key);
        info.value = value;
        self.list.push(info);
    }
}

impl Drop for Infos {
    fn drop(&mut self) {
        for index in &self.given {
            // SAFETY: what `give` made, or the null that libpmix left in its place.
            unsafe { libc::free(self.list[*index].value.data.bo.bytes.cast()) };
        }
    }
}

/// Values that were found, as PMIx passes them.
#[derive(Default)]
pub(super) struct Found {
    list: Vec<pmix_pdata_t>,
    memory: Memory,
}

impl Found {
    pub(super) fn new(all: &[Published]) -> Self {
        let mut found = Self::default();
        for one in all {
            // SAFETY: zeroes are a valid entry of no name and no value.
            let mut data: pmix_pdata_t = unsafe { mem::zeroed() };
            data.proc = process(&one.publisher);
            copy(one.key.as_bytes(), &mut data.key);
            data.value = found.memory.value(&one.value);
            found.list.push(data);
        }
        found
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut pmix_pdata_t {
        self.list.as_mut_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}

impl Memory {
    fn value(&mut self, value: &Value) -> pmix_value_t {
        let mut made = nothing();
        match value {
            Value::Text(text) => {
                let text = text_of(text);
                made.kind = PMIX_STRING;
                made.data.string = text.as_ptr().cast_mut();
                self.texts.push(text);
            }
            Value::Bytes(bytes) => {
                let mut bytes: Box<[u8]> = bytes.as_slice().into();
                made.kind = PMIX_BYTE_OBJECT;
                made.data.bo = pmix_byte_object_t {
                    bytes: bytes.as_mut_ptr().cast(),
                    size: bytes.len(),
                };
                self.bytes.push(bytes);
            }
            Value::Process(named) => {
                let mut named = Box::new(process(named));
                made.kind = PMIX_PROC;
                made.data.proc = &raw mut *named;
                self.processes.push(named);
            }
            Value::Number { kind, bits } => {
                made.kind = *kind;
                made.data.number = *bits;
            }
        }
        made
    }
}

/// A process in PMIx's layout.
pub(super) fn process(process: &Process) -> pmix_proc_t {
    // SAFETY: zeroes are a valid process of no namespace.
    let mut made: pmix_proc_t = unsafe { mem::zeroed() };
    copy(process.namespace.as_bytes(), &mut made.nspace);
    made.rank = process.rank;
    made
}

/// A text up to its first zero byte, if it has one.
pub(super) fn text_of(text: &[u8]) -> CString {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

fn nothing() -> pmix_value_t {
    // SAFETY: zeroes are a valid value of no type.
    unsafe { mem::zeroed() }
}

/// As much as fits before a zero byte.
fn copy(text: &[u8], into: &mut [c_char]) {
    let room = into.len() - 1;
    for (to, from) in into[..room].iter_mut().zip(text) {
        *to = from.cast_signed();
    }
}
