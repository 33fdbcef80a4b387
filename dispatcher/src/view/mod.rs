//! How a job went, as one page: `story` puts events and samples in order, `svg` knows axes, `plots` draws, `page` writes
//! the document. All pure; the report and the dashboard show the same.

mod page;
mod plots;
mod story;
mod svg;

#[cfg(test)]
mod tests;

pub(crate) use page::{content, document, escape};
pub(crate) use story::Story;
