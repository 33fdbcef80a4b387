//! The signals an attached `run` hears, and which of them ask for an end.

use crate::failure::Failure;
use std::future::poll_fn;
use std::task::Poll;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Typed as ctrl-C.
pub(crate) const SIGINT: i32 = 2;

/// The terminal went away.
pub(crate) const SIGHUP: i32 = 1;

/// The signals watched.
pub(crate) struct Signals {
    watched: Vec<(i32, Signal)>,
}

impl Signals {
    /// Takes over what these signals would do to the process.
    pub(crate) fn watch() -> Result<Self, Failure> {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
            SignalKind::quit(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
        ];
        let watched = kinds.into_iter().map(|kind| Ok((kind.as_raw_value(), signal(kind)?)));
        let watched = watched.collect::<Result<_, std::io::Error>>();
        let watched = watched.map_err(|error| Failure::system(format!("cannot watch for signals: {error}")))?;
        Ok(Self { watched })
    }

    /// The number of the next signal. Cancelling it loses nothing.
    pub(crate) async fn next(&mut self) -> i32 {
        poll_fn(|context| {
            for (number, signal) in &mut self.watched {
                if signal.poll_recv(context).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Whether a signal means that the job should come to its end.
    pub(crate) fn asks_to_end(number: i32) -> bool {
        number != SignalKind::user_defined1().as_raw_value() && number != SignalKind::user_defined2().as_raw_value()
    }
}
