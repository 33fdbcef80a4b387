//! The agent of a node: it is there, asks for samples, and proposes nothing by itself. What agents decide has a
//! simulation of its own (`tests::agents`).

use pcm_core::node::requester::LinkId;

/// How often it asks for samples, in microseconds.
pub(super) const SAMPLES_EVERY: u64 = 3_000_000;

/// See the file head.
#[derive(Debug, Default)]
pub(super) struct Agent {
    /// Its life and its link.
    running: Option<(u64, LinkId)>,
}

impl Agent {
    pub(super) fn start(&mut self, life: u64, link: LinkId) {
        self.running = Some((life, link));
    }

    pub(super) fn is_running(&self, link: LinkId) -> bool {
        self.running.is_some_and(|(_, own)| own == link)
    }

    /// Ends it; its life and its link.
    pub(super) fn stop(&mut self) -> Option<(u64, LinkId)> {
        self.running.take()
    }
}
