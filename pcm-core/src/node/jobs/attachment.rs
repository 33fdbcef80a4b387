//! The `pcmctl run` that a job is attached to: it sees the job's output, and its end is the job's end. What happens
//! when its link breaks, and while it is away.

use crate::node::context::Context;
use crate::node::requester::{LinkId, Requester};
use crate::node::timer::{JobTimer, Timer};
use pcm_proto::control::DaemonToControl;
use pcm_proto::event::EventKind;
use pcm_proto::ids::JobId;
use pcm_proto::refusal;
use std::time::Duration;

/// An attached `pcmctl` whose link broke while this daemon lived has so long to come back; it tries at once, so one
/// that does not was killed.
const RETURN_WITHIN: Duration = Duration::from_secs(2);

/// Lines kept for a reader that is away: a crash and its end, twice.
const UNTOLD_MAX: usize = 4;

/// See the file head.
#[derive(Debug)]
pub(in crate::node) struct Attachment {
    state: State,
    /// The link of its `pcmctl`, also of one that only waits for the start of a detached job.
    link: Option<LinkId>,
    /// What an awaited reader will want to know.
    untold: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The job goes on by itself.
    Detached,
    Attached(LinkId),
    /// A `pcmctl` that is expected back.
    Awaited,
    /// A `pcmctl` that stood before the coordinator whose node was lost, and may be cut off with it.
    Sought,
    /// One of these that did not come in time: it may have ended or not, so the job goes on alone until it comes.
    OutOfReach,
    /// A `pcmctl` that did not come back.
    Left,
}

/// What becomes of a job whose `pcmctl` is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// Nothing for now.
    Waits,
    /// The job ends.
    Ends,
    /// The job goes on alone from now on.
    GoesOn,
}

impl Attachment {
    /// Of a new job: `link` is that of the `pcmctl` that asks for it.
    pub(super) fn new(link: Option<LinkId>, is_detached: bool) -> Self {
        let state = match link.filter(|_| !is_detached) {
            Some(link) => State::Attached(link),
            None => State::Detached,
        };
        let untold = Vec::new();
        Self { state, link, untold }
    }

    /// The link of the `pcmctl`, also of one that only waits for the start of a detached job.
    pub(super) fn link(&self) -> Option<LinkId> {
        self.link
    }

    /// The link that the output goes to.
    pub(super) fn reader(&self) -> Option<LinkId> {
        match self.state {
            State::Attached(link) => Some(link),
            _ => None,
        }
    }

    /// A `pcmctl` comes back to its job; whether it is attached now.
    pub(super) fn on_attach(&mut self, link: LinkId, job: JobId, cx: &mut Context<'_>) -> bool {
        match self.state {
            State::Awaited | State::Sought => {}
            State::OutOfReach => self.untold.push(format!(
                "it went on without this terminal; what its ranks wrote meanwhile is in jobs/{job} of the cluster's \
                 directory on node {}",
                cx.settings.own
            )),
            // The old link may not have been noticed dead yet.
            State::Attached(_) => {}
            State::Detached | State::Left => {
                let message =
                    format!("job {job} runs without a `pcmctl`: see `pcmctl jobs`, its output is in jobs/{job}");
                cx.refuse(Requester::Control(link), refusal::NOT_SUPPORTED, message);
                return false;
            }
        }
        self.state = State::Attached(link);
        self.link = Some(link);
        true
    }

    /// The attached `pcmctl` hears that it is back, and what it has missed.
    pub(super) fn tell_missed(&mut self, job: JobId, cx: &mut Context<'_>) {
        self.say(DaemonToControl::JobAccepted { job }, cx);
        for text in std::mem::take(&mut self.untold) {
            self.say(DaemonToControl::Notice { job, text }, cx);
        }
    }

    /// The link of a `pcmctl` ended.
    pub(super) fn on_link_lost(&mut self, link: LinkId, in_order: bool, job: JobId, cx: &mut Context<'_>) -> Absence {
        self.link = None;
        if self.state != State::Attached(link) {
            return Absence::Waits;
        }
        if in_order && !cx.is_in_doubt() {
            self.state = State::Left;
            return Absence::Ends;
        }
        self.await_return(job, RETURN_WITHIN, false, cx);
        Absence::Waits
    }

    /// Gives the `pcmctl` time to come back before the job is ended; where it may be cut off, the job goes on alone
    /// then.
    pub(super) fn await_return(&mut self, job: JobId, within: Duration, is_cut_off: bool, cx: &mut Context<'_>) {
        self.state = match is_cut_off {
            true => State::Sought,
            false => State::Awaited,
        };
        cx.arm(within, Timer::Job(job, JobTimer::Unattended));
    }

    /// The time to come back is over.
    pub(super) fn on_unattended(&mut self, job: JobId, cx: &mut Context<'_>) -> Absence {
        match self.state {
            State::Awaited | State::Sought if cx.is_in_doubt() => {
                // It may be attached to whatever node leads the job by now.
                cx.arm(RETURN_WITHIN, Timer::Job(job, JobTimer::Unattended));
                Absence::Waits
            }
            State::Awaited => {
                self.state = State::Left;
                Absence::Ends
            }
            State::Sought => {
                tracing::warn!(%job, "the `pcmctl run` it was attached to is out of reach: the job goes on without it");
                self.state = State::OutOfReach;
                Absence::GoesOn
            }
            _ => Absence::Waits,
        }
    }

    /// An event of the job: a start, a crash, output that will be repeated, what the program was refused.
    pub(super) fn on_note(&mut self, job: JobId, kind: &EventKind, cx: &mut Context<'_>) {
        let text = match kind {
            EventKind::JobStarted { .. } => {
                if matches!(self.state, State::Attached(_) | State::Detached) {
                    self.say(DaemonToControl::JobStarted { job }, cx);
                }
                return;
            }
            EventKind::Crashed { reason, verdict, .. } => format!("{reason}; {verdict}"),
            EventKind::Recovered(recovered) => format!(
                "all {} ranks run again, from iteration {} on, after {:.1} s",
                recovered.ranks,
                recovered.from,
                recovered.total_ms / 1000.0
            ),
            EventKind::SpawnRefused { reason, .. } => format!("MPI_Comm_spawn was refused: {reason}"),
            EventKind::Hangs { silent_s, ranks, lines } => format!(
                "no progress for {silent_s} s: {ranks} cannot continue{}; 'pcmctl ps {job} --stuck' says more",
                lines.first().map(|line| format!(": {line}")).unwrap_or_default()
            ),
            _ => return,
        };
        let is_away = matches!(self.state, State::Awaited | State::Sought | State::OutOfReach);
        if self.link.is_some() {
            self.say(DaemonToControl::Notice { job, text }, cx);
        } else if is_away && self.untold.len() < UNTOLD_MAX {
            self.untold.push(text);
        }
    }

    /// Says something to the `pcmctl`, if there is one.
    pub(super) fn say(&self, answer: DaemonToControl, cx: &mut Context<'_>) {
        if let Some(link) = self.link {
            cx.answer(Requester::Control(link), answer);
        }
    }
}
