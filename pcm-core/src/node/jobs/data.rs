//! What messages about data are for the node's store.

use crate::node::memory::MemoryFile;
use crate::node::store::image_key::ImageKey;
use crate::node::store::input::{BlockCame, StoreInput};
use crate::parked::block_checksum;
use pcm_proto::app::AppToDaemon;
use pcm_proto::ids::NodeName;
use pcm_proto::image::ImageMessage;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::parked::ParkKey;

/// A rank says something about its data.
pub(in crate::node) fn of_rank(
    from: ProcessKey,
    message: AppToDaemon,
    memory: Option<MemoryFile>,
) -> Option<StoreInput> {
    let ProcessKey { job, process } = from;
    let key = |attempt| ParkKey { job, attempt, process };
    Some(match message {
        AppToDaemon::Reconfiguration(report) => StoreInput::Report { process: from, report },
        AppToDaemon::Parked { attempt, .. } => StoreInput::ParkHanded {
            key: key(attempt),
            memory,
        },
        AppToDaemon::Ahead {
            attempt,
            table,
            stretches,
        } => StoreInput::ConstantData {
            key: key(attempt),
            table,
            stretches,
        },
        AppToDaemon::Restore(ask) => StoreInput::RestoreAsked { asker: from, ask },
        AppToDaemon::RestoreFailed { reason, is_unanswered } => StoreInput::RestoreFailed {
            process: from,
            reason,
            is_unanswered,
        },
        AppToDaemon::Checkpoint(said) => StoreInput::RankCheckpoint { from, said, memory },
        message => {
            tracing::error!(?message, "a rank's message is not about its data");
            return None;
        }
    })
}

/// Another node says something about an image; a block is checked first.
pub(in crate::node) fn of_node(key: ImageKey, node: &NodeName, message: ImageMessage) -> StoreInput {
    let node = node.clone();
    match message {
        ImageMessage::Block {
            block,
            image_bytes,
            checksum,
            bytes,
        } => StoreInput::Block {
            key,
            node,
            came: BlockCame {
                block,
                image_bytes,
                is_sound: block_checksum(&bytes) == checksum,
                bytes,
            },
        },
        message => StoreInput::Image { key, node, message },
    }
}
