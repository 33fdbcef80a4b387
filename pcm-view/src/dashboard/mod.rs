//! The page that shows a job while it runs: `source` is what the page shows and orders, `teller` renders it again and
//! again, `http` reads requests and says which are admitted, `serve` listens on loopback and nowhere else.

mod http;
mod serve;
mod source;
mod teller;

pub use serve::{ServeError, Server};
pub use source::{Shown, Source};
