//! The process that reads stacks for a daemon: whatever it meets in a program's files, and however long it takes, the
//! daemon goes on. It reads process ids from a line of standard input and prints one line of JSON for each.

#![allow(unsafe_code, reason = "limits of this process")]

use crate::reader::{self, Copied, Reader};
use pcm_proto::stack::ProcessStack;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use std::thread;

/// After so many seconds the kernel ends it.
const SECONDS_MAX: u32 = 3;

/// Most memory that it may take of its own, in bytes: enough for the lines of programs of 1 GiB.
const MEMORY_BYTES_MAX: u64 = 2 << 30;

/// What was read of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    pub pid: u32,
    pub stack: ProcessStack,
}

/// Reads the stacks that standard input names; the exit code.
pub fn run() -> i32 {
    let limit = libc::rlimit {
        rlim_cur: MEMORY_BYTES_MAX,
        rlim_max: MEMORY_BYTES_MAX,
    };
    // SAFETY: two system calls on numbers and on memory of this function.
    unsafe {
        libc::alarm(SECONDS_MAX);
        libc::setrlimit(libc::RLIMIT_DATA, &raw const limit);
    }
    match answer() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("pcm-daemon stacks: {error}");
            1
        }
    }
}

fn answer() -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let pids: Vec<u32> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // All are copied before the first is thought about, so that they are seen at the same time.
    let mut reader = Reader::default();
    let copies: Vec<(u32, Copied)> = pids.iter().map(|pid| (*pid, copy(&mut reader, *pid))).collect();
    let mut out = io::stdout().lock();
    for (pid, copied) in copies {
        let stack = reader.read(copied);
        serde_json::to_writer(&mut out, &Found { pid, stack })?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

/// A thread of its own for each process: when it ends, the kernel lets go what it may still hold.
fn copy(reader: &mut Reader, pid: u32) -> Copied {
    thread::scope(|scope| scope.spawn(|| reader.copy(pid)).join()).unwrap_or_else(|_| reader::failed(pid))
}
