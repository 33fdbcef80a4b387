//! The sockets of `pcmctl`, by link. Sends answers; never reads one.

use pcm_core::node::requester::LinkId;
use pcm_fabric::Sender;
use pcm_proto::control::DaemonToControl;
use std::collections::BTreeMap;

/// The senders of all links of `pcmctl`.
#[derive(Debug, Default)]
pub(super) struct ControlSenders(BTreeMap<LinkId, Sender>);

impl ControlSenders {
    pub(super) fn insert(&mut self, link: LinkId, sender: Sender) {
        self.0.insert(link, sender);
    }

    pub(super) fn remove(&mut self, link: LinkId) {
        self.0.remove(&link);
    }

    /// Sends an answer. A `pcmctl` that does not take its answers loses its link.
    pub(super) fn send(&self, link: LinkId, answer: &DaemonToControl) {
        let Some(sender) = self.0.get(&link) else { return };
        if let Err(error) = sender.try_send(answer) {
            tracing::warn!(?link, %error, "an answer was not sent, the link is dropped");
            sender.abort();
        }
    }

    /// Gives all senders away, to be closed.
    pub(super) fn take(&mut self) -> Vec<Sender> {
        std::mem::take(&mut self.0).into_values().collect()
    }
}
