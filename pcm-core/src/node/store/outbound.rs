//! Images that are written into memory of other nodes. Never asks for one: [`super::inbound`] does.

use super::effect::StoreEffect;
use super::image_key::ImageKey;
use super::step::Step;
use crate::moment::Moment;
use crate::node::links::CopyGoes;
use crate::node::memory::MemoryId;
use crate::node::outbox::Inward;
use pcm_proto::fabric::BulkAddress;
use pcm_proto::ids::NodeName;
use pcm_proto::image::ImageMessage;

/// Images written to others at once: a relaunch has a node give to all others. What is more comes over links.
const PUTS_MAX: usize = 64;

/// An image that is being written to another node.
#[derive(Debug)]
struct Put {
    number: u64,
    node: NodeName,
    key: ImageKey,
    region: [u8; 16],
    at: BulkAddress,
    since: Moment,
}

/// All images that are being written to other nodes.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    puts: Vec<Put>,
    count: u64,
}

impl Outbound {
    /// Another node offers memory for an image that is here.
    pub(super) fn put(
        &mut self,
        key: ImageKey,
        node: &NodeName,
        (region, at): ([u8; 16], BulkAddress),
        memory: MemoryId,
        step: &mut Step<'_>,
    ) {
        // What it offered before it wants no more.
        self.cancel(|put| put.key == key && put.node == *node, step);
        if self.puts.len() >= PUTS_MAX {
            let reason = format!("node {} writes {PUTS_MAX} images already", step.out.own());
            return step.say_of_image(node, key, ImageMessage::NotPut { region, reason });
        }
        self.count += 1;
        let (number, node) = (self.count, node.clone());
        self.puts.push(Put {
            number,
            node: node.clone(),
            key,
            region,
            at,
            since: step.out.now(),
        });
        step.push(StoreEffect::Put {
            number,
            node,
            region,
            at,
            memory,
        });
    }

    /// An image was written to another node, or could not be; where it could not, that node fetches it.
    pub(super) fn on_ended(&mut self, number: u64, outcome: Result<u64, String>, step: &mut Step<'_>) {
        let ended = self.puts.extract_if(.., |put| put.number == number).last();
        let Some(put) = ended else { return };
        match outcome {
            Ok(bytes) if matches!(put.at, BulkAddress::Tcp(_)) => step.out.inward(Inward::CopyMeasured {
                node: put.node,
                goes: CopyGoes::There,
                since: put.since,
                bytes,
            }),
            Ok(_) => {}
            Err(reason) => {
                let region = put.region;
                step.say_of_image(&put.node, put.key, ImageMessage::NotPut { region, reason });
            }
        }
    }

    /// A node is gone, and what it wanted.
    pub(super) fn on_node_gone(&mut self, node: &NodeName, step: &mut Step<'_>) {
        self.cancel(|put| put.node == *node, step);
    }

    fn cancel(&mut self, is_over: impl Fn(&Put) -> bool, step: &mut Step<'_>) {
        for put in self.puts.extract_if(.., |put| is_over(put)) {
            let number = put.number;
            step.push(StoreEffect::CancelPut { number });
        }
    }
}
