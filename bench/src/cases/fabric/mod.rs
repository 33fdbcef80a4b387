//! Benches `fabric` and `links`: what datagrams, links and bulk transfers cost on the loopback, beside raw TCP in the
//! same process. `case` puts the series together, `links` is a bench of its own.

mod bulk;
mod case;
mod exchange;
mod group;
mod iperf;
mod links;
mod loss;
mod setting;

pub(super) use case::BENCH;
pub(super) use links::BENCH as LINKS;
