//! Calls of Python functions in progress, read from the memory of a process: CPython 3.11 to 3.13. All that has to be
//! known before a thread is stopped is found first; while it is stopped names and tables are copied, and lines are
//! looked up afterwards.

mod layout;
mod line_table;
mod memory;
mod walk;

#[cfg(test)]
mod tests;

use crate::classify;
use crate::images::Images;
use layout::{Layout, OFFSETS_BYTES};
use libc::pid_t;
use memory::{Memory, Process};
use pcm_proto::stack::StackFrame;
use proc_files::Mapping;
use std::time::{Duration, Instant};

/// Longest time for which a stopped thread waits for its calls to be copied.
const COPIED_WITHIN: Duration = Duration::from_millis(1);

/// Symbols of CPython: its state, and from 3.11 on its version.
const RUNTIME: &str = "_PyRuntime";
const VERSION: &str = "Py_Version";

/// The interpreter in a process.
#[derive(Debug)]
pub(crate) struct Interpreter {
    process: Process,
    /// File name of the program or library.
    module: String,
    /// Where its state lies and how that is laid out, or why that is not known.
    state: Result<(u64, Layout), String>,
}

/// What was copied of one thread.
#[derive(Debug)]
pub(crate) struct PythonCalls {
    module: String,
    calls: walk::Calls,
}

impl Interpreter {
    /// The interpreter among the files of a process.
    pub(crate) fn find(pid: u32, maps: &[Mapping], images: &mut Images) -> Option<Self> {
        let process = Process(pid_t::try_from(pid).ok()?);
        let mut found: Option<Self> = None;
        // The program of Python may be a small one, with all that counts in a library.
        for map in maps.iter().filter(|map| map.is_executable && map.inode > 0) {
            let module = map.path.rsplit('/').next().unwrap_or_default();
            if !classify::is_python(module) || found.as_ref().is_some_and(|found| found.state.is_ok()) {
                continue;
            }
            let state = state(process, pid, map, images).map_err(|reason| of_old(module).unwrap_or(reason));
            found = Some(Self {
                process,
                module: module.to_owned(),
                state,
            });
        }
        found
    }

    /// Copies the calls of a thread that is stopped; why that was not possible otherwise.
    pub(crate) fn copy(&self, thread: u32) -> Result<PythonCalls, String> {
        let (runtime, layout) = self.state.as_ref().map_err(String::clone)?;
        let until = Instant::now() + COPIED_WITHIN;
        let calls = walk::walk(&self.process, layout, *runtime, thread, until)?;
        let module = self.module.clone();
        Ok(PythonCalls { module, calls })
    }
}

/// Where an interpreter's state lies.
fn state(process: Process, pid: u32, map: &Mapping, images: &mut Images) -> Result<(u64, Layout), String> {
    let name = map.path.rsplit('/').next().unwrap_or_default();
    let image = images.open(pid, map).map_err(|reason| format!("{name}: {reason}"))?;
    let address = |symbol: &str| {
        let bias = image.bias(map.start, map.offset)?;
        Some(image.symbol(symbol)?.wrapping_add(bias))
    };
    let nameless = || format!("{name} has no symbol {RUNTIME}");
    let (runtime, version) = address(RUNTIME).zip(address(VERSION)).ok_or_else(nameless)?;
    let unread = || format!("{name} cannot be read in memory");
    let version = process.word(version).ok_or_else(unread)?;
    let begin = process.read(runtime, OFFSETS_BYTES).ok_or_else(unread)?;
    Ok((runtime, layout::layout(version, &begin)?))
}

/// What there is to say of a file whose name has a version that is too old: python3.10, libpython3.6m.so.
fn of_old(module: &str) -> Option<String> {
    let rest = module.strip_prefix("lib").unwrap_or(module).strip_prefix("python")?;
    let (major, rest) = rest.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let minor = minor.parse().ok().filter(|minor| major == "3" && *minor < 11)?;
    Some(layout::other_version(minor))
}

/// Whether the time was over before all was copied: this process did not get a CPU, as a rule, so that the next try may
/// succeed.
pub(crate) fn is_late(read: &Result<PythonCalls, String>) -> bool {
    let reason = match read {
        Ok(calls) => calls.end(),
        Err(reason) => Some(reason.as_str()),
    };
    reason == Some(walk::TOO_LATE)
}

impl PythonCalls {
    /// Frames of the program, innermost first, from the line on that called MPI or this library.
    pub(crate) fn frames(&self) -> Vec<StackFrame> {
        let frame = |call: &walk::Call| {
            let code = &self.calls.codes[call.code];
            StackFrame {
                function: Some(code.name.clone()).filter(|name| !name.is_empty()),
                file: Some(code.file.clone()).filter(|file| !file.is_empty()),
                line: line_table::line(&code.lines, code.first_line, call.unit),
                module: self.module.clone(),
            }
        };
        let calls = self.calls.calls.iter();
        // What is within Python itself has no file: `<frozen runpy>`.
        let calls = calls.filter(|call| !self.calls.codes[call.code].file.starts_with("<frozen "));
        let calls = calls.skip_while(|call| is_binding(&self.calls.codes[call.code].file));
        calls.map(frame).collect()
    }

    /// Why they end before the outermost one, if they do.
    pub(crate) fn end(&self) -> Option<&str> {
        self.calls.end.as_deref()
    }
}

/// Whether a file belongs to mpi4py or to the package `pcm`.
fn is_binding(file: &str) -> bool {
    let mut names = file.rsplit('/');
    let (name, folder, above) = (names.next(), names.next(), names.next());
    match folder {
        Some("pcm") => name.is_some_and(|name| name.starts_with('_')),
        Some("mpi4py") => true,
        Some("futures" | "util") => above == Some("mpi4py"),
        _ => false,
    }
}
