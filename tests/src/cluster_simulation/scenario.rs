//! What kind of history a seed tells: how large, how fast, how unlucky, and what persons ask for. Faults are data.

use super::acts::draw_acts;
use super::person::Act;
pub use super::rank::Program;
use pcm_core::reconfiguration::limits::Limits;
use pcm_proto::random::Random;
use std::time::Duration;

/// A fault put into the simulated world on purpose, to see that a checker notices it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A daemon tells its ranks "committed" when an attempt was aborted.
    DaemonIgnoresAbort,
    /// A rank reads the ceiling before it announces its iteration.
    RankChecksBeforeAnnouncing,
    /// A rank that has agreed goes on in the old layout.
    RankGoesOnAfterAgreeing,
    /// Ranks are said to stand at the ceiling while they are on their way, and enter where they are.
    RankEntersAnywhere,
    /// A receiver leaves out an element and says it has all.
    AppDropsElement,
    /// A receiver keeps an element that is not its own.
    AppDoublesElement,
    /// No timer ever ends.
    TimersNeverEnd,
    /// A keeper starts a process again that it holds.
    KeeperStartsTwice,
    /// A process does not end when it is killed.
    ProcessOutlivesItsKill,
    /// A process manager answers a request twice.
    PmiAnswersTwice,
    /// A rank copies its data into the buffer that holds the newest safe checkpoint.
    RankOverwritesSafeBuffer,
    /// A keeper does not hold buffers of checkpoints.
    KeeperForgetsBuffers,
    /// A link loses messages without breaking.
    LinkLosesMessages,
    /// A journal loses what was decided about layouts.
    JournalForgetsReconfigurations,
    /// A journal loses the jobs that its daemon coordinates.
    JournalForgetsJobs,
    /// A journal loses the numbers of jobs.
    JournalForgetsNumbers,
    /// A journal loses how much of its ranks' output a daemon has passed on.
    JournalForgetsPrinted,
}

/// Shares of what breaks; see `faults.rs`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Typical time between two faults in microseconds; 0 for none.
    pub every_us: u64,
    /// Share of faults that kill a process, cut the network, and so on; what is left kills a daemon.
    pub kill: f64,
    pub partition: f64,
    pub machine: f64,
    pub full_disk: f64,
    pub stop: f64,
    pub clock: f64,
    pub wire: f64,
    /// Chance that a daemon dies in the middle of carrying out effects.
    pub crash_in_step: f64,
    /// Share of datagrams lost and copied, and of messages held back.
    pub loss: f64,
    pub duplicate: f64,
    pub slow: f64,
    /// Chances of what programs run into.
    pub start_fails: f64,
    pub meet_fails: f64,
    pub meet_hangs: f64,
    pub damage: f64,
    pub leaver_hangs: f64,
    pub ahead_fails: f64,
}

/// Parameters of one history.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The host of each machine.
    pub hosts: Vec<u64>,
    pub clock_offs: Vec<i64>,
    pub patience_ms: u32,
    pub has_datagrams: bool,
    pub has_bulk: bool,
    pub machines_return: bool,
    pub programs: Vec<Program>,
    /// What persons do, and when.
    pub acts: Vec<(u64, Act)>,
    pub faults: Faults,
    /// From then on nothing breaks.
    pub heal_at_us: u64,
    /// Lowest limit of worlds in a communicator, to see relaunches by themselves.
    pub worlds_max: u32,
    pub plant: Option<Plant>,
}

impl Scenario {
    /// The scenario a seed stands for.
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0xc1a5_7e2d);
        let machines = random.pick(&[1, 2, 2, 3, 3, 3, 4]).unwrap_or(2);
        let hosts = hosts(machines, &mut random);
        let has_skew = random.chance(0.3);
        let clock_offs = hosts.iter().map(|_| match has_skew {
            true => random.between(0, 20_000_000) as i64 - 10_000_000,
            false => 0,
        });
        let clock_offs = clock_offs.collect();
        let heal_at_us = random.between(5_000_000, 14_000_000);
        let programs: Vec<Program> = (0..3).map(|_| program(&mut random)).collect();
        let acts = draw_acts(machines, &programs, heal_at_us, &mut random);
        Self {
            hosts,
            clock_offs,
            patience_ms: random.pick(&[1600, 2400]).unwrap_or(2400),
            has_datagrams: random.chance(0.6),
            has_bulk: random.chance(0.3),
            machines_return: random.chance(0.6),
            programs,
            acts,
            faults: faults(&mut random),
            heal_at_us,
            worlds_max: if random.chance(0.2) { 3 } else { 90 },
            plant: None,
        }
    }

    /// The protocol's limits, shortened so that a history of seconds sees all of them reached.
    pub fn limits(&self) -> Limits {
        let ms = Duration::from_millis;
        Limits {
            prepare_max: ms(1500),
            ahead_max: ms(600),
            converge_max: ms(4000),
            meet_max: ms(500),
            move_max: ms(1000),
            close_max: ms(3000),
            start_max: ms(3000),
            settle_max: ms(500),
            leave_max: ms(300),
            resend_every: ms(100),
            patience: ms(1500),
            ask_every: ms(200),
            undecided_max: ms(4000),
            candidate_step: ms(200),
            orphan_max: ms(8000),
            gone_max: ms(4000),
            rank_max: ms(15_000),
            rounds_max: 32,
            worlds_in_communicator_max: self.worlds_max,
            worlds_met_max: 900,
        }
    }
}

/// Mostly each machine is a host of its own.
fn hosts(machines: usize, random: &mut Random) -> Vec<u64> {
    let shares = machines > 2 && random.chance(0.3);
    (0..machines as u64)
        .map(|machine| 100 + if shares { machine / 2 } else { machine })
        .collect()
}

fn program(random: &mut Random) -> Program {
    Program {
        elements: 12,
        iterations: random.between(20, 90),
        iteration_us: random.between(60_000, 350_000),
        checkpoint_every: random.pick(&[0, 5, 5, 10]).unwrap_or(0),
        has_files: random.chance(0.2),
        prints_every: random.pick(&[0, 3, 7]).unwrap_or(0),
    }
}

fn faults(random: &mut Random) -> Faults {
    let mut one_of = |shares: &[f64]| random.pick(shares).unwrap_or(0.0);
    let is_calm = one_of(&[1.0, 0.0, 0.0, 0.0]) > 0.5;
    if is_calm {
        return Faults::default();
    }
    let faults = Faults {
        every_us: 0,
        kill: one_of(&[0.0, 0.2, 0.5]),
        partition: one_of(&[0.0, 0.0, 0.2, 0.4]),
        machine: one_of(&[0.0, 0.0, 0.2, 0.4]),
        full_disk: one_of(&[0.0, 0.0, 0.1]),
        stop: one_of(&[0.0, 0.0, 0.2]),
        clock: one_of(&[0.0, 0.0, 0.2]),
        wire: one_of(&[0.0, 0.3]),
        crash_in_step: one_of(&[0.0, 0.0, 0.0005, 0.002]),
        loss: one_of(&[0.0, 0.0, 0.02, 0.1]),
        duplicate: one_of(&[0.0, 0.02, 0.1]),
        slow: one_of(&[0.0, 0.01, 0.05]),
        start_fails: one_of(&[0.0, 0.0, 0.0, 0.05]),
        meet_fails: one_of(&[0.0, 0.0, 0.1]),
        meet_hangs: one_of(&[0.0, 0.3]),
        damage: one_of(&[0.0, 0.0, 0.1]),
        leaver_hangs: one_of(&[0.0, 0.1]),
        ahead_fails: one_of(&[0.0, 0.1]),
    };
    Faults {
        every_us: random.between(600_000, 4_000_000),
        ..faults
    }
}
