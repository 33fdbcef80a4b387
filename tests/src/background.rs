//! A program that runs while the test does something else. Must never outlive the test.

use crate::{limited::Outcome, processes, wait};
use rustix::process::Signal;
use std::{
    io::{Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::Duration,
};

/// A running program; what it says is collected as it comes.
pub struct Background {
    child: Child,
    name: String,
    stdin: Option<ChildStdin>,
    stdout: Collected,
    stderr: Collected,
}

struct Collected {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts it with a pipe as its standard input.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        let name = format!("{command:?}");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        Self {
            stdin: child.stdin.take(),
            stdout: Collected::start(child.stdout.take()),
            stderr: Collected::start(child.stderr.take()),
            child,
            name,
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything on its standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.now()
    }

    /// Everything on its standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.now()
    }

    /// Writes to its standard input.
    ///
    /// # Panics
    /// When the pipe is closed.
    pub fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("standard input is open");
        stdin
            .write_all(bytes)
            .and_then(|()| stdin.flush())
            .expect("the program reads its input");
    }

    /// Ends its standard input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Waits until its standard output has this text.
    ///
    /// # Panics
    /// When it has not within `limit`, or the program ended before.
    pub fn wait_for(&mut self, text: &str, limit: Duration) {
        let found = wait::within(limit, || {
            let ended = matches!(self.child.try_wait(), Ok(Some(_)));
            if self.stdout.now().contains(text) {
                Some(true)
            } else {
                ended.then_some(false)
            }
        });
        // What was written last may be read only after the end was seen.
        if found == Some(true) || (found == Some(false) && self.stdout.all().contains(text)) {
            return;
        }
        panic!(
            "no {text:?} from {} within {limit:?}: {:?} {:?}",
            self.name,
            self.stdout(),
            self.stderr()
        );
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        processes::send(self.pid(), signal);
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it still runs after `limit`; it is killed then.
    pub fn end(mut self, limit: Duration) -> Outcome {
        self.close_input();
        let status = wait::within(limit, || {
            self.child.try_wait().expect("our own child can be waited for")
        });
        let Some(status) = status else {
            panic!(
                "{} did not end within {limit:?}: {:?} {:?}",
                self.name,
                self.stdout(),
                self.stderr()
            );
        };
        Outcome {
            status,
            stdout: self.stdout.all(),
            stderr: self.stderr.all(),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Collected {
    fn start(pipe: Option<impl Read + Send + 'static>) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&text);
        let reader = pipe.map(|mut pipe| {
            thread::spawn(move || {
                let mut buffer = [0; 16384];
                while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                    into.lock()
                        .expect("no reader panics")
                        .extend_from_slice(&buffer[..count]);
                }
            })
        });
        Self { text, reader }
    }

    fn now(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().expect("no reader panics")).into_owned()
    }

    /// Everything to the end of the pipe.
    fn all(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("no reader panics");
        }
        self.now()
    }
}
