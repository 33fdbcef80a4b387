//! A process that gets its data back, from what was parked or from a checkpoint in memory: asks for the plan, then for
//! the image of one old rank after the other.

use super::groups::block;
use super::happening::{Happening, RankHappening};
use super::image::{self, File};
use super::rank::Activity;
use super::simulation::Simulation;
use super::violation::Violation;
use pcm_core::reconfiguration::rank::RankSide;
use pcm_proto::app::AppToDaemon;
use pcm_proto::ids::Rank;
use pcm_proto::keeper::{ExitStatus, ProcessKey};
use pcm_proto::parked::{Asked, BlockRun, RestoreAnswer, RestoreAsk};

/// A daemon that was started again does not know what its predecessor was asked.
const ASK_AGAIN: u64 = 2_000_000;

/// A process that said that it failed ends by itself after this time.
const ENDED_WITHIN: u64 = 10_000_000;

/// Questions for one image; more than the 50 seconds that a process waits.
const ASKS_MAX: u32 = 25;

impl Simulation {
    pub(super) fn begin_restore(&mut self, key: ProcessKey) {
        if let Some(rank) = self.ranks.get_mut(&key) {
            rank.activity = Activity::Restoring;
        }
        self.ask_to_restore(key);
    }

    fn ask_to_restore(&mut self, key: ProcessKey) {
        let Some(rank) = self.ranks.get_mut(&key).filter(|rank| rank.is_alive) else {
            return;
        };
        let restoring = &mut rank.restoring;
        restoring.asks += 1;
        let number = restoring.asks;
        let ask = match restoring.old_size {
            None => RestoreAsk::Plan,
            Some(_) => {
                let next = Rank(restoring.next);
                let asked = restoring.asked.filter(|asked| asked.rank == next);
                let asked = asked.unwrap_or(Asked { rank: next, number });
                restoring.asked = Some(asked);
                let runs = vec![BlockRun { first: 0, count: 9 }];
                RestoreAsk::Blocks { asked, runs }
            }
        };
        self.say(key, AppToDaemon::Restore(ask), None);
        self.queue
            .after(ASK_AGAIN, Happening::Rank(RankHappening::AsksAgain { key, number }));
    }

    /// Time has passed since a question.
    pub(super) fn on_asks_again(&mut self, key: ProcessKey, number: u32) {
        let Some(rank) = self.ranks.get(&key).filter(|rank| rank.is_alive) else {
            return;
        };
        let restoring = &rank.restoring;
        if rank.activity != Activity::Restoring || restoring.asks != number || restoring.has_failed {
            return;
        }
        if restoring.asks >= ASKS_MAX {
            let text = format!("{key:?} asked for {:?}", restoring.asked);
            self.violate(Violation::new("a_restored_rank_is_answered", text));
            return self.fail_to_restore(key, "the daemon does not answer".to_owned(), true);
        }
        self.ask_to_restore(key);
    }

    pub(super) fn on_restore_answer(&mut self, key: ProcessKey, answer: RestoreAnswer, file: Option<File>) {
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        if rank.activity != Activity::Restoring || rank.restoring.has_failed {
            return;
        }
        let restoring = &mut rank.restoring;
        match answer {
            RestoreAnswer::Plan {
                awaited,
                old_size,
                weights,
                ..
            } if restoring.old_size.is_none() => {
                restoring.awaited = awaited;
                restoring.old_size = Some(old_size);
                restoring.weights = weights;
                self.ask_to_restore(key);
            }
            RestoreAnswer::Plan { .. } => {}
            RestoreAnswer::Image { asked, attempt, .. } if restoring.asked == Some(asked) => {
                restoring.is_checkpoint = attempt.is_none();
                let image = file.and_then(|file| image::decode(&file.borrow()));
                self.take_image(key, asked, image);
            }
            RestoreAnswer::Lost { asked, reason, .. } if restoring.asked == Some(asked) => {
                self.fail_to_restore(key, reason, false);
            }
            RestoreAnswer::Image { .. } | RestoreAnswer::Lost { .. } => {}
        }
    }

    fn take_image(&mut self, key: ProcessKey, asked: Asked, image: Option<(u64, image::Data)>) {
        let Some((iteration, data)) = image else {
            return self.fail_to_restore(key, format!("the image of rank {} is none", asked.rank), false);
        };
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        let restoring = &mut rank.restoring;
        if *restoring.iteration.get_or_insert(iteration) != iteration {
            let text = format!("the image of rank {} is of another iteration", asked.rank);
            return self.fail_to_restore(key, text, false);
        }
        let (_, number, size) = rank.belonging.planned;
        let own = block(&restoring.weights, size, rank.program.elements, Rank(number));
        let mine = data.into_iter().filter(|(index, _)| own.contains(index));
        restoring.data.extend(mine);
        restoring.next += 1;
        if restoring.old_size.is_some_and(|size| restoring.next < size) {
            return self.ask_to_restore(key);
        }
        if restoring.data.len() != own.len() {
            return self.fail_to_restore(key, "elements are missing".to_owned(), false);
        }
        self.restored(key);
    }

    fn restored(&mut self, key: ProcessKey) {
        let (now, limits) = (self.moment(), self.scenario.limits());
        let first = self.ledger.epoch_of(key);
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        let mut restoring = std::mem::take(&mut rank.restoring);
        let (epoch, number, _) = rank.belonging.planned;
        rank.data = std::mem::take(&mut restoring.data);
        rank.iteration = restoring.iteration.unwrap_or(0);
        rank.keeping.begun_with = restoring.iteration.filter(|_| restoring.is_checkpoint);
        (rank.epoch, rank.rank) = (first.unwrap_or(epoch), Rank(number));
        rank.page.started = rank.page.started.max(rank.iteration + 1);
        let awaited = restoring.awaited;
        let (side, told) = RankSide::restored(now, rank.rank, awaited, String::new(), limits);
        rank.side = Some(side);
        rank.restoring.weights = restoring.weights;
        let iteration = rank.iteration;
        self.tell(|| format!("{key:?} has its data back, of iteration {iteration}"));
        if awaited.is_some() {
            self.wait(key);
            self.follow(key, vec![told]);
            return self.drain_inbox(key);
        }
        self.take_restored_place(key);
        self.follow(key, vec![told]);
        self.drain_inbox(key);
        self.announce(key);
    }

    fn take_restored_place(&mut self, key: ProcessKey) {
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        let (_, _, size) = rank.belonging.planned;
        let weights = std::mem::take(&mut rank.restoring.weights);
        self.take_place(key, (size, weights));
    }

    /// The relaunch is decided: the process begins where those before it stood.
    pub(super) fn begin_restored(&mut self, key: ProcessKey) {
        self.take_restored_place(key);
        self.announce(key);
    }

    fn fail_to_restore(&mut self, key: ProcessKey, reason: String, is_unanswered: bool) {
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        rank.restoring.has_failed = true;
        self.tell(|| format!("{key:?} cannot be restored: {reason}"));
        let failed = AppToDaemon::RestoreFailed { reason, is_unanswered };
        self.say(key, failed, None);
        let status = ExitStatus::Code(1);
        self.queue
            .after(ENDED_WITHIN, Happening::Rank(RankHappening::Ends { key, status }));
    }
}
