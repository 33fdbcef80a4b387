//! Standard output: text, JSON documents, colour only on a terminal. A closed pipe ends the program quietly.

use crate::failure::Failure;
use pcm_view::plain::plain;
pub use pcm_view::table::{Align, Table, bytes};
use serde::Serialize;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};

/// Writes text to standard output at once. Names, and words of programs, do nothing to the terminal.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(plain(text).as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        // The reader has seen enough, as in `pcmctl events | head`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(Failure::system(format!("cannot write to standard output: {error}"))),
    }
}

/// Writes a line to standard error; as above, nothing in it acts on the terminal.
pub fn tell(line: impl Display) {
    eprintln!("pcmctl: {}", plain(&line.to_string()));
}

/// Writes one JSON document on one line.
pub fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(document)
        .map_err(|error| Failure::system(format!("cannot write the answer as JSON: {error}")))?;
    print(&format!("{text}\n"))
}

/// Whether people look at standard output and have not asked for no colour.
pub fn has_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && std::io::stdout().is_terminal()
}

/// A colour for a word of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// All is well.
    Green,
    Yellow,
    Red,
}

/// The word in colour, or as it is where colour has no place.
pub fn paint(word: &str, colour: Colour) -> String {
    if !has_colour() {
        return word.to_owned();
    }
    let number = match colour {
        Colour::Green => 32,
        Colour::Yellow => 33,
        Colour::Red => 31,
    };
    format!("\x1b[{number}m{word}\x1b[0m")
}
