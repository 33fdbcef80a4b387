//! The loop of a program: announce an iteration, look at the ceiling, compute, look for a checkpoint, exchange with the
//! other ranks, again.

use super::groups::Look;
use super::happening::{Happening, RankHappening, Turn};
use super::rank::{Activity, Rank};
use super::scenario::Plant;
use super::seen::Seen;
use super::simulation::Simulation;
use pcm_core::reconfiguration::rank::RankEffect;
use pcm_proto::app::AppToDaemon;
use pcm_proto::ids::Iteration;
use pcm_proto::keeper::{ExitStatus, ProcessKey};

/// How often a process that waits looks at the time, in microseconds.
const TICK: u64 = 500_000;

impl Simulation {
    /// The top of the loop.
    pub(super) fn announce(&mut self, key: ProcessKey) {
        let is_planted = self.has_plant(Plant::RankChecksBeforeAnnouncing);
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        if rank.iteration >= rank.program.iterations {
            return self.finish(key);
        }
        let turn = rank.next_turn();
        rank.activity = Activity::Announced;
        if is_planted {
            rank.peeked = Some(rank.page.ceiling);
        } else {
            rank.page.started = rank.page.started.max(rank.iteration + 1);
        }
        let delay = self.random.between(1, if is_planted { 300_000 } else { 60 });
        self.queue.after(delay, Happening::Rank(RankHappening::LooksUp(turn)));
        self.share_start(key);
    }

    /// The end of the loop.
    fn finish(&mut self, key: ProcessKey) {
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        rank.next_turn();
        rank.activity = Activity::Finished;
        rank.page.started = u64::MAX;
        let (group, number) = (rank.group(), rank.rank);
        let is_sound = is_sound(rank);
        let iteration = rank.iteration;
        self.ledger.see(Seen::Finishes {
            key,
            group,
            rank: number,
            iteration,
            is_sound,
        });
        self.share_start(key);
        self.say(key, AppToDaemon::Finalizing, None);
        self.begin_finalize(key);
    }

    /// What others need of this rank's iteration is sent: who waits for it may go on.
    fn share_start(&mut self, key: ProcessKey) {
        let Some(rank) = self.ranks.get(&key) else { return };
        let (group, number, started) = (rank.group(), rank.rank, rank.page.started);
        let Some(group) = self.groups.get_mut(group) else {
            return;
        };
        group.starts(number, started);
        let mates: Vec<ProcessKey> = group.mates().filter(|mate| *mate != key).collect();
        for mate in mates {
            let blocked = self.ranks.get(&mate).filter(|mate| mate.is_alive);
            if let Some(mate) = blocked.filter(|mate| mate.activity == Activity::Blocked) {
                let turn = mate.turn();
                self.queue.after(20, Happening::Rank(RankHappening::Computed(turn)));
            }
        }
    }

    pub(super) fn on_looks_up(&mut self, turn: Turn) {
        let key = turn.key;
        let is_current =
            |rank: &&mut Rank| rank.is_at(turn) && matches!(rank.activity, Activity::Announced | Activity::Waiting);
        let Some(rank) = self.ranks.get_mut(&key).filter(is_current) else {
            return;
        };
        let is_first = rank.activity == Activity::Announced;
        if is_first {
            rank.activity = Activity::Waiting;
            rank.page.started = rank.page.started.max(rank.iteration + 1);
            if self.has_plant(Plant::RankChecksBeforeAnnouncing) {
                self.share_start(key);
            }
            self.drain_inbox(key);
        }
        let now = self.moment();
        let Some(rank) = self.ranks.get_mut(&key).filter(|rank| rank.is_at(turn)) else {
            return;
        };
        let ceiling = Iteration(rank.peeked.take().unwrap_or(rank.page.ceiling));
        let iteration = Iteration(rank.iteration);
        let Some(side) = &mut rank.side else { return };
        let effects = side.on_top(now, iteration, ceiling);
        let proceeds = effects.contains(&RankEffect::Proceed);
        self.follow(key, effects);
        if is_first && !proceeds {
            self.queue.after(TICK, Happening::Rank(RankHappening::Tick(turn)));
        }
    }

    pub(super) fn on_tick(&mut self, turn: Turn) {
        let now = self.moment();
        let is_current = |rank: &&mut Rank| rank.is_at(turn) && rank.activity == Activity::Waiting;
        let Some(rank) = self.ranks.get_mut(&turn.key).filter(is_current) else {
            return;
        };
        let Some(side) = &mut rank.side else { return };
        let effects = side.on_tick(now);
        if effects.contains(&RankEffect::Proceed) {
            let group = rank.group();
            self.ledger.see(Seen::GoesOnUntold { group });
        }
        self.follow(turn.key, effects);
        self.queue.after(TICK, Happening::Rank(RankHappening::Tick(turn)));
    }

    /// From now on it watches its page, its channel and the time.
    pub(super) fn wait(&mut self, key: ProcessKey) {
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        rank.activity = Activity::Waiting;
        let turn = rank.next_turn();
        self.queue.after(5, Happening::Rank(RankHappening::LooksUp(turn)));
        self.queue.after(TICK, Happening::Rank(RankHappening::Tick(turn)));
    }

    pub(super) fn begin_iteration(&mut self, key: ProcessKey) {
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        let turn = rank.next_turn();
        rank.activity = Activity::Computing;
        rank.page.is_published = false;
        let seen = Seen::Proceeds {
            key,
            group: rank.group(),
            rank: rank.rank,
            iteration: rank.iteration,
            is_sound: is_sound(rank),
        };
        let (typical, iteration, every) = (rank.program.iteration_us, rank.iteration, rank.program.prints_every);
        self.ledger.see(seen);
        self.look_for_checkpoint(key);
        if every > 0 && iteration.is_multiple_of(every) {
            self.print(key);
        }
        let span = self.random.between(typical / 2, typical * 3 / 2);
        self.queue.after(span, Happening::Rank(RankHappening::Computed(turn)));
    }

    /// All ranks look together; what comes of it is known when all have.
    fn look_for_checkpoint(&mut self, key: ProcessKey) {
        let Some(rank) = self.ranks.get(&key) else { return };
        let look = Look {
            is_wanted: rank.keeping.is_wanted,
            in_files: rank.keeping.in_files || rank.program.has_files,
            is_free: rank.keeping.is_free(),
        };
        let (group, number, iteration) = (rank.group(), rank.rank, rank.iteration);
        if let Some(group) = self.groups.get_mut(group) {
            group.look(iteration, number, look);
        }
    }

    pub(super) fn on_computed(&mut self, turn: Turn) {
        let key = turn.key;
        let Some(rank) = self.ranks.get_mut(&key).filter(|rank| rank.is_at(turn)) else {
            return;
        };
        if !matches!(rank.activity, Activity::Computing | Activity::Blocked) {
            return;
        }
        let (group, iteration, every) = (rank.group(), rank.iteration, rank.program.checkpoint_every);
        let Some(group) = self.groups.get_mut(group) else {
            return;
        };
        if !group.have_all_started(iteration) {
            rank.activity = Activity::Blocked;
            return;
        }
        let due = group.decision(iteration, every);
        group.forget_looks(iteration);
        if due.is_due && !rank.keeping.has(iteration) {
            return self.begin_keeping(key, due.in_files);
        }
        self.end_iteration(key);
    }

    pub(super) fn end_iteration(&mut self, key: ProcessKey) {
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        rank.data.values_mut().for_each(|value| *value += 1);
        rank.iteration += 1;
        self.announce(key);
    }

    /// It prints one line.
    fn print(&mut self, key: ProcessKey) {
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        rank.lines += 1;
        rank.pipe.push_back(super::output::line(key.process, rank.lines));
        self.queue.after(50, Happening::Rank(RankHappening::Pipe(key)));
    }

    /// The process is over, one way or another.
    pub(super) fn on_process_ends(&mut self, key: ProcessKey, status: ExitStatus) {
        let Some(rank) = self.ranks.get_mut(&key).filter(|rank| rank.is_alive) else {
            return;
        };
        rank.is_alive = false;
        rank.next_turn();
        let on = rank.on;
        self.tell(|| format!("{key:?} ends: {status:?}"));
        self.leave_mates_behind(key);
        self.ledger.see(Seen::Leaves { key });
        self.ledger.see(Seen::Ends { key });
        let delay = self.random.between(50, 500);
        self.queue.after(delay, Happening::Rank(RankHappening::Channel(key)));
        self.queue.after(delay, Happening::Rank(RankHappening::Pipe(key)));
        self.keeper_hears_of_end(on, key, status);
    }
}

/// Whether its elements have seen all iterations.
fn is_sound(rank: &Rank) -> bool {
    rank.data.values().all(|value| *value == rank.iteration)
}
