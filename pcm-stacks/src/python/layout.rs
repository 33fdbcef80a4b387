//! Where fields lie in CPython's structures. Python 3.13 says so itself; for 3.11 and 3.12 there are tables.

use super::memory::Block;

/// Distances of fields from the beginning of their structure, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// In the runtime: the first interpreter.
    pub(super) interpreters: u64,
    pub(super) interpreter_next: u64,
    /// In an interpreter: its first thread.
    pub(super) threads: u64,
    pub(super) thread_next: u64,
    /// The kernel's number of a thread.
    pub(super) thread_number: u64,
    /// In a thread: its innermost frame, or what holds that.
    pub(super) thread_frame: u64,
    /// In what a thread holds instead: the innermost frame.
    pub(super) frame_held: Option<u64>,
    pub(super) frame_code: u64,
    pub(super) frame_previous: u64,
    pub(super) frame_instruction: u64,
    pub(super) frame_owner: u64,
    pub(super) code_file: u64,
    pub(super) code_name: u64,
    pub(super) code_first_line: u64,
    pub(super) code_lines: u64,
    /// The first instruction, in the structure itself.
    pub(super) code_begin: u64,
    pub(super) object_type: u64,
    pub(super) type_name: u64,
    pub(super) bytes_count: u64,
    pub(super) bytes_begin: u64,
    pub(super) text_length: u64,
    pub(super) text_state: u64,
    /// Bytes before the characters of a text that is ASCII.
    pub(super) text_begin: u64,
}

/// Of 3.11 on x86-64, as a C program that includes `internal/pycore_runtime.h`, `pycore_interp.h` and `pycore_frame.h`
/// of 3.11.7 prints them with `offsetof`: `_PyRuntimeState`, `PyInterpreterState`, `PyThreadState` with `_PyCFrame`,
/// `_PyInterpreterFrame`, `PyCodeObject`, `PyBytesObject` and `PyASCIIObject`.
const OF_3_11: Layout = Layout {
    interpreters: 40,
    interpreter_next: 0,
    threads: 16,
    thread_next: 8,
    thread_number: 160,
    thread_frame: 56,
    frame_held: Some(8),
    frame_code: 32,
    frame_previous: 48,
    frame_instruction: 56,
    frame_owner: 69,
    code_file: 112,
    code_name: 128,
    code_first_line: 72,
    code_lines: 136,
    code_begin: 184,
    object_type: 8,
    type_name: 24,
    bytes_count: 16,
    bytes_begin: 32,
    text_length: 16,
    text_state: 32,
    text_begin: 48,
};

/// Of 3.12, found in the same way from the headers of 3.12.1.
const OF_3_12: Layout = Layout {
    threads: 72,
    thread_number: 144,
    frame_held: Some(0),
    frame_code: 0,
    frame_previous: 8,
    frame_owner: 70,
    code_first_line: 68,
    code_begin: 192,
    text_begin: 40,
    ..OF_3_11
};

/// Bytes at the beginning of the runtime of Python 3.13 that say where fields lie: `_Py_DebugOffsets` in
/// `internal/pycore_runtime.h`.
pub(super) const OFFSETS_BYTES: usize = 584;

const COOKIE: &[u8] = b"xdebugpy";

/// Runtime and interpreters are large, all else is small.
const LARGE_MAX: u64 = 1 << 20;
const SMALL_MAX: u64 = 1 << 11;

/// A version as `Py_Version` has it: a byte each for 3 and 11, then the rest.
pub(super) fn minor(version: u64) -> Option<u64> {
    (version >> 24 == 3).then_some(version >> 16 & 0xff)
}

/// The layout of a version, and for a person why there is none. `begin` are the first bytes of the runtime.
pub(super) fn layout(version: u64, begin: &Block) -> Result<Layout, String> {
    match minor(version) {
        Some(11) => Ok(OF_3_11),
        Some(12) => Ok(OF_3_12),
        Some(13) => stated(begin)
            .filter(is_likely)
            .ok_or_else(|| "Python 3.13 does not say where its frames are".to_owned()),
        Some(other) => Err(other_version(other)),
        None => Err("a Python of an unknown version: frames of Python 3.11 to 3.13 are read".to_owned()),
    }
}

/// Why frames of Python 3.N are not read.
pub(super) fn other_version(minor: u64) -> String {
    if minor < 11 {
        format!("Python 3.{minor}: frames of Python 3.11 and newer are read")
    } else {
        format!("Python 3.{minor}: frames of Python 3.11 to 3.13 are read")
    }
}

/// What Python 3.13 says, in its order: numbers of 8 bytes.
fn stated(begin: &Block) -> Option<Layout> {
    if begin.bytes(0, COOKIE.len())? != COOKIE {
        return None;
    }
    let at = |position: u64| begin.word(position * 8);
    Some(Layout {
        interpreters: at(5)?,
        interpreter_next: at(8)?,
        threads: at(9)?,
        thread_next: at(21)?,
        thread_frame: at(23)?,
        frame_held: None,
        thread_number: at(25)?,
        frame_previous: at(29)?,
        frame_code: at(30)?,
        frame_instruction: at(31)?,
        frame_owner: at(33)?,
        code_file: at(35)?,
        code_name: at(37)?,
        code_lines: at(38)?,
        code_first_line: at(39)?,
        code_begin: at(43)?,
        object_type: at(45)?,
        type_name: at(47)?,
        bytes_count: at(65)?,
        bytes_begin: at(66)?,
        text_state: at(68)?,
        text_length: at(69)?,
        text_begin: at(70)?,
    })
}

/// Whether all distances can be ones.
fn is_likely(layout: &Layout) -> bool {
    let large = [layout.interpreters, layout.interpreter_next, layout.threads];
    let small = [
        layout.thread_next,
        layout.thread_frame,
        layout.thread_number,
        layout.frame_previous,
        layout.frame_code,
        layout.frame_instruction,
        layout.frame_owner,
        layout.code_file,
        layout.code_name,
        layout.code_lines,
        layout.code_first_line,
        layout.code_begin,
        layout.object_type,
        layout.type_name,
        layout.bytes_count,
        layout.bytes_begin,
        layout.text_state,
        layout.text_length,
        layout.text_begin,
    ];
    large.iter().all(|one| *one <= LARGE_MAX) && small.iter().all(|one| *one <= SMALL_MAX)
}

#[cfg(test)]
pub(super) const OF_TESTS: Layout = OF_3_12;

#[cfg(test)]
mod tests {
    use super::*;

    /// What 3.13.0 says, as far as it is read.
    fn of_3_13() -> Vec<u8> {
        let mut words = [0_u64; OFFSETS_BYTES / 8];
        words[0] = u64::from_le_bytes(*b"xdebugpy");
        let said = [
            (5, 632),
            (8, 7264),
            (9, 7344),
            (21, 8),
            (23, 72),
            (25, 160),
            (29, 8),
            (31, 56),
            (33, 70),
            (35, 112),
            (36, 120),
            (37, 128),
            (38, 136),
            (39, 68),
            (43, 200),
            (45, 8),
            (47, 24),
            (65, 16),
            (66, 32),
            (68, 32),
            (69, 16),
            (70, 40),
        ];
        for (at, value) in said {
            words[at] = value;
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn each_version_has_its_layout_or_a_reason() {
        let nothing = Block::default();
        assert_eq!(layout(0x030b_07f0, &nothing), Ok(OF_3_11));
        assert_eq!(layout(0x030c_01f0, &nothing), Ok(OF_3_12));
        let own = layout(0x030d_00f0, &Block::new(of_3_13())).unwrap();
        let expected = Layout {
            interpreters: 632,
            interpreter_next: 7264,
            threads: 7344,
            thread_frame: 72,
            frame_held: None,
            thread_number: 160,
            code_begin: 200,
            ..OF_3_12
        };
        assert_eq!(own, expected);
        for (version, text) in [
            (0x030a_0df0, "Python 3.10: frames of Python 3.11 and newer are read"),
            (0x030e_00f0, "Python 3.14: frames of Python 3.11 to 3.13 are read"),
            (0x030d_00f0, "Python 3.13 does not say where its frames are"),
        ] {
            assert_eq!(layout(version, &nothing).unwrap_err(), text);
        }
        assert!(layout(u64::MAX, &nothing).is_err());
    }

    #[test]
    fn a_layout_that_is_garbage_is_refused() {
        let mut begin = of_3_13();
        begin[31 * 8 + 6] = 1;
        assert!(layout(0x030d_00f0, &Block::new(begin)).is_err());
        let mut begin = of_3_13();
        begin[0] = 0;
        assert!(layout(0x030d_00f0, &Block::new(begin)).is_err());
        assert!(layout(0x030d_00f0, &Block::new(of_3_13()[..400].to_vec())).is_err());
    }
}
