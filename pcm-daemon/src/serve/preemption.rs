//! SIGTERM to this daemon, or to its keeper: the node will be taken away. Hears it, and knows how much time is left.

use super::event::Event;
use anyhow::Context;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Names the seconds between the signal and the end of the node, where they are not [`NOTICE`]; set for `pcmctl up`.
const NOTICE_VARIABLE: &str = "PCM_NOTICE_SECONDS";

/// What most systems give at least between SIGTERM and SIGKILL is half a minute.
const NOTICE: Duration = Duration::from_secs(25);

/// The longest that the keeper waits for.
const NOTICE_SECONDS_MAX: f64 = 120.0;

/// Turns SIGTERM into an event.
pub(super) fn hear_notice(events: mpsc::Sender<Event>) -> anyhow::Result<()> {
    let mut signals = signal(SignalKind::terminate()).context("SIGTERM cannot be heard")?;
    tokio::spawn(async move {
        while signals.recv().await.is_some() {
            if events.send(Event::Notice).await.is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Time between the signal and the end of the node.
pub(super) fn notice_time() -> Duration {
    let given = std::env::var(NOTICE_VARIABLE).ok().and_then(|text| text.parse().ok());
    given.filter(|seconds: &f64| *seconds > 0.0).map_or(NOTICE, |seconds| {
        Duration::from_secs_f64(seconds.min(NOTICE_SECONDS_MAX))
    })
}
