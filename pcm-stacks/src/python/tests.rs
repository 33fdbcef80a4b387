//! Structures of Python planted in a memory of this process, whole and broken.

use super::layout::OF_TESTS as LAYOUT;
use super::memory::{Block, Memory};
use super::walk::{Calls, walk};
use super::{PythonCalls, is_binding, of_old};
use pcm_proto::stack::FRAMES_MAX;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const RUNTIME: u64 = 0x10_0000;
const THREAD: u32 = 77;

/// Addresses of what is planted.
const INTERPRETER: u64 = 0x20_0000;
const STATE: u64 = 0x30_0000;
const HELD: u64 = 0x31_0000;
const CODE_TYPE: u64 = 0x40_0000;
const NAME_OF_TYPE: u64 = 0x41_0000;
const CODES: u64 = 0x50_0000;
const FRAMES: u64 = 0x60_0000;
const OBJECTS: u64 = 0x100_0000;

/// Bytes by address; the rest of a page is zero, the rest of memory is not there.
#[derive(Default)]
struct Planted {
    bytes: BTreeMap<u64, u8>,
    reads: Cell<usize>,
    largest: Cell<usize>,
}

impl Memory for Planted {
    fn read(&self, address: u64, bytes: usize) -> Option<Block> {
        self.reads.set(self.reads.get() + 1);
        self.largest.set(self.largest.get().max(bytes));
        let near = |at: &u64| self.bytes.range(at & !0xfff..=at | 0xfff).next().is_some();
        let addresses = (0..bytes as u64)
            .map_while(|at| address.checked_add(at))
            .take_while(near);
        let read: Vec<u8> = addresses
            .map(|at| self.bytes.get(&at).copied().unwrap_or_default())
            .collect();
        (!read.is_empty()).then(|| Block::new(read))
    }
}

impl Planted {
    fn plant(&mut self, address: u64, bytes: &[u8]) {
        for (at, byte) in bytes.iter().enumerate() {
            self.bytes.insert(address + at as u64, *byte);
        }
    }

    fn set(&mut self, address: u64, value: u64) {
        self.plant(address, &value.to_le_bytes());
    }

    /// A text of characters of such a width; ASCII where that is zero.
    fn text(&mut self, address: u64, text: &str, width: u32) {
        self.set(address + LAYOUT.text_length, text.chars().count() as u64);
        let state = (width.max(1) << 2) | 1 << 5 | u32::from(width == 0) << 6;
        self.plant(address + LAYOUT.text_state, &state.to_le_bytes());
        let begin = address + LAYOUT.text_begin + if width == 0 { 0 } else { 16 };
        for (at, one) in text.chars().enumerate() {
            let width = width.max(1);
            let bytes = u32::from(one).to_le_bytes();
            self.plant(begin + at as u64 * u64::from(width), &bytes[..width as usize]);
        }
    }

    /// A function and its table, in which each code unit is one line further.
    fn code(&mut self, number: u64, file: &str, name: &str, width: u32) {
        let (address, object) = (CODES + number * 0x1000, OBJECTS + number * 0x10_0000);
        self.set(address + LAYOUT.object_type, CODE_TYPE);
        self.set(address + LAYOUT.code_file, object);
        self.set(address + LAYOUT.code_name, object + 0x2_0000);
        self.set(address + LAYOUT.code_lines, object + 0x4_0000);
        self.plant(address + LAYOUT.code_first_line, &100_u32.to_le_bytes());
        self.text(object, file, 0);
        self.text(object + 0x2_0000, name, width);
        let lines = [0x80 | 11 << 3, 1, 1].repeat(20);
        self.set(object + 0x4_0000 + LAYOUT.bytes_count, lines.len() as u64);
        self.plant(object + 0x4_0000 + LAYOUT.bytes_begin, &lines);
    }

    /// A frame of a function at a code unit.
    fn frame(&mut self, number: u64, code: u64, unit: u64, previous: u64) {
        let (address, code) = (FRAMES + number * 0x1000, CODES + code * 0x1000);
        self.set(address + LAYOUT.frame_code, code);
        self.set(address + LAYOUT.frame_previous, previous);
        let instruction = (code + LAYOUT.code_begin).wrapping_add(unit.wrapping_mul(2));
        self.set(address + LAYOUT.frame_instruction, instruction);
        self.plant(address + LAYOUT.frame_owner, &[0]);
    }

    fn calls(&self) -> Result<Calls, String> {
        walk(self, &LAYOUT, RUNTIME, THREAD, Instant::now() + Duration::from_secs(60))
    }

    /// Frames in words.
    fn said(&self) -> Vec<String> {
        let module = "python3.12".to_owned();
        let calls = self.calls().expect("calls");
        let frames = PythonCalls { module, calls }.frames();
        let words = frames.into_iter().map(|frame| {
            let line = frame.line.map_or_else(|| "?".to_owned(), |line| line.to_string());
            format!(
                "{} {}:{line}",
                frame.function.unwrap_or_default(),
                frame.file.unwrap_or_default()
            )
        });
        words.collect()
    }
}

/// An interpreter with two threads, the second of which is in `_barrier` < `solve` < `<module>`.
fn planted() -> Planted {
    let mut memory = Planted::default();
    memory.set(RUNTIME + LAYOUT.interpreters, INTERPRETER);
    memory.set(INTERPRETER + LAYOUT.interpreter_next, 0);
    memory.set(INTERPRETER + LAYOUT.threads, STATE + 0x8000);
    memory.set(STATE + 0x8000 + LAYOUT.thread_next, STATE);
    memory.set(STATE + 0x8000 + LAYOUT.thread_number, 5);
    memory.set(STATE + LAYOUT.thread_next, 0);
    memory.set(STATE + LAYOUT.thread_number, THREAD.into());
    memory.set(STATE + LAYOUT.thread_frame, HELD);
    memory.set(HELD, FRAMES);
    memory.set(CODE_TYPE + LAYOUT.type_name, NAME_OF_TYPE);
    memory.plant(NAME_OF_TYPE, b"code\0");
    memory.code(0, "/env/lib/pcm/_run.py", "_barrier", 0);
    memory.code(1, "/home/user/Übung/solver.py", "Solver.löse", 1);
    memory.code(2, "/home/user/main.py", "<module>", 0);
    memory.frame(0, 0, 2, FRAMES + 0x1000);
    memory.frame(1, 1, 4, FRAMES + 0x2000);
    // One without a function.
    memory.frame(2, 9, 0, FRAMES + 0x3000);
    memory.plant(FRAMES + 0x2000 + LAYOUT.frame_owner, &[3]);
    memory.frame(3, 2, u64::MAX, 0);
    memory
}

#[test]
fn calls_are_read_from_the_line_of_the_program_on() {
    let memory = planted();
    assert_eq!(
        memory.said(),
        [
            "Solver.löse /home/user/\u{dc}bung/solver.py:105",
            "<module> /home/user/main.py:100"
        ]
    );
    assert_eq!(memory.calls().unwrap().end, None);
    assert!(memory.largest.get() < 512);
}

#[test]
fn names_of_each_width_are_read_and_long_ones_keep_their_end() {
    for (width, name) in [(0, "step"), (1, "größe"), (2, "шаг"), (4, "🦀_step"), (0, "")] {
        let mut memory = planted();
        memory.code(1, "/a/b.py", name, width);
        assert_eq!(memory.said()[0], format!("{name} /a/b.py:105"));
    }
    let mut memory = planted();
    memory.code(1, &format!("/{}/b.py", "d".repeat(5000)), "step", 0);
    let calls = memory.calls().unwrap();
    assert_eq!(calls.codes[1].file.len(), 1024);
    assert!(calls.codes[1].file.ends_with("ddd/b.py"));
}

#[test]
fn a_chain_that_leads_into_itself_ends_with_a_note() {
    let mut memory = planted();
    memory.set(FRAMES + 0x3000 + LAYOUT.frame_previous, FRAMES);
    let calls = memory.calls().unwrap();
    assert_eq!(calls.calls.len(), 3);
    assert_eq!(calls.end.as_deref(), Some("Python's data does not make sense"));
    let mut memory = planted();
    memory.set(STATE + LAYOUT.thread_number, 6);
    memory.set(STATE + LAYOUT.thread_next, STATE);
    assert_eq!(memory.calls().unwrap_err(), "Python has more than 256 threads");
    memory.set(INTERPRETER + LAYOUT.threads, 0);
    memory.set(INTERPRETER + LAYOUT.interpreter_next, INTERPRETER);
    assert_eq!(memory.calls().unwrap_err(), "Python has more than 8 interpreters");
    memory.set(INTERPRETER + LAYOUT.interpreter_next, 0);
    assert_eq!(memory.calls().unwrap_err(), "Python does not know the thread");
}

#[test]
fn a_deep_recursion_is_cut_at_its_outer_end() {
    let mut memory = planted();
    for number in 0..500 {
        memory.frame(number, 1, 3, FRAMES + (number + 1) * 0x1000);
    }
    let calls = memory.calls().unwrap();
    assert_eq!((calls.calls.len(), calls.codes.len()), (FRAMES_MAX, 1));
    assert_eq!(calls.end.as_deref(), Some("the stack is too deep to be read wholly"));
}

#[test]
fn what_does_not_make_sense_ends_the_calls_and_allocates_nothing_large() {
    let nonsense = [0, 1, 0x7f, FRAMES + 4, CODES, u64::MAX, u64::MAX - 7, 1 << 47];
    let code = CODES + 0x1000;
    let object = OBJECTS + 0x10_0000;
    let places = [
        RUNTIME + LAYOUT.interpreters,
        INTERPRETER + LAYOUT.threads,
        STATE + LAYOUT.thread_next,
        STATE + LAYOUT.thread_frame,
        HELD,
        FRAMES + 0x1000 + LAYOUT.frame_code,
        FRAMES + 0x1000 + LAYOUT.frame_previous,
        FRAMES + 0x1000 + LAYOUT.frame_instruction,
        FRAMES + 0x1000 + LAYOUT.frame_owner - 6,
        code + LAYOUT.object_type,
        code + LAYOUT.code_file,
        code + LAYOUT.code_name,
        code + LAYOUT.code_lines,
        object + LAYOUT.text_length,
        object + LAYOUT.text_state,
        object + 0x2_0000 + LAYOUT.text_length,
        object + 0x2_0000 + LAYOUT.text_state,
        object + 0x4_0000 + LAYOUT.bytes_count,
        object + 0x4_0000 + LAYOUT.bytes_begin,
    ];
    for place in places {
        for value in nonsense {
            let mut memory = planted();
            memory.set(place, value);
            if let Ok(calls) = memory.calls() {
                let module = String::new();
                PythonCalls { module, calls }.frames();
            }
            assert!(memory.largest.get() <= 64 * 1024, "{place:x} {value:x}");
            assert!(memory.reads.get() < 1000, "{place:x} {value:x}");
        }
    }
    let mut memory = planted();
    memory.set(code + LAYOUT.object_type, CODE_TYPE + 8);
    assert_eq!(memory.calls().unwrap().calls.len(), 1, "no function");
    assert_eq!(
        Planted::default().calls().unwrap_err(),
        "Python's data does not make sense"
    );
}

#[test]
fn time_that_is_over_ends_the_calls() {
    let over = walk(
        &planted(),
        &LAYOUT,
        RUNTIME,
        THREAD,
        Instant::now() - Duration::from_millis(1),
    );
    assert!(over.unwrap_err().contains("within the time"));
}

#[test]
fn files_of_bindings_and_names_of_old_interpreters_are_known() {
    for (file, expected) in [
        ("/env/lib/python3/dist-packages/pcm/_run.py", true),
        ("/env/lib/python3/dist-packages/pcm/__init__.py", true),
        ("/home/user/pcm/solver.py", false),
        ("/home/user/pcm/examples/life/life.py", false),
        ("/env/site-packages/mpi4py/run.py", true),
        ("/env/site-packages/mpi4py/util/pkl5.py", true),
        ("/home/user/mpi4py/demo/ring.py", false),
        ("ring.py", false),
        ("", false),
    ] {
        assert_eq!(is_binding(file), expected, "{file}");
    }
    let old = |minor: u64| Some(format!("Python 3.{minor}: frames of Python 3.11 and newer are read"));
    assert_eq!(of_old("python3.10"), old(10));
    assert_eq!(of_old("libpython3.6m.so.1.0"), old(6));
    for name in ["python3.11", "libpython3.13.so.1.0", "python3", "python2.7", "python"] {
        assert_eq!(of_old(name), None, "{name}");
    }
}
