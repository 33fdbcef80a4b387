//! Where one rank is, in words. What two looks do not agree on is not said.

use pcm_proto::stack::{ProcessStack, StackFrame, ThreadStack};

/// Frames above the innermost one in which two looks may differ for a place to be named still.
const DIFFERENCE_MAX: usize = 64;

/// `exchange() heat2d.c:88`, or as much of it as is known.
pub fn frame_words(frame: &StackFrame) -> String {
    let function = match &frame.function {
        // Lines of a Python file outside of all functions.
        Some(name) if name == "<module>" => name.clone(),
        Some(name) => format!("{name}()"),
        None => "a function without a name".to_owned(),
    };
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{function} {}:{line}", base(file)),
        (Some(file), None) => format!("{function} {}", base(file)),
        (None, _) => format!("{function} of {}", frame.module),
    }
}

/// Whether a function is of the library that comes with Python.
fn is_of_python(frame: &StackFrame) -> bool {
    let file = frame.file.as_deref().unwrap_or_default();
    let below = file.split_once("/lib/python3").map(|(_, below)| below);
    below.is_some_and(|below| !below.contains("/site-packages/") && !below.contains("/dist-packages/"))
        || file.starts_with("<frozen ")
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The thread that a rank's story is about: the one in MPI where it is in a call, else the main one.
pub(super) fn thread(stack: &ProcessStack, is_in_call: bool) -> Option<&ThreadStack> {
    let mut in_mpi = stack.threads.iter().filter(|thread| thread.is_in_mpi);
    let main = stack.threads.iter().find(|thread| thread.is_main);
    if !is_in_call || main.is_some_and(|main| main.is_in_mpi) {
        return main;
    }
    match (in_mpi.next(), in_mpi.next()) {
        (Some(one), None) => Some(one),
        // Which of several is meant cannot be told.
        (Some(_), Some(_)) => None,
        (None, _) => main,
    }
}

/// Where a rank was at both looks; none where that cannot be said.
pub(super) fn place(first: Option<&ProcessStack>, second: &ProcessStack, is_in_call: bool) -> Option<String> {
    let now = thread(second, is_in_call)?;
    let before = thread(first?, is_in_call)?;
    // Frames below an interpreter are not where the program is; its own ones were not read.
    if now.is_interpreted || before.is_interpreted || (is_in_call && !now.is_in_mpi) {
        return None;
    }
    if now.thread == before.thread && now.frames == before.frames {
        let inner = now.frames.first()?;
        return Some(place_words(inner, now.frames.get(1..).unwrap_or_default()));
    }
    // The outermost frames are common; the innermost of them may stand at another line now.
    let pairs = now.frames.iter().rev().zip(before.frames.iter().rev());
    let mut common: Vec<StackFrame> = Vec::new();
    for (one, other) in pairs.take(DIFFERENCE_MAX) {
        let is_same_function = one.function.is_some() && one.function == other.function && one.file == other.file;
        if !is_same_function || one.module != other.module {
            break;
        }
        common.push(StackFrame {
            line: one.line.filter(|_| one.line == other.line),
            ..one.clone()
        });
        if one.line != other.line {
            break;
        }
    }
    common.reverse();
    let (inner, outer) = common.split_first()?;
    Some(place_words(inner, outer))
}

/// A frame in words; if its source is not known, or is Python's own, also its caller in the program.
fn place_words(inner: &StackFrame, outer: &[StackFrame]) -> String {
    let caller = outer.iter().find(|frame| frame.file.is_some() && !is_of_python(frame));
    match caller.filter(|_| inner.file.is_none() || is_of_python(inner)) {
        Some(caller) => format!("{}, called by {}", frame_words(inner), frame_words(caller)),
        None => frame_words(inner),
    }
}

/// What a process does as the kernel sees it, where that is worth a word.
pub(super) fn state_words(stack: &ProcessStack) -> Option<&'static str> {
    match stack.state.as_str() {
        "T" => Some("stopped by a signal such as SIGSTOP"),
        "t" => Some("stopped by a debugger"),
        "D" => Some("waiting in the kernel, mostly for a disk"),
        "Z" => Some("ended"),
        _ => None,
    }
}
