//! The page that shows a job while it runs: `http` reads requests and says who is admitted, `teller` asks the daemon
//! and renders, `act` carries out what a button asks for, `serve` listens on loopback and nowhere else.

mod act;
mod http;
mod serve;
mod teller;

pub(crate) use serve::serve;
pub(crate) use teller::Source;
