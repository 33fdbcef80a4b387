//! What neighbours in the trees of a node's worlds say to its part of a job. Some of it comes before the order that
//! begins the world, or is for another start of the job.

use super::participant::{Effect, Participant, Phase};
use pcm_proto::ids::NodeName;
use pcm_proto::peer::WorldMessage;

/// Words kept for worlds whose order has not come yet: one for each child of each world of a large order.
const EARLY_MAX: usize = 4096;

impl Participant {
    pub(super) fn on_world_message(&mut self, node: &NodeName, message: WorldMessage, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Active && self.is_early(&message) {
            if self.early.len() < EARLY_MAX {
                self.early.push((node.clone(), message));
            }
            return;
        }
        match message {
            WorldMessage::Barrier {
                world,
                generation,
                puts,
            } => {
                self.in_world(world, effects, |world| world.on_child(node, generation, puts));
            }
            WorldMessage::BarrierGone { world } => self.in_world(world, effects, |world| world.on_child_gone(node)),
            WorldMessage::BarrierDone {
                world,
                generation,
                puts,
            } => {
                self.in_world(world, effects, |world| world.on_done(generation, puts));
            }
        }
    }

    /// Whether this is about a world this node is going to have part in, but has not yet.
    fn is_early(&self, message: &WorldMessage) -> bool {
        match message {
            WorldMessage::Barrier { world, .. } | WorldMessage::BarrierGone { world } => world.0 >= self.world_next,
            WorldMessage::BarrierDone { .. } => false,
        }
    }

    /// Words about worlds that this part was going to have, as it took them: they are for the part that follows it.
    pub fn early(&self) -> &[(NodeName, WorldMessage)] {
        &self.early
    }

    /// Whether this is about a world of the job started again, which this part, at its end, makes way for.
    pub fn is_for_next_life(&self, message: &WorldMessage) -> bool {
        self.phase != Phase::Active && self.is_early(message)
    }

    /// Whether this is about a world that this part never had: of two coordinators behind a cut the other one may have
    /// started the job again, and this part makes way for that.
    pub fn is_for_other_life(&self, message: &WorldMessage) -> bool {
        match message {
            WorldMessage::Barrier { world, .. } | WorldMessage::BarrierGone { world } => {
                !self.is_early(message) && !self.worlds.contains_key(world)
            }
            WorldMessage::BarrierDone { .. } => false,
        }
    }
}
