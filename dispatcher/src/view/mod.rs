//! How a job went, as one page: `story` puts events and samples in order, `svg` knows axes, `plots` draws, `page` writes
//! the document. All pure; the report and the dashboard show the same.

mod page;
mod plots;
mod story;
mod svg;
mod words;

#[cfg(test)]
mod tests;

/// What a drawing may take; code that was not optimised, among other tests, gets ten times as long.
#[cfg(test)]
pub(crate) const DRAWN_WITHIN: std::time::Duration =
    std::time::Duration::from_millis(if cfg!(debug_assertions) { 1000 } else { 100 });

pub(crate) use page::{content, document, escape};
pub(crate) use story::Story;
pub(crate) use words::event_words;
