//! How a job went, as one page: `recording` is all that is known of it, `story` puts that in order, `plots` draws,
//! `page` writes the document, `summary` the few lines of a terminal. All pure; the report and the dashboard show the
//! same.

mod page;
mod plots;
mod recording;
mod story;
mod summary;

#[cfg(test)]
mod tests;

/// What a drawing may take; code that was not optimised, among other tests, gets ten times as long.
#[cfg(test)]
const DRAWN_WITHIN: std::time::Duration =
    std::time::Duration::from_millis(if cfg!(debug_assertions) { 1000 } else { 100 });

pub use page::document;
pub use recording::Recording;
