//! A process's part in a job that daemons run: what it announces, what it hears, where its reconfiguration stands.
//! Carries nothing out; `hold.rs` does.

use super::{early::Early, joint::Joint, meeting::address};
use crate::{
    channel::ChannelError,
    mpi::{Communicator, Port},
    park::Published,
    region::Registry,
    role::{Planned, Role},
    start::{self, Started},
};
use pcm_core::{
    moment::Moment,
    reconfiguration::{
        limits::Limits,
        rank::{RankEffect, RankSide},
        seat::Seat,
    },
};
use pcm_proto::{
    app::AppToDaemon,
    ids::{Iteration, Rank, WorldId},
    page::CEILING_NONE,
    reconfiguration::{Attempt, MeetOrder, Phase, ReconfigurationOrder, ReconfigurationReport},
    trace::{HELD, ITERATION},
};
use std::{
    sync::atomic::Ordering::{Relaxed, SeqCst},
    time::{Duration, Instant},
};

/// A rank that waits looks at its page this often: the daemon lifts a ceiling there, without a message.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// A newcomer waits for messages alone, which wake it.
const NEWCOMER_LOOKS_EVERY: Duration = Duration::from_millis(50);

/// See the file head.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) started: &'static Started,
    pub(super) side: RankSide,
    /// What the side was made with, or took up.
    pub(super) seat: Seat,
    /// The job's communicator; a newcomer's world before it has joined.
    pub(super) job: Communicator,
    /// The port a newcomer's world opened.
    pub(super) port: Option<Port>,
    /// The attempt it was called to last, and the iteration at which all meet.
    pub(super) called: Option<(Attempt, Iteration)>,
    pub(super) joint: Option<Joint>,
    /// What is planned and was not looked at yet: constant data may travel.
    pub(super) planned: Option<(Attempt, Box<MeetOrder>)>,
    pub(super) early: Option<Early>,
    /// Memory beside the arrays was opened ahead; nobody but this process knows.
    pub(super) has_opened: bool,
    /// The size of the layout for which it was told to park.
    pub(super) parks_for: Option<u32>,
    /// Its data as its keeper would find it.
    pub(super) published: Option<Published>,
    /// The iteration whose top comes next.
    pub(super) iteration: u64,
    /// Whether the program has not been told of the layout it joined.
    pub(super) has_arrived: bool,
    begun: Instant,
    /// Ticks and time in MPI when the first iteration began.
    loop_begun: Option<(u64, u64)>,
}

impl Part {
    /// The part of a process that a daemon started, and what it has to say first.
    pub(super) fn begin(started: &'static Started) -> (Self, Vec<RankEffect>) {
        let job = start::communicator();
        let progress = &started.recorder.page().head.progress;
        let limits = Limits::default();
        let (mut port, mut told) = (None, Vec::new());
        let (side, seat) = match started.role {
            Role::First | Role::Restored(_) => {
                let rank = progress.job_rank.load(Relaxed) as u32;
                let side = RankSide::member(Rank(rank), String::new(), limits);
                (side, Seat::Member(Rank(rank)))
            }
            Role::Newcomer(Planned { world, .. }) => {
                let rank = progress.world_rank.load(Relaxed) as u32;
                // A world without a port cannot be met; the attempt fails and says so.
                port = (rank == 0).then(|| Port::open().ok()).flatten();
                let name = port.as_ref().map(|port| address(Some(port))).unwrap_or_default();
                let (side, ready) = RankSide::newcomer(Moment(0), world, rank, name, limits);
                told.push(ready);
                (side, Seat::Newcomer { world, rank })
            }
        };
        let part = Self {
            started,
            side,
            seat,
            job,
            port,
            called: None,
            joint: None,
            planned: None,
            early: None,
            has_opened: false,
            parks_for: None,
            published: None,
            iteration: 0,
            has_arrived: false,
            begun: Instant::now(),
            loop_begun: None,
        };
        (part, told)
    }

    /// The top of an iteration: announces it, then looks at the ceiling. Whether it may begin at once and nothing is to
    /// be heard.
    #[inline]
    pub(super) fn begins(&mut self) -> bool {
        let head = self.started.recorder.page().head;
        self.announce();
        let ceiling = head.orders.ceiling.load(SeqCst);
        let begins = self.iteration < ceiling && !self.started.has_rung() && !self.has_arrived;
        if begins {
            self.begin_iteration();
        }
        begins
    }

    /// Says on the page that the iteration whose top this is has begun.
    #[inline]
    pub(super) fn announce(&mut self) {
        let recorder = self.started.recorder;
        let head = recorder.page().head;
        match self.loop_begun {
            Some((ticks, in_mpi)) => {
                let useful = recorder.useful_ns_since(ticks, in_mpi);
                head.progress.useful_ns.store(useful, Relaxed);
            }
            None => {
                head.progress.iterations_before.store(self.iteration, Relaxed);
                self.loop_begun = Some((recorder.ticks(), recorder.page().mpi_ns()));
            }
        }
        head.progress.iteration.store(self.iteration + 1, SeqCst);
    }

    /// The iteration whose top comes next begins.
    #[inline]
    pub(super) fn begin_iteration(&mut self) {
        let recorder = self.started.recorder;
        if recorder.page().head.trace.is_wanted() {
            let now = recorder.ticks();
            recorder.page().trace_mark(ITERATION, now, now, self.iteration);
        }
        self.iteration += 1;
    }

    /// Time that the library took of the program is not the program's.
    pub(super) fn held_since(&mut self, ticks: u64) {
        let recorder = self.started.recorder;
        let now = recorder.ticks();
        let passed = now.wrapping_sub(ticks);
        recorder.page().trace_mark(HELD, ticks, now, self.iteration);
        if let Some((begun, _)) = &mut self.loop_begun {
            *begun = begun.wrapping_add(passed);
        }
    }

    /// What follows from all that was heard, from the ceiling and from the time.
    pub(super) fn look(&mut self) -> Vec<RankEffect> {
        self.started.hear_if_rung();
        let mut effects = Vec::new();
        while let Some(order) = self.started.order() {
            if let ReconfigurationOrder::Meet { attempt, ceiling, .. }
            | ReconfigurationOrder::Park { attempt, ceiling, .. } = &order
            {
                self.called = Some((*attempt, *ceiling));
            }
            if let ReconfigurationOrder::Park { size_after, .. } = &order {
                self.parks_for = Some(*size_after);
            }
            if let ReconfigurationOrder::Decided { attempt, .. } = &order {
                // What was taken for it and not used is of no use to another.
                self.early.take_if(|early| early.is_of(*attempt));
            }
            let order = match order {
                ReconfigurationOrder::Ahead { attempt, meeting } => {
                    self.planned = Some((attempt, meeting));
                    continue;
                }
                order => order,
            };
            effects.extend(self.side.on_order(self.now(), order));
        }
        if effects.is_empty() {
            let ceiling = self.started.recorder.page().head.orders.ceiling.load(SeqCst);
            let (now, iteration) = (self.now(), Iteration(self.iteration));
            effects = self.side.on_top(now, iteration, Iteration(ceiling));
        }
        if effects.is_empty() {
            effects = self.side.on_tick(self.now());
        }
        effects
    }

    /// Sleeps until something may have happened. MPI goes on with what others wait for.
    pub(super) fn rest(&self) {
        let is_newcomer = matches!(self.seat, Seat::Newcomer { .. });
        if !is_newcomer {
            // A failure shows in the calls of the program.
            _ = Communicator::own().progress();
        }
        let limit = if is_newcomer { NEWCOMER_LOOKS_EVERY } else { LOOK_EVERY };
        if self.started.channel.wait(limit) {
            self.started.hear();
        }
    }

    /// A daemon that cannot be told is dead or being started again; the one that follows asks for the last report.
    pub(super) fn tell(&self, report: ReconfigurationReport) {
        let has_met = matches!(report, ReconfigurationReport::Met { .. });
        match &report {
            ReconfigurationReport::Ready { .. } if self.is_newcomer_of().is_some() => self.delay(Phase::Preparing),
            ReconfigurationReport::Ready { .. } => self.delay(Phase::Starting),
            ReconfigurationReport::AtCeiling { .. } => self.delay(Phase::Converging),
            _ => {}
        }
        let report = match report {
            ReconfigurationReport::AtCeiling { iteration, .. } if self.seat == Seat::Member(Rank(0)) => {
                let port = address(None);
                ReconfigurationReport::AtCeiling { iteration, port }
            }
            report => report,
        };
        _ = self.started.channel.send(&AppToDaemon::Reconfiguration(report));
        if has_met {
            self.delay(Phase::Moving);
        }
    }

    /// Makes a phase last, in a test.
    pub(super) fn delay(&self, phase: Phase) {
        if let Some(delay) = self.started.phase_delay {
            delay.at(phase);
        }
    }

    /// Asks the daemon for another number of ranks.
    pub(super) fn request(&self, ranks: u32) -> Result<(), ChannelError> {
        self.started.channel.send(&AppToDaemon::Resize { ranks })
    }

    /// Says on the page at which iteration the loop is to end.
    pub(super) fn declare_end(&self, iterations: u64) {
        // 0 means that nothing was declared.
        let end = self.iteration.saturating_add(iterations).max(1);
        let progress = &self.started.recorder.page().head.progress;
        progress.iterations_declared.store(end, Relaxed);
    }

    /// Says on the page how much data would travel with this process.
    pub(super) fn show_registered(&self, registry: &Registry) {
        let progress = &self.started.recorder.page().head.progress;
        progress.registered_bytes.store(registry.registered_bytes(), Relaxed);
        progress.constant_bytes.store(registry.constant_bytes(), Relaxed);
    }

    /// Rank 0 says what processes that join later, and whoever changes the number of ranks, have to know.
    pub(super) fn tell_registered(&self, registry: &Registry) {
        if self.seat == Seat::Member(Rank(0)) {
            // A daemon that is not heard of is missed elsewhere.
            _ = self.started.channel.send(&AppToDaemon::Registered(registry.said()));
        }
    }

    pub(super) fn now(&self) -> Moment {
        Moment(u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// No ceiling stops a process that begins no iteration any more.
    pub(super) fn iterations_end(started: &Started) {
        started
            .recorder
            .page()
            .head
            .progress
            .iteration
            .store(CEILING_NONE, SeqCst);
    }

    /// The world of a newcomer's seat.
    pub(super) fn is_newcomer_of(&self) -> Option<WorldId> {
        match self.seat {
            Seat::Newcomer { world, .. } => Some(world),
            Seat::Member(_) => None,
        }
    }
}
