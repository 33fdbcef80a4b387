//! The page that shows a cluster and a job while it runs: `source` is what the page shows and orders, `cluster` draws
//! nodes and ranks, `teller` renders it again and again, `http` reads requests and says which are admitted, `serve`
//! listens on loopback and nowhere else.

mod cluster;
mod http;
mod serve;
mod source;
mod teller;

/// Whether a request with this head would be answered with anything but a refusal.
pub fn is_admitted(head: &str, token: &str, authority: &str) -> bool {
    http::Request::parse(head).is_ok_and(|request| request.admit(token, authority).is_ok())
}

pub use cluster::{Drawn, RunningJob, cluster};
pub use serve::{ServeError, Server};
pub use source::{Format, Plan, Shown, Source, alert};
