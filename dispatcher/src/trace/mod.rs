//! A job's calls over time as a file for Perfetto and Chrome: `record` asks the daemon again and again, `writer` makes
//! the text. Memory stays the same however long it lasts.

mod record;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use record::{Summary, Wanted, record};
