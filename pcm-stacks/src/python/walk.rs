//! The way from an interpreter to the calls in progress of one thread, through the memory of a process that may hold
//! anything: each chain and each size has an end of its own.

use super::layout::Layout;
use super::memory::{Block, Memory};
use pcm_proto::stack::FRAMES_MAX;
use std::time::Instant;

/// Most interpreters of a process that are looked at, and threads of all of them.
const INTERPRETERS_MAX: usize = 8;
const THREADS_MAX: usize = 256;

/// Most frames that are looked at, those without a function included.
const STEPS_MAX: usize = 2 * FRAMES_MAX;

/// Most characters of a file's or a function's name; of a longer one the end is kept.
const NAME_MAX: u64 = 1024;

/// A name that is longer than this is none.
const NAME_LIKELY_MAX: u64 = 1 << 20;

/// Characters that are read together with what stands before them.
const NAME_AHEAD: u64 = 128;

/// Most bytes of a table of lines.
const LINES_BYTES_MAX: u64 = 64 * 1024;

/// Owners of frames: a thread, a generator, a frame object; the interpreter itself has frames without a function.
const OWNER_OF_FUNCTIONS_MAX: u8 = 2;
const OWNER_INTERPRETER: u8 = 3;

const NONSENSE: &str = "Python's data does not make sense";
pub(super) const TOO_LATE: &str = "Python's data could not be read within the time for which a thread is stopped";
const TOO_DEEP: &str = "the stack is too deep to be read wholly";

/// A copy of what a function is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) file: String,
    pub(super) name: String,
    pub(super) first_line: i32,
    pub(super) lines: Vec<u8>,
    /// Address of its first instruction.
    begin: u64,
}

/// A call in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// Number of the function among those copied.
    pub(super) code: usize,
    /// Number of the code unit that runs; below zero before the first one.
    pub(super) unit: i64,
}

/// What was copied of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Calls {
    /// From the innermost one outwards.
    pub(super) calls: Vec<Call>,
    pub(super) codes: Vec<Code>,
    /// Why they end before the outermost one, if they do.
    pub(super) end: Option<String>,
}

/// Copies the calls of the thread with this number; why that was not possible otherwise.
pub(super) fn walk(
    memory: &impl Memory,
    layout: &Layout,
    runtime: u64,
    thread: u32,
    until: Instant,
) -> Result<Calls, String> {
    let mut walk = Walk {
        memory,
        layout,
        until,
        code_type: None,
        begins: Vec::new(),
        found: Calls::default(),
    };
    let state = walk.thread(runtime, thread)?;
    let frame = walk.innermost(state).ok_or(NONSENSE)?;
    walk.found.end = walk.calls(frame).err().map(str::to_owned);
    match walk.found.end {
        Some(reason) if walk.found.calls.is_empty() => Err(reason),
        _ => Ok(walk.found),
    }
}

struct Walk<'a, M> {
    memory: &'a M,
    layout: &'a Layout,
    until: Instant,
    /// The type that functions have, once it was seen.
    code_type: Option<u64>,
    /// Addresses of the functions copied.
    begins: Vec<u64>,
    found: Calls,
}

impl<M: Memory> Walk<'_, M> {
    /// The address of a thread's state.
    fn thread(&self, runtime: u64, number: u32) -> Result<u64, String> {
        let layout = self.layout;
        let word = |address: u64, at: u64| self.memory.word(address.wrapping_add(at)).ok_or(NONSENSE);
        let mut interpreter = word(runtime, layout.interpreters)?;
        let mut count = 0;
        for _ in 0..INTERPRETERS_MAX {
            if interpreter == 0 {
                return Err("Python does not know the thread".to_owned());
            }
            let mut thread = word(interpreter, layout.threads)?;
            while thread != 0 {
                count += 1;
                if count > THREADS_MAX {
                    return Err(format!("Python has more than {THREADS_MAX} threads"));
                }
                self.in_time()?;
                let state = self.block(thread, &[layout.thread_next, layout.thread_number]);
                let state = state.ok_or(NONSENSE)?;
                if state.word(layout.thread_number) == Some(u64::from(number)) {
                    return Ok(thread);
                }
                thread = state.word(layout.thread_next).ok_or(NONSENSE)?;
            }
            interpreter = word(interpreter, layout.interpreter_next)?;
        }
        Err(format!("Python has more than {INTERPRETERS_MAX} interpreters"))
    }

    fn in_time(&self) -> Result<(), &'static str> {
        if Instant::now() > self.until {
            Err(TOO_LATE)
        } else {
            Ok(())
        }
    }

    /// Fields of a structure, as words.
    fn block(&self, address: u64, fields: &[u64]) -> Option<Block> {
        let bytes = fields.iter().max()? + 8;
        self.memory.read(address, usize::try_from(bytes).ok()?)
    }

    /// The address of a thread's innermost frame; 0 where no function runs.
    fn innermost(&self, state: u64) -> Option<u64> {
        let frame = self.memory.word(state.wrapping_add(self.layout.thread_frame))?;
        match self.layout.frame_held {
            Some(at) if frame != 0 => self.memory.word(frame.wrapping_add(at)),
            _ => Some(frame),
        }
    }

    /// Copies calls from a frame outwards; why they end early, if they do.
    fn calls(&mut self, innermost: u64) -> Result<(), &'static str> {
        let mut seen = Vec::new();
        let mut frame = innermost;
        while frame != 0 {
            if seen.len() == STEPS_MAX || self.found.calls.len() == FRAMES_MAX {
                return Err(TOO_DEEP);
            }
            self.in_time()?;
            if seen.contains(&frame) {
                return Err(NONSENSE);
            }
            seen.push(frame);
            frame = self.call(frame).ok_or(NONSENSE)?;
        }
        Ok(())
    }

    /// Copies the call of a frame; the address of the frame that called it.
    fn call(&mut self, address: u64) -> Option<u64> {
        let layout = self.layout;
        let fields = [
            layout.frame_code,
            layout.frame_previous,
            layout.frame_instruction,
            layout.frame_owner,
        ];
        let frame = self.block(address, &fields)?;
        let previous = frame.word(layout.frame_previous)?;
        match frame.byte(layout.frame_owner)? {
            ..=OWNER_OF_FUNCTIONS_MAX => {}
            OWNER_INTERPRETER => return Some(previous),
            _ => return None,
        }
        let code = self.code(frame.word(layout.frame_code)?)?;
        let instruction = frame.word(layout.frame_instruction)?;
        // A code unit has two bytes.
        let unit = instruction.wrapping_sub(self.found.codes[code].begin).cast_signed() / 2;
        self.found.calls.push(Call { code, unit });
        Some(previous)
    }

    /// The number of a function among those copied; copies it if it is new.
    fn code(&mut self, address: u64) -> Option<usize> {
        if let Some(position) = self.begins.iter().position(|begin| *begin == address) {
            return Some(position);
        }
        let layout = self.layout;
        let fields = [
            layout.object_type,
            layout.code_file,
            layout.code_name,
            layout.code_lines,
            layout.code_first_line,
        ];
        let object = self.block(address, &fields)?;
        self.assert_code(object.word(layout.object_type)?)?;
        let code = Code {
            file: self.text(object.word(layout.code_file)?)?,
            name: self.text(object.word(layout.code_name)?)?,
            first_line: object.half_word(layout.code_first_line)?.cast_signed(),
            lines: self.bytes(object.word(layout.code_lines)?)?,
            begin: address.wrapping_add(layout.code_begin),
        };
        self.begins.push(address);
        self.found.codes.push(code);
        Some(self.found.codes.len() - 1)
    }

    /// None if a type is not the one of functions' code.
    fn assert_code(&mut self, kind: u64) -> Option<()> {
        const NAME: &[u8] = b"code\0";
        if self.code_type.is_none() {
            let name = self.memory.word(kind.wrapping_add(self.layout.type_name))?;
            let name = self.memory.read(name, NAME.len())?;
            self.code_type = (name.bytes(0, NAME.len()) == Some(NAME)).then_some(kind);
        }
        (self.code_type == Some(kind)).then_some(())
    }

    /// A `bytes` object, or its beginning.
    fn bytes(&self, address: u64) -> Option<Vec<u8>> {
        let count = self.memory.word(address.wrapping_add(self.layout.bytes_count))?;
        let count = usize::try_from(count.min(LINES_BYTES_MAX)).ok()?;
        if count == 0 {
            return Some(Vec::new());
        }
        let begin = address.wrapping_add(self.layout.bytes_begin);
        Some(self.memory.read(begin, count)?.into_bytes())
    }

    /// A `str` object, or its end. The state says how wide characters are (bits 2 to 4), and whether they stand in the
    /// object (bit 5) and are ASCII only (bit 6); others have two more words before them.
    fn text(&self, address: u64) -> Option<String> {
        let layout = self.layout;
        let ahead = layout.text_begin + 16 + NAME_AHEAD;
        let head = self.memory.read(address, usize::try_from(ahead).ok()?)?;
        let state = head.half_word(layout.text_state)?;
        let (width, is_inside, is_ascii) = (state >> 2 & 7, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
        let width = u64::from(width);
        let length = head.word(layout.text_length)?;
        if !is_inside || ![1, 2, 4].contains(&width) || (is_ascii && width != 1) || length > NAME_LIKELY_MAX {
            return None;
        }
        let at = layout.text_begin + if is_ascii { 0 } else { 16 };
        let kept = length.min(NAME_MAX);
        let count = usize::try_from(kept * width).ok()?;
        if count == 0 {
            return Some(String::new());
        }
        if kept == length
            && let Some(bytes) = head.bytes(at, count)
        {
            return decoded(bytes, width);
        }
        let begin = address.wrapping_add(at + (length - kept) * width);
        decoded(self.memory.read(begin, count)?.bytes(0, count)?, width)
    }
}

/// Characters of one, two or four bytes each; none if one of them is no character.
fn decoded(bytes: &[u8], width: u64) -> Option<String> {
    let character = |bytes: &[u8]| {
        let mut word = [0_u8; 4];
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        // Bytes of a path that are no UTF-8 stand as halves of pairs.
        let number = u32::from_le_bytes(word);
        let is_half = (0xd800..0xe000).contains(&number);
        char::from_u32(if is_half { 0xfffd } else { number }).filter(|one| !one.is_control())
    };
    bytes.chunks(usize::try_from(width).ok()?).map(character).collect()
}
