//! The page that shows a job while it runs: `source` is what the page shows and orders, `teller` renders it again and
//! again, `http` reads requests and says which are admitted, `serve` listens on loopback and nowhere else.

mod http;
mod serve;
mod source;
mod teller;

/// Whether a request with this head would be answered with anything but a refusal.
pub fn is_admitted(head: &str, token: &str, authority: &str) -> bool {
    http::Request::parse(head).is_ok_and(|request| request.admit(token, authority).is_ok())
}

pub use serve::{ServeError, Server};
pub use source::{Shown, Source};
