//! What a process does of what the library's machine says, and what it hears from its daemon.

use super::happening::{Happening, RankHappening};
use super::image::File;
use super::rank::{Activity, Call};
use super::scenario::Plant;
use super::seen::Seen;
use super::simulation::Simulation;
use pcm_core::reconfiguration::rank::RankEffect;
use pcm_proto::app::{AppToDaemon, DaemonToApp};
use pcm_proto::ids::Rank;
use pcm_proto::keeper::{ExitStatus, ProcessKey};
use pcm_proto::reconfiguration::{ReconfigurationOrder, ReconfigurationReport};

impl Simulation {
    /// Its channel delivers what its daemon said.
    pub(super) fn on_told(&mut self, key: ProcessKey, message: DaemonToApp, file: Option<File>) {
        let Some(rank) = self.ranks.get_mut(&key).filter(|rank| rank.is_alive) else {
            return;
        };
        match message {
            DaemonToApp::Checkpoint(order) => rank.keeping.on_order(&order),
            DaemonToApp::Restore(answer) => self.on_restore_answer(key, answer, file),
            DaemonToApp::Reconfiguration(ReconfigurationOrder::Ahead { attempt, .. }) => {
                self.on_plan_ahead(key, attempt);
            }
            message @ DaemonToApp::Reconfiguration(_) => {
                rank.inbox.push(message);
                if rank.activity == Activity::Waiting && !rank.is_stuck {
                    self.drain_inbox(key);
                } else if self.has_plant(Plant::RankEntersAnywhere) {
                    self.enter_where_it_is(key);
                }
            }
            DaemonToApp::Refused { .. } => {}
        }
    }

    /// It may do something ahead of the meeting, and says when it has.
    fn on_plan_ahead(&mut self, key: ProcessKey, attempt: pcm_proto::reconfiguration::Attempt) {
        if self.breaks(self.scenario.faults.ahead_fails) {
            return;
        }
        self.say(
            key,
            AppToDaemon::Reconfiguration(ReconfigurationReport::Ahead { attempt }),
            None,
        );
    }

    pub(super) fn drain_inbox(&mut self, key: ProcessKey) {
        let now = self.moment();
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        for message in std::mem::take(&mut rank.inbox) {
            let DaemonToApp::Reconfiguration(order) = message else {
                continue;
            };
            let Some(rank) = self.ranks.get_mut(&key).filter(|rank| rank.is_alive) else {
                return;
            };
            let Some(side) = &mut rank.side else { return };
            let called = match &order {
                ReconfigurationOrder::Meet {
                    attempt,
                    ceiling,
                    meeting,
                    ..
                } => Some((*attempt, *ceiling, Some(meeting.clone()))),
                ReconfigurationOrder::Park { attempt, ceiling, .. } => Some((*attempt, *ceiling, None)),
                _ => None,
            };
            let effects = side.on_order(now, order);
            let follows = effects
                .iter()
                .any(|effect| matches!(effect, RankEffect::Meet(_) | RankEffect::Park));
            if let Some((attempt, ceiling, meeting)) = called.filter(|_| follows) {
                rank.call = Some(Call { attempt, meeting });
                rank.next_turn();
                if rank.is_member {
                    let (group, iteration) = (rank.group(), rank.iteration);
                    self.ledger.see(Seen::Enters {
                        key,
                        group,
                        attempt,
                        iteration,
                    });
                } else {
                    rank.iteration = ceiling.0;
                }
            }
            self.follow(key, effects);
        }
    }

    pub(super) fn follow(&mut self, key: ProcessKey, effects: Vec<RankEffect>) {
        for effect in effects {
            self.follow_one(key, effect);
        }
    }

    fn follow_one(&mut self, key: ProcessKey, effect: RankEffect) {
        match effect {
            RankEffect::Tell(report) => {
                if let (ReconfigurationReport::AtCeiling { .. }, Some(rank)) = (&report, self.ranks.get_mut(&key)) {
                    rank.page.is_published = true;
                }
                let has_agreed = matches!(report, ReconfigurationReport::Moved { .. });
                self.say(key, AppToDaemon::Reconfiguration(report), None);
                if has_agreed && self.plants_now(Plant::RankGoesOnAfterAgreeing) {
                    self.begin_iteration(key);
                }
            }
            RankEffect::Proceed if self.ranks.get(&key).is_some_and(|rank| !rank.is_member) => self.begin_restored(key),
            RankEffect::Proceed => self.begin_iteration(key),
            RankEffect::Meet(meeting) => self.enter_meeting(key, &meeting),
            RankEffect::Park => {
                let delay = self.random.between(500, 20_000);
                if let Some(turn) = self.ranks.get(&key).map(super::rank::Rank::turn) {
                    self.queue.after(delay, Happening::Rank(RankHappening::MoveEnds(turn)));
                }
            }
            RankEffect::TakeUp { rank } => self.take_up(key, rank),
            RankEffect::Return => self.return_to_old(key),
            RankEffect::Leave => self.leave(key),
            RankEffect::End(reason) => {
                self.tell(|| format!("{key:?} ends itself: {reason:?}"));
                let status = ExitStatus::Code(1);
                self.queue
                    .after(1, Happening::Rank(RankHappening::Ends { key, status }));
            }
        }
    }

    /// Its data has gone; it ends by itself, or hangs.
    fn leave(&mut self, key: ProcessKey) {
        self.ledger.see(Seen::Leaves { key });
        let hangs = self.breaks(self.scenario.faults.leaver_hangs);
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        rank.next_turn();
        rank.is_member = false;
        rank.activity = Activity::Finished;
        if !hangs {
            self.begin_finalize(key);
        }
    }

    fn take_up(&mut self, key: ProcessKey, number: Rank) {
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        let (Some(call), Some(staged)) = (rank.call.take(), rank.staged.take()) else {
            return;
        };
        let Some(meeting) = call.meeting else { return };
        rank.data = staged;
        rank.epoch = call.attempt.epoch.0 + 1;
        rank.rank = number;
        rank.page.started = rank.page.started.max(rank.iteration + 1);
        self.ledger.see(Seen::Leaves { key });
        self.take_place(key, (meeting.order.len() as u32, meeting.weights));
        let Some(rank) = self.ranks.get(&key) else { return };
        let (group, started) = (rank.group(), rank.page.started);
        if let Some(group) = self.groups.get_mut(group) {
            group.starts(number, started);
        }
        self.wake_mates(key);
    }

    fn return_to_old(&mut self, key: ProcessKey) {
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        let Some(call) = rank.call.take() else { return };
        rank.staged = None;
        if rank.is_member {
            let group = rank.group();
            self.ledger.see(Seen::Leaves { key });
            self.ledger.see(Seen::Returns {
                key,
                group,
                attempt: call.attempt,
            });
            self.wait(key);
        }
    }

    /// Mates that wait for this rank's part of an iteration.
    pub(super) fn wake_mates(&mut self, key: ProcessKey) {
        let Some(group) = self.ranks.get(&key).map(super::rank::Rank::group) else {
            return;
        };
        let mates: Vec<ProcessKey> = self
            .groups
            .get(group)
            .into_iter()
            .flat_map(|group| group.mates())
            .collect();
        for mate in mates {
            let blocked = self.ranks.get(&mate).filter(|mate| mate.is_alive);
            if let Some(mate) = blocked.filter(|mate| mate.activity == Activity::Blocked) {
                let turn = mate.turn();
                self.queue.after(20, Happening::Rank(RankHappening::Computed(turn)));
            }
        }
    }

    /// Channels keep their order.
    pub(super) fn say(&mut self, key: ProcessKey, message: AppToDaemon, file: Option<File>) {
        let (delay, now) = (self.random.between(10, 200), self.queue.now());
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        rank.channel.said.push_back((message, file));
        rank.channel.said_at = (now + delay).max(rank.channel.said_at + 1);
        let at = rank.channel.said_at;
        self.queue.at(at, Happening::Rank(RankHappening::Channel(key)));
    }

    /// Planted: it follows a call where it is.
    fn enter_where_it_is(&mut self, key: ProcessKey) {
        let Some(rank) = self.ranks.get(&key).filter(|rank| rank.is_member) else {
            return;
        };
        let attempt = match rank.inbox.last() {
            Some(DaemonToApp::Reconfiguration(
                ReconfigurationOrder::Meet { attempt, .. } | ReconfigurationOrder::Park { attempt, .. },
            )) => *attempt,
            _ => return,
        };
        let (group, iteration) = (rank.group(), rank.iteration);
        self.ledger.see(Seen::Enters {
            key,
            group,
            attempt,
            iteration,
        });
    }
}
