//! What libpmix passes, read and copied: it stays libpmix's own and is gone after the call.
#![allow(unsafe_code, reason = "memory of libpmix is read")]

use crate::{
    bindings::{
        attributes::PMIX_TIMEOUT,
        numbers::{
            PMIX_BOOL, PMIX_BYTE, PMIX_BYTE_OBJECT, PMIX_DOUBLE, PMIX_ENVAR, PMIX_FLOAT, PMIX_INT, PMIX_INT8,
            PMIX_INT16, PMIX_INT32, PMIX_INT64, PMIX_PERSIST, PMIX_PID, PMIX_PROC, PMIX_PROC_RANK, PMIX_SIZE,
            PMIX_STATUS, PMIX_STRING, PMIX_TIME, PMIX_UINT, PMIX_UINT8, PMIX_UINT16, PMIX_UINT32, PMIX_UINT64,
            pmix_data_type_t,
        },
        types::{pmix_app_t, pmix_info_t, pmix_proc_t, pmix_value_t},
    },
    names::{Process, Value},
};
use pcm_proto::pmix::SpawnCommand;
use std::{
    ffi::{CStr, c_char},
    slice,
    time::Duration,
};

/// Most elements of one list that a process passes: far above real use, and no number that is not one.
const ELEMENTS_MAX: usize = 1 << 20;

/// Attributes that came with a call.
#[derive(Clone, Copy)]
pub(super) struct Attributes<'a>(&'a [pmix_info_t]);

impl<'a> Attributes<'a> {
    /// # Safety
    /// A null pointer, or that many attributes, which stay as they are while this lives.
    pub(super) unsafe fn new(list: *const pmix_info_t, count: usize) -> Self {
        // SAFETY: as the caller says.
        Self(unsafe { all(list, count) })
    }

    pub(super) fn find(self, key: &CStr) -> Option<&'a pmix_value_t> {
        let found = self.0.iter().find(|info| text_in(&info.key) == key.to_bytes());
        found.map(|info| &info.value)
    }

    pub(super) fn number(self, key: &CStr) -> Option<u64> {
        self.find(key).and_then(number)
    }

    /// The bytes of an attribute that has some.
    pub(super) fn bytes(self, key: &CStr) -> Vec<u8> {
        match self.find(key).and_then(value) {
            Some(Value::Bytes(bytes)) => bytes,
            _ => Vec::new(),
        }
    }

    /// Whether it is there and not said to be false.
    pub(super) fn is_set(self, key: &CStr) -> bool {
        self.find(key)
            .is_some_and(|value| value.kind != PMIX_BOOL || number(value) != Some(0))
    }

    /// How long the caller waits; no deadline where it gives none or zero.
    pub(super) fn timeout(self) -> Option<Duration> {
        let seconds = self.number(PMIX_TIMEOUT).filter(|seconds| *seconds > 0);
        seconds.map(Duration::from_secs)
    }

    /// Names and values, without attributes of PMIx itself; the name of one whose type cannot be passed on, if any.
    pub(super) fn own_values(self) -> Result<Vec<(String, Value)>, String> {
        let mut values = Vec::new();
        for info in self.0 {
            let key = String::from_utf8_lossy(text_in(&info.key)).into_owned();
            if !key.starts_with("pmix.") {
                let value = value(&info.value).ok_or_else(|| key.clone())?;
                values.push((key, value));
            }
        }
        Ok(values)
    }

    fn texts(self) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        let text = |info: &pmix_info_t| match value(&info.value) {
            Some(Value::Text(text)) => Some((text_in(&info.key).to_vec(), text)),
            _ => None,
        };
        self.0.iter().filter_map(text)
    }

    /// Variables of the environment among them, as `NAME=value`.
    fn variables(self) -> impl Iterator<Item = Vec<u8>> {
        self.0.iter().filter(|info| info.value.kind == PMIX_ENVAR).map(|info| {
            // SAFETY: the type says which member counts; both are texts of libpmix.
            let (name, value) = unsafe {
                let variable = info.value.data.envar;
                (bytes_of(variable.envar), bytes_of(variable.value))
            };
            [name.as_slice(), b"=", &value].concat()
        })
    }
}

/// # Safety
/// A process of libpmix.
pub(super) unsafe fn process(process: *const pmix_proc_t) -> Process {
    // SAFETY: as the caller says.
    let process = unsafe { &*process };
    Process::new(String::from_utf8_lossy(text_in(&process.nspace)), process.rank)
}

/// # Safety
/// A null pointer, or that many processes.
pub(super) unsafe fn processes(list: *const pmix_proc_t, count: usize) -> Vec<Process> {
    // SAFETY: as the caller says, each is one.
    unsafe { all(list, count).iter().map(|one| process(one)).collect() }
}

/// # Safety
/// A null pointer, or that many bytes.
pub(super) unsafe fn bytes(list: *const c_char, count: usize) -> Vec<u8> {
    if list.is_null() || count == 0 {
        return Vec::new();
    }
    // SAFETY: as the caller says.
    unsafe { slice::from_raw_parts(list.cast::<u8>(), count) }.to_vec()
}

/// # Safety
/// A null pointer, or texts with a null pointer after the last.
pub(super) unsafe fn texts(list: *const *mut c_char) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    if list.is_null() {
        return found;
    }
    // SAFETY: each place up to the first null pointer is there, and a text.
    unsafe {
        let mut at = list;
        while !(*at).is_null() {
            found.push(bytes_of(*at));
            at = at.add(1);
        }
    }
    found
}

/// # Safety
/// A null pointer, or a text.
pub(super) unsafe fn bytes_of(text: *const c_char) -> Vec<u8> {
    if text.is_null() {
        return Vec::new();
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
}

/// # Safety
/// That many programs of libpmix, with what they point to.
pub(super) unsafe fn commands(apps: *const pmix_app_t, count: usize, of_all: Attributes<'_>) -> Vec<SpawnCommand> {
    // SAFETY: as the caller says.
    let apps = unsafe { all(apps, count) };
    let command = |app: &pmix_app_t| {
        // SAFETY: the lists of a program, as the caller says.
        let (own, mut environment) = unsafe { (Attributes::new(app.info, app.ninfo), texts(app.env)) };
        environment.extend(of_all.variables().chain(own.variables()));
        SpawnCommand {
            // SAFETY: the texts of a program, as the caller says.
            program: unsafe { bytes_of(app.cmd) },
            // SAFETY: the arguments of a program, as the caller says.
            arguments: unsafe { texts(app.argv) },
            environment,
            // SAFETY: the directory of a program, as the caller says.
            directory: unsafe { bytes_of(app.cwd) },
            processes: u32::try_from(app.maxprocs).unwrap_or(0),
            hints: of_all.texts().chain(own.texts()).collect(),
        }
    };
    apps.iter().map(command).collect()
}

/// Nothing for a type that is not passed on.
fn value(value: &pmix_value_t) -> Option<Value> {
    let data = value.data;
    // SAFETY: the type says which member counts, and libpmix filled it in.
    unsafe {
        match value.kind {
            PMIX_STRING => Some(Value::Text(bytes_of(data.string))),
            PMIX_BYTE_OBJECT => Some(Value::Bytes(bytes(data.bo.bytes, data.bo.size))),
            PMIX_PROC if !data.proc.is_null() => Some(Value::Process(process(data.proc))),
            kind => number(value).map(|bits| Value::Number { kind, bits }),
        }
    }
}

/// The bits of a number, the others zero.
fn number(value: &pmix_value_t) -> Option<u64> {
    let width = width(value.kind)?;
    // SAFETY: so many bytes of the union count, and libpmix filled them in.
    let bytes = unsafe { slice::from_raw_parts((&raw const value.data).cast::<u8>(), width) };
    Some(bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte)))
}

/// Bytes of a type that is a plain number.
fn width(kind: pmix_data_type_t) -> Option<usize> {
    match kind {
        PMIX_BOOL | PMIX_BYTE | PMIX_INT8 | PMIX_UINT8 | PMIX_PERSIST => Some(1),
        PMIX_INT16 | PMIX_UINT16 => Some(2),
        PMIX_PID | PMIX_INT | PMIX_INT32 | PMIX_UINT | PMIX_UINT32 | PMIX_FLOAT | PMIX_STATUS | PMIX_PROC_RANK => {
            Some(4)
        }
        PMIX_SIZE | PMIX_INT64 | PMIX_UINT64 | PMIX_DOUBLE | PMIX_TIME => Some(8),
        _ => None,
    }
}

/// The text in a field of fixed length.
fn text_in(field: &[c_char]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    // SAFETY: bytes with and without a sign are the same bytes.
    unsafe { slice::from_raw_parts(field.as_ptr().cast(), end) }
}

/// # Safety
/// A null pointer, or that many elements, which stay as they are.
unsafe fn all<'a, T>(list: *const T, count: usize) -> &'a [T] {
    if list.is_null() || count == 0 || count > ELEMENTS_MAX {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { slice::from_raw_parts(list, count) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bindings::attributes::{PMIX_GROUP_CONTEXT_ID, PMIX_LOCAL_RANK, PMIX_PARENT_ID, PMIX_WAIT},
        server::infos::Infos,
    };

    #[test]
    fn what_is_written_in_pmixs_layout_is_read_back() {
        let mut infos = Infos::default();
        let parent = Process::new("job.0", 3);
        let port = Value::text("job.0:3");
        let blob = Value::Bytes(vec![0, 1, 255]);
        let large = Value::Number {
            kind: PMIX_UINT64,
            bits: u64::MAX - 1,
        };
        infos.put(PMIX_PARENT_ID, &Value::Process(parent.clone()));
        infos.number(PMIX_LOCAL_RANK, PMIX_UINT16, 7);
        infos.put(c"port", &port);
        infos.put(c"blob", &blob);
        infos.put(c"large", &large);
        infos.number(PMIX_TIMEOUT, PMIX_UINT32, 5);
        let mut moved = infos;
        // SAFETY: a list of its length, which lives to the end of the test.
        let read = unsafe { Attributes::new(moved.as_mut_ptr(), moved.len()) };
        assert_eq!(read.find(PMIX_PARENT_ID).and_then(value), Some(Value::Process(parent)));
        assert_eq!(read.number(PMIX_LOCAL_RANK), Some(7));
        assert_eq!(read.timeout(), Some(Duration::from_secs(5)));
        assert!(read.is_set(PMIX_LOCAL_RANK) && !read.is_set(PMIX_WAIT));
        assert_eq!(read.number(PMIX_GROUP_CONTEXT_ID), None);
        let own = [("port", port), ("blob", blob), ("large", large)];
        let own = own.map(|(key, value)| (key.to_owned(), value)).to_vec();
        assert_eq!(read.own_values(), Ok(own));
    }

    #[test]
    fn a_flag_that_is_false_is_not_set() {
        let mut infos = Infos::default();
        infos.number(PMIX_WAIT, PMIX_BOOL, 0);
        infos.number(PMIX_LOCAL_RANK, PMIX_UINT16, 0);
        // SAFETY: a list of its length, which lives to the end of the test.
        let read = unsafe { Attributes::new(infos.as_mut_ptr(), infos.len()) };
        assert!(!read.is_set(PMIX_WAIT) && read.is_set(PMIX_LOCAL_RANK));
        assert_eq!(read.timeout(), None);
    }

    #[test]
    fn a_value_of_a_type_that_cannot_travel_is_named() {
        let mut infos = Infos::default();
        infos.list(c"nested", Infos::default());
        // SAFETY: a list of its length, which lives to the end of the test.
        let read = unsafe { Attributes::new(infos.as_mut_ptr(), infos.len()) };
        assert_eq!(read.own_values(), Err("nested".to_owned()));
    }
}
