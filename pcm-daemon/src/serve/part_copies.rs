//! Copies of parts of checkpoints that this node is to hold, at most a few at a time, and what restored ranks here ask
//! of a checkpoint. Never decides where a copy goes, nor how it comes: [`super::arrivals`] does.

use super::daemon::Daemon;
use super::kept::Ordered;
use pcm_proto::app::DaemonToApp;
use pcm_proto::ids::{NodeName, Rank};
use pcm_proto::keeper::ProcessKey;
use pcm_proto::parked::{RestoreAnswer, RestoreAsk};
use std::collections::VecDeque;

/// Copies made at once; the others wait. With the window of each they bound what copying takes of a link.
const COPIES_AT_ONCE: usize = 2;

impl Daemon {
    pub(super) fn on_copy_ordered(&mut self, ordered: Ordered) {
        let (key, ..) = ordered;
        if let Some((buffer, holds)) = self
            .kept
            .parts
            .get(&key)
            .and_then(|buffer| Some((*buffer, self.kept.buffers.get(buffer)?.holds.clone()?)))
        {
            return self.say_stored(buffer, &holds);
        }
        let under_way = self.images.arrivals.get(&key.into());
        let is_known = under_way.is_some_and(|arrival| arrival.copy.is_some())
            || self.kept.queue.iter().any(|(known, ..)| *known == key);
        if !is_known {
            self.kept.queue.push_back(ordered);
            self.start_copies();
        }
    }

    pub(super) fn start_copies(&mut self) {
        let arrivals = self.images.arrivals.values();
        let mut count = arrivals.filter(|arrival| arrival.copy.is_some()).count();
        while count < COPIES_AT_ONCE
            && let Some((key, stamp, process, from, coordinator)) = self.kept.queue.pop_front()
        {
            count += 1;
            self.copy_image(key.into(), from, (stamp, process, coordinator));
        }
    }

    /// A rank that continues others from a checkpoint asks for data.
    pub(super) fn on_checkpoint_ask(&mut self, asker: ProcessKey, ask: RestoreAsk) {
        let Some(restores) = self
            .parts
            .get(&asker.job)
            .and_then(|part| part.state.restores().cloned())
        else {
            tracing::warn!(job = %asker.job, process = %asker.process, "a rank asks for data, but nothing is restored");
            return;
        };
        match ask {
            RestoreAsk::Plan => {
                let answer = RestoreAnswer::Plan {
                    old_size: restores.stamp.ranks,
                    continues: (0..restores.stamp.ranks).map(|rank| Some(Rank(rank))).collect(),
                    weights: Vec::new(),
                };
                self.tell_app(asker.job, asker.process, DaemonToApp::Restore(answer));
            }
            RestoreAsk::Blocks { asked, runs } => {
                let rank = asked.rank;
                let key = (asker.job, restores.stamp.id, rank);
                if let Some(memory) = self.kept.part_for_others(key) {
                    let (bytes, file) = (memory.bytes(), memory.file().try_clone());
                    return self.hand_image(asker, asked, None, (bytes, file));
                }
                let sources = restores.sources.get(rank.0 as usize).cloned().unwrap_or_default();
                let sources: VecDeque<NodeName> = sources.into_iter().filter(|node| *node != self.own).collect();
                self.fetch_image(
                    key.into(),
                    (restores.stamp.epoch, sources),
                    (asker.process, asked),
                    runs,
                );
            }
        }
    }
}
