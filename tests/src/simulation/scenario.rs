//! What kind of history a seed tells: how large, how fast, how unlucky. Faults are data.

use pcm_core::reconfiguration::limits::Limits;
use pcm_proto::random::Random;
use std::time::Duration;

/// A fault put into the simulated programs on purpose, to see that a checker notices it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A daemon tells its ranks "committed" when an attempt was aborted.
    DaemonIgnoresAbort,
    /// A coordinator tells one participant of a commit as soon as the first one has agreed.
    CoordinatorCommitsEarly,
    /// A daemon loses what it wrote when it is started again.
    DaemonForgetsItsRecord,
    /// A rank reads the ceiling before it announces its iteration.
    RankChecksBeforeAnnouncing,
    /// A rank that has agreed goes on in the old layout when it gets bored.
    RankGoesOnAfterAgreeing,
    /// A daemon says its ranks stand at the ceiling while they are still on their way, and they enter where they are.
    RankEntersAnywhere,
    /// A receiver leaves out an element and says it has all.
    AppDropsElement,
    /// A receiver keeps an element that is not its own.
    AppDoublesElement,
    /// A daemon calls one rank to a meeting of its own.
    DaemonCallsTwoMeetings,
    /// A daemon does not end the newcomers of an aborted attempt, and they do not end themselves.
    NewcomersStay,
    /// Nobody's timers ever end.
    TimersNeverEnd,
    /// A daemon that is started again does not know that its ranks stand where others may be called to meet them.
    DaemonForgetsWhereRanksStand,
}

/// Parameters of one history.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Ranks the job starts with.
    pub ranks: usize,
    /// Elements of its array.
    pub elements: u32,
    /// Iterations after which it ends; the job of most histories outlives them.
    pub iterations: u64,
    /// Typical time of one iteration in microseconds.
    pub iteration_us: u64,
    /// Whether an iteration needs the neighbours' data, as a stencil does.
    pub coupled: bool,
    /// Share of messages lost, copied, and held back for long.
    pub loss: f64,
    pub duplicate: f64,
    pub slow: f64,
    /// Typical time between two faults in microseconds; 0 for none.
    pub fault_every_us: u64,
    /// Share of faults that kill a process.
    pub kill: f64,
    /// Share of faults that take a whole machine.
    pub machine: f64,
    /// Share of faults that cut the network in two.
    pub partition: f64,
    /// Chance that a daemon dies in the middle of carrying out effects.
    pub crash_in_step: f64,
    /// The same while it carries out a call to a meeting: it has written that it calls, and told some or none.
    pub crash_in_call: f64,
    /// Chance that joining fails, and that it then hangs instead of failing.
    pub meet_fails: f64,
    pub meet_hangs: f64,
    /// Chance that data arrives damaged.
    pub damage: f64,
    /// Chance that a process does not start.
    pub start_fails: f64,
    /// Chance that a rank does not say in time that it has what travels ahead of a meeting.
    pub ahead_fails: f64,
    /// Chance that a leaver does not leave by itself.
    pub leaver_hangs: f64,
    /// Typical time between two requests in microseconds.
    pub request_every_us: u64,
    /// End of the faults.
    pub heal_at_us: u64,
    /// Whether a machine that died stays dead for good.
    pub one_stays_dead: bool,
    /// Lowest limit of worlds in a communicator, to see relaunches by themselves.
    pub worlds_max: u32,
    /// The fault put in on purpose.
    pub plant: Option<Plant>,
}

impl Scenario {
    /// The scenario a seed stands for.
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5ce7_a210);
        let one_of = |random: &mut Random, shares: &[f64]| random.pick(shares).unwrap_or(0.0);
        let calm = random.chance(0.25);
        let faults = if calm { 0 } else { random.between(150_000, 2_500_000) };
        Self {
            nodes: 1 + random.index(5),
            ranks: 1 + random.index(5),
            elements: 24,
            iterations: if random.chance(0.15) {
                random.between(20, 300)
            } else {
                u64::MAX / 2
            },
            iteration_us: random.between(4_000, 50_000),
            coupled: random.chance(0.6),
            loss: one_of(&mut random, &[0.0, 0.0, 0.01, 0.1, 0.3]),
            duplicate: one_of(&mut random, &[0.0, 0.02, 0.2]),
            slow: one_of(&mut random, &[0.0, 0.01, 0.1]),
            fault_every_us: faults,
            kill: one_of(&mut random, &[0.0, 0.1, 0.4]),
            machine: one_of(&mut random, &[0.0, 0.0, 0.1, 0.3]),
            partition: one_of(&mut random, &[0.0, 0.2, 0.5]),
            crash_in_step: if calm {
                0.0
            } else {
                one_of(&mut random, &[0.0, 0.0005, 0.003])
            },
            meet_fails: one_of(&mut random, &[0.0, 0.0, 0.05, 0.2]),
            meet_hangs: one_of(&mut random, &[0.0, 0.3]),
            damage: one_of(&mut random, &[0.0, 0.0, 0.05]),
            start_fails: one_of(&mut random, &[0.0, 0.0, 0.05]),
            ahead_fails: one_of(&mut random, &[0.0, 0.0, 0.05]),
            leaver_hangs: one_of(&mut random, &[0.0, 0.1]),
            request_every_us: random.between(100_000, 900_000),
            heal_at_us: random.between(2_000_000, 7_000_000),
            one_stays_dead: random.chance(0.1),
            worlds_max: if random.chance(0.3) { 3 } else { 90 },
            plant: None,
            crash_in_call: if calm {
                0.0
            } else {
                one_of(&mut random, &[0.0, 0.05, 0.3])
            },
        }
    }

    /// The protocol's limits, shortened so that a history of seconds sees all of them reached.
    pub fn limits(&self) -> Limits {
        let ms = Duration::from_millis;
        Limits {
            prepare_max: ms(1000),
            ahead_max: ms(300),
            converge_max: ms(2000),
            meet_max: ms(500),
            move_max: ms(800),
            close_max: ms(3000),
            start_max: ms(1500),
            settle_max: ms(500),
            leave_max: ms(200),
            resend_every: ms(40),
            patience: ms(700),
            ask_every: ms(100),
            undecided_max: ms(2500),
            candidate_step: ms(150),
            orphan_max: ms(5000),
            gone_max: ms(2000),
            rank_max: ms(9000),
            rounds_max: 32,
            worlds_in_communicator_max: self.worlds_max,
            worlds_met_max: 900,
        }
    }
}
