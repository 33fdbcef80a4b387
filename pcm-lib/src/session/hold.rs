//! A process that stands still: waits at a ceiling, for a meeting or a decision, and carries out what
//! [`RankSide`](pcm_core::reconfiguration::rank::RankSide) says. Ends by going on, by leaving, or by ending.

use super::{
    early::Early,
    error::SessionError,
    joint::Joint,
    meeting::{Attendant, meet},
    part::Part,
};
use crate::{mpi::Communicator, redistribute::Progress, region::Registry};
use cpu_turns::ShortTurns;
use pcm_core::reconfiguration::rank::{EndReason, RankEffect};
use pcm_core::reconfiguration::seat::Seat;
use pcm_proto::{
    ids::Rank,
    reconfiguration::{MeetOrder, Phase, ReconfigurationReport, Tally},
};
use std::{
    collections::VecDeque,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

/// The data moves for so long between two looks at the channel.
const LOOK_WHILE_MOVING: Duration = Duration::from_millis(1);

/// How the standing ended.
#[derive(Debug)]
pub(super) enum Held {
    /// The iteration begins; in another layout than before, or not.
    GoesOn {
        /// Whether the layout is another.
        has_changed: bool,
    },
    /// The process is to leave; its data has gone, what is left of the meeting is to be ended.
    Leaves(Option<Box<Joint>>),
    /// The process is to end without touching MPI.
    Ends(EndReason),
}

/// Waits and carries out until the standing ends. `first` is to be carried out first.
pub(super) fn hold(registry: &mut Registry, part: &mut Part, first: Vec<RankEffect>) -> Result<Held, SessionError> {
    let _turns = ShortTurns::begin();
    let mut effects = VecDeque::from(first);
    let mut has_changed = false;
    let mut failure = None;
    loop {
        while let Some(effect) = effects.pop_front() {
            match effect {
                RankEffect::Tell(report) => {
                    if let ReconfigurationReport::AtCeiling { iteration, .. } = &report {
                        part.publish(registry, iteration.0);
                    }
                    part.tell(report);
                }
                RankEffect::Proceed => {
                    part.unpublish();
                    return failure.map_or(Ok(Held::GoesOn { has_changed }), Err);
                }
                RankEffect::Meet(order) => effects.extend(join(registry, part, &order)),
                RankEffect::Park => {
                    part.delay(Phase::Moving);
                    let parked = part
                        .park(registry)
                        .map_err(|error| (error.trouble(), error.to_string()));
                    effects.extend(
                        part.side
                            .on_moved(part.now(), parked.map(|tally| (tally, Tally::default()))),
                    );
                }
                RankEffect::TakeUp { rank } => {
                    failure = take_up(registry, part, rank).err();
                    has_changed = true;
                }
                RankEffect::Return => {
                    if let Some(joint) = part.joint.take() {
                        part.has_opened = false;
                        joint.abort(registry);
                    }
                }
                RankEffect::Leave => return Ok(leave(part)),
                RankEffect::End(reason) => return Ok(Held::Ends(reason)),
            }
        }
        effects.extend(part.look());
        if part.is_newcomer_of().is_none() {
            part.early(registry);
        }
        if effects.is_empty() {
            effects.extend(work_or_rest(registry, part));
        }
    }
}

/// Joins the processes and begins to move.
fn join(registry: &Registry, part: &mut Part, order: &MeetOrder) -> Vec<RankEffect> {
    let Some((attempt, ceiling)) = part.called else {
        return Vec::new();
    };
    part.delay(Phase::Meeting);
    // What it still does ahead would cost CPU time now.
    let early = part.early.take().map(Early::stopped);
    let attendant = Attendant {
        seat: part.seat,
        own: &part.job,
        port: part.port.as_ref(),
    };
    let met = meet(&attendant, order);
    if part.is_newcomer_of().is_some() {
        part.iteration = ceiling.0;
    }
    let now = part.now();
    let mut effects = match &met {
        Ok(_) => part.side.on_met(now, Ok(())),
        Err(error) => part.side.on_moved(now, Err((error.trouble(), error.to_string()))),
    };
    if let Ok(meeting) = met {
        let ahead = early.map(|early| early.into_ahead(attempt)).unwrap_or_default();
        match Joint::begin(registry, meeting, order, attempt, ahead) {
            Ok(joint) => part.joint = Some(joint),
            Err(error) => effects.extend(
                part.side
                    .on_moved(part.now(), Err((error.trouble(), error.to_string()))),
            ),
        }
    }
    effects
}

/// Moves data if there is some to move, sleeps otherwise.
fn work_or_rest(registry: &mut Registry, part: &mut Part) -> Vec<RankEffect> {
    let Some(joint) = part.joint.as_mut().filter(|joint| joint.is_moving()) else {
        part.rest();
        return Vec::new();
    };
    let outcome = match joint.drive(registry, Instant::now() + LOOK_WHILE_MOVING) {
        Ok(Progress::Pending) => return Vec::new(),
        Ok(Progress::Complete { sent, received }) => Ok((sent, received)),
        Err(error) => Err((error.trouble(), error.to_string())),
    };
    part.side.on_moved(part.now(), outcome)
}

/// The next layout counts: its data, its communicator, its numbers on the page, in this order, then the report.
fn take_up(registry: &mut Registry, part: &mut Part, rank: Rank) -> Result<(), SessionError> {
    part.delay(Phase::Closing);
    let Some(joint) = part.joint.take() else {
        return Err(SessionError::Defect(
            "a layout was committed that this process did not join",
        ));
    };
    part.has_opened = false;
    let was_newcomer = part.is_newcomer_of().is_some();
    let (next, moved) = joint.commit(registry);
    part.seat = Seat::Member(rank);
    let next = next?.ok_or(SessionError::Defect("this process has a rank and no communicator"))?;
    next.takes_after(&part.job, c"MPI_COMM_WORLD")?;
    let recorder = part.started.recorder;
    recorder.job_change(next.handle());
    let progress = &recorder.page().head.progress;
    progress.job_rank.store(u64::from(rank.0), Relaxed);
    progress.job_size.store(u64::from(next.size()?), Relaxed);
    part.announce();
    part.show_registered(registry);
    part.has_arrived = was_newcomer;
    let old = std::mem::replace(&mut part.job, next);
    if old != Communicator::world() {
        old.disconnect()?;
    }
    if let Some(port) = part.port.take() {
        port.close()?;
    }
    Ok(moved?)
}

/// Everything of this process has moved to others, or is parked.
fn leave(part: &mut Part) -> Held {
    part.delay(Phase::Closing);
    // In a relaunch nothing was joined.
    Held::Leaves(part.joint.take().map(Box::new))
}
