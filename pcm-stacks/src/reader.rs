//! One process: its threads, read one after another.

use crate::classify::{self, Whose};
use crate::image::Image;
use crate::images::{self, Images};
use crate::lines::Lines;
use crate::python::{self, Interpreter, PythonCalls};
use crate::thread::{self, Copy};
use crate::unwind::{Loaded, Place, Stacks};
use pcm_proto::stack::{FRAMES_MAX, ProcessStack, StackFrame, THREADS_READ_MAX, ThreadStack};
use proc_files::{Mapping, ProcessStat, mappings, program_name, tracer};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, thread as threads};

/// Another who looks at the same process is gone after this time.
const OTHER_LOOKS_MAX: u32 = 20;

/// The kernel's own code in a process is no larger.
const VDSO_BYTES_MAX: u64 = 64 * 1024;

/// Copies of a process's threads, before anything is found out of them.
pub(crate) struct Copied {
    pid: u32,
    state: String,
    maps: Vec<Mapping>,
    threads: Vec<CopiedThread>,
    note: Option<String>,
}

struct CopiedThread {
    id: u32,
    copy: Copy,
    /// Calls of Python functions, or why there are none; none in a process without Python.
    python: Option<Result<PythonCalls, String>>,
}

/// What is left of a process whose copying broke.
pub(crate) fn failed(pid: u32) -> Copied {
    Copied {
        note: Some("its stack could not be copied".to_owned()),
        ..Copied::new(pid)
    }
}

impl Copied {
    fn new(pid: u32) -> Self {
        Self {
            pid,
            state: ProcessStat::of(pid).map_or_else(String::new, |stat| stat.state.to_string()),
            maps: Vec::new(),
            threads: Vec::new(),
            note: None,
        }
    }
}

/// Stops the threads of a process one after another and copies what is needed.
fn copy(pid: u32, images: &mut Images) -> Copied {
    let mut copied = Copied::new(pid);
    if copied.state == "Z" {
        copied.note = Some("the process has ended".to_owned());
        return copied;
    }
    match mappings(pid) {
        Ok(maps) => copied.maps = maps,
        Err(error) => {
            copied.note = Some(refusal(pid, &error));
            return copied;
        }
    }
    let python = Interpreter::find(pid, &copied.maps, images);
    let mut ids: Vec<u32> = proc_files::threads(pid).collect();
    ids.sort_by_key(|thread| (*thread != pid, *thread));
    if ids.len() > THREADS_READ_MAX {
        copied.note = Some(format!("{} of its {} threads were read", THREADS_READ_MAX, ids.len()));
    }
    for id in ids.into_iter().take(THREADS_READ_MAX) {
        match copy_thread(pid, id, &copied.maps, python.as_ref()) {
            Ok(thread) => copied.threads.push(thread),
            Err(error) if id == pid => {
                copied.note = Some(refusal(pid, &error));
                return copied;
            }
            // It has ended meanwhile, or waits in the kernel.
            Err(_) => {}
        }
    }
    copied
}

/// A thread with its Python calls; where these did not come in time, it is tried once more.
fn copy_thread(pid: u32, id: u32, maps: &[Mapping], python: Option<&Interpreter>) -> io::Result<CopiedThread> {
    let first = copy_when_free(pid, id, maps, python)?;
    if first.python.as_ref().is_some_and(python::is_late) {
        return copy_when_free(pid, id, maps, python);
    }
    Ok(first)
}

fn copy_when_free(pid: u32, id: u32, maps: &[Mapping], python: Option<&Interpreter>) -> io::Result<CopiedThread> {
    let copy_once = || thread::copy(pid, id, maps, || python.map(|python| python.copy(id)));
    let mut copy = copy_once();
    for _ in 0..OTHER_LOOKS_MAX {
        let is_refused = matches!(&copy, Err(error) if error.kind() == io::ErrorKind::PermissionDenied);
        if !is_refused || tracer(pid).is_none() {
            break;
        }
        threads::sleep(Duration::from_millis(1));
        copy = copy_once();
    }
    copy.map(|(copy, python)| CopiedThread { id, copy, python })
}

/// Why a process cannot be read, and what to do.
fn refusal(pid: u32, error: &io::Error) -> String {
    if let Some(tracer) = tracer(pid) {
        let name = program_name(tracer).unwrap_or_default();
        return format!("process {tracer} ({name}) traces it: end that one to see the stack");
    }
    match error.kind() {
        io::ErrorKind::NotFound => "the process has ended".to_owned(),
        io::ErrorKind::TimedOut => "it waits in the kernel and cannot be stopped".to_owned(),
        io::ErrorKind::PermissionDenied => {
            let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
            match scope.trim() {
                "" | "0" => "the kernel does not let the daemon trace it: another user's process, one with more \
                             rights, or a container without ptrace"
                    .to_owned(),
                scope => format!("kernel.yama.ptrace_scope is {scope}, which forbids to trace it"),
            }
        }
        _ if error.raw_os_error() == Some(libc::ESRCH) => "the process has ended".to_owned(),
        _ => format!("its stack cannot be read: {error}"),
    }
}

/// Finds out what copies show; keeps what it knows of files.
#[derive(Default)]
pub(crate) struct Reader {
    images: Images,
    lines: Lines,
}

impl Reader {
    pub(crate) fn copy(&mut self, pid: u32) -> Copied {
        copy(pid, &mut self.images)
    }

    pub(crate) fn read(&mut self, copied: Copied) -> ProcessStack {
        let (loaded, problem) = self.loaded(&copied);
        let mut stacks = Stacks::new(&loaded);
        let stopped = copied
            .threads
            .iter()
            .map(|thread| thread.copy.stopped)
            .max()
            .unwrap_or_default();
        let mut read = Vec::new();
        for CopiedThread { id, copy, python } in &copied.threads {
            let (places, end) = stacks.frames(copy);
            let mut thread = self.thread(&loaded, &places, end, python.as_ref());
            thread.thread = *id;
            thread.is_main = *id == copied.pid;
            if thread.is_main || thread.is_interpreted || !thread.frames.is_empty() {
                read.push(thread);
            }
        }
        ProcessStack {
            state: copied.state,
            stopped_us: u32::try_from(stopped.as_micros()).unwrap_or(u32::MAX),
            threads: read,
            note: copied.note.or(problem),
        }
    }

    /// The files with code in a process, and what is wrong with one of them.
    fn loaded(&mut self, copied: &Copied) -> (Vec<Loaded>, Option<String>) {
        let (mut loaded, mut problem) = (Vec::new(), None);
        for map in copied
            .maps
            .iter()
            .filter(|map| map.is_executable && !map.path.is_empty())
        {
            let name = map.path.rsplit('/').next().unwrap_or_default().to_owned();
            let path = (map.inode > 0).then(|| images::path(copied.pid, map));
            let image = match &path {
                Some(_) => self.images.open(copied.pid, map),
                None if map.path == "[vdso]" => vdso(copied.pid, map),
                None => continue,
            };
            match image {
                Ok(image) => {
                    if let Some(bias) = image.bias(map.start, map.offset) {
                        let addresses = map.start..map.end;
                        loaded.push(Loaded {
                            name,
                            path,
                            addresses,
                            bias,
                            image,
                        });
                    }
                }
                Err(reason) => problem = Some(format!("{name}: {reason}")),
            }
        }
        (loaded, problem)
    }

    fn thread(
        &mut self,
        loaded: &[Loaded],
        places: &[Place],
        end: Option<String>,
        python: Option<&Result<PythonCalls, String>>,
    ) -> ThreadStack {
        let mut thread = ThreadStack {
            note: end,
            ..ThreadStack::default()
        };
        let frames = self.native(loaded, places);
        let has_interpreter = frames.iter().any(|(whose, _)| *whose == Whose::Interpreter);
        if has_interpreter {
            thread.note = None;
        }
        let inner = frames
            .iter()
            .take_while(|(whose, _)| *whose != Whose::Program && *whose != Whose::Interpreter);
        thread.is_in_mpi = inner.clone().any(|(whose, _)| *whose == Whose::Mpi);
        let own = frames.into_iter().take_while(|(whose, _)| *whose != Whose::Interpreter);
        let own = own
            .filter(|(whose, _)| *whose == Whose::Program)
            .map(|(_, frame)| frame);
        thread.frames = own.take(FRAMES_MAX).collect();
        let is_nameless = |frame: &StackFrame| frame.line.is_none();
        if thread.note.is_none() && thread.frames.first().is_some_and(is_nameless) {
            let module = &thread.frames[0].module;
            thread.note = Some(format!(
                "{module} has no debug information: compile with -g to see lines"
            ));
        }
        add_python(&mut thread, has_interpreter, python);
        thread
    }

    /// All frames of compiled code and whose they are, innermost first.
    fn native(&mut self, loaded: &[Loaded], places: &[Place]) -> Vec<(Whose, StackFrame)> {
        let mut frames = Vec::new();
        for place in places {
            let file = &loaded[place.module];
            let whose = classify::of_file(&file.name, file.path.as_deref());
            if whose != Whose::Program {
                frames.push((whose, StackFrame::default()));
                continue;
            }
            let found = self.lines.at(file, place.address).into_iter();
            frames.extend(found.map(|frame| {
                let whose = |name: &str| classify::of_function(name, frame.file.as_deref());
                (frame.function.as_deref().map_or(Whose::Program, whose), frame)
            }));
        }
        frames
    }
}

/// Adds what was read of Python outside of the frames of compiled code. Python knows its threads, so that its calls are
/// right also where the stack itself could not be followed up to them.
fn add_python(thread: &mut ThreadStack, has_interpreter: bool, python: Option<&Result<PythonCalls, String>>) {
    match python {
        Some(Ok(calls)) => {
            thread.frames.extend(calls.frames());
            thread.frames.truncate(FRAMES_MAX);
            if thread.note.is_none() {
                let nothing = thread
                    .frames
                    .is_empty()
                    .then_some("Python runs no function of the program");
                thread.note = calls.end().or(nothing).map(str::to_owned);
            }
        }
        _ if !has_interpreter => {}
        other => {
            let reason = match other {
                Some(Err(reason)) => reason,
                _ => "Python frames are not read",
            };
            thread.is_interpreted = true;
            thread.note = Some(format!("{reason}: what is shown is below the interpreter"));
        }
    }
}

fn vdso(pid: u32, map: &Mapping) -> Result<Arc<Image>, String> {
    let bytes = (map.end - map.start).min(VDSO_BYTES_MAX) as usize;
    let pid = libc::pid_t::try_from(pid).map_err(|error| error.to_string())?;
    let copy = thread::memory(pid, map.start, bytes).and_then(Image::of_copy);
    copy.map(Arc::new).map_err(|error| error.to_string())
}
