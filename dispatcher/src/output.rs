//! Standard output: aligned tables, JSON documents, colour only on a terminal. A closed pipe ends the program quietly.

use crate::failure::Failure;
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal, Write};

/// How a cell stands in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A table with a head line.
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; it has one cell per column.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has a cell per column");
        self.rows.push(cells);
    }

    /// The table as text, columns two spaces apart, no space at line ends.
    pub fn render(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0).max(self.columns[column].0.len())
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        let head: Vec<String> = self.columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        for row in std::iter::once(&head).chain(&self.rows) {
            let cells = row
                .iter()
                .zip(&self.columns)
                .zip(&widths)
                .map(|((cell, (_, align)), &width)| match align {
                    Align::Left => format!("{cell:<width$}"),
                    Align::Right => format!("{cell:>width$}"),
                });
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

/// Writes text to standard output at once.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        // The reader has seen enough, as in `pcmctl events | head`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => Err(Failure::system(format!("cannot write to standard output: {error}"))),
    }
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

/// A number of bytes as a person reads it, in at most seven characters.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value >= 9.95 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_space_at_their_end() {
        let mut table = Table::new(&[("NODE", Align::Left), ("RANKS", Align::Right), ("SITE", Align::Left)]);
        table.row(vec!["n0".into(), "3".into(), "a".into()]);
        table.row(vec!["long-name".into(), "12".into(), String::new()]);
        assert_eq!(
            table.render(),
            "NODE       RANKS  SITE\nn0             3  a\nlong-name     12\n"
        );
    }

    #[test]
    fn bytes_stay_short() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1000), "1.0 KiB");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(u64::MAX), "16384 PiB");
    }
}
