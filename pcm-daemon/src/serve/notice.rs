//! SIGTERM to this daemon, or to its keeper: the node will be taken away. Its jobs make a checkpoint and move
//! elsewhere, as for a drain with a deadline; those that cannot go on elsewhere from that checkpoint. Jobs that are
//! coordinated here make another one, then the node leaves the cluster and their heirs lead them from it.

use super::daemon::Daemon;
use super::event::Event;
use anyhow::Context;
use pcm_core::node::requester::Requester;
use pcm_core::node::timer::Timer;
use pcm_proto::checkpoint::IntoFiles;
use pcm_proto::ids::JobId;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Names the seconds between the signal and the end of the node, where they are not [`NOTICE`]; set for `pcmctl up`.
const NOTICE_VARIABLE: &str = "PCM_NOTICE_SECONDS";

/// What most systems give at least between SIGTERM and SIGKILL is half a minute.
const NOTICE: Duration = Duration::from_secs(25);

/// The longest that the keeper waits for.
const NOTICE_SECONDS_MAX: f64 = 120.0;

/// Of that time, what is left for the last checkpoints of jobs coordinated here.
const HAND_OVER_SHARE: u32 = 4;

/// Whether all is said is looked at this often.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The node is to be given up.
#[derive(Debug)]
pub(super) struct Notice {
    until: Instant,
    /// Whether the last checkpoints were asked for.
    is_handing_over: bool,
}

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

fn notice_time() -> Duration {
    let given = std::env::var(NOTICE_VARIABLE).ok().and_then(|text| text.parse().ok());
    given.filter(|seconds: &f64| *seconds > 0.0).map_or(NOTICE, |seconds| {
        Duration::from_secs_f64(seconds.min(NOTICE_SECONDS_MAX))
    })
}

impl Daemon {
    pub(super) fn on_notice(&mut self) {
        if self.notice.is_some() || self.is_going_down() || self.is_leaving() {
            return;
        }
        let within = notice_time();
        tracing::warn!(
            seconds = within.as_secs_f64(),
            "SIGTERM: this node brings its work elsewhere and ends"
        );
        self.notice = Some(Notice {
            until: Instant::now() + within,
            is_handing_over: false,
        });
        self.set_draining(true);
        // Somebody who was emptying it already waits for an answer; it is emptied with a deadline now.
        self.drain_cancelled();
        let time = within - within / HAND_OVER_SHARE;
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.empty(Requester::Nobody, Some(ms));
    }

    /// No rank is left here, or none that can leave: jobs led from here get a checkpoint for their heirs.
    pub(super) fn hand_over(&mut self) {
        let Some(notice) = &mut self.notice else { return };
        if std::mem::replace(&mut notice.is_handing_over, true) {
            return;
        }
        for job in self.jobs.keys().copied().collect::<Vec<JobId>>() {
            // Without an heir only files go on.
            let into = self.heirs(1).is_empty().then_some(IntoFiles::Usual);
            self.on_checkpoint_request(Requester::Nobody, job, into);
        }
        self.leave_when_safe();
    }

    /// Leaves when those checkpoints are complete, or there is no time left.
    pub(super) fn leave_when_safe(&mut self) {
        let Some(notice) = &self.notice else { return };
        let is_waiting = self.jobs.values().any(|job| job.leading.is_asked());
        if is_waiting && Instant::now() < notice.until {
            return self.out.arm(LOOK_AGAIN, Timer::Leave);
        }
        self.leave();
    }
}
