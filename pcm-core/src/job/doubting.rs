//! What a coordinator leaves undecided while it may be cut off from most of the cluster: another may lead the job by
//! now, so it must not end it for want of nodes, places or checkpoints. Knows nothing of why there is doubt.

use super::coordinator::Coordinator;

/// A coordinator that is in doubt for so long gives the job up after all: who mends a network, or starts nodes again,
/// has done so by then, and a `pcmctl` that sees nothing but this coordinator should hear something.
pub const DOUBT_US_MAX: u64 = 600_000_000;

impl Coordinator {
    /// Whether this coordinator can be sure that nobody else leads the job.
    pub(super) fn on_doubt(&mut self, now_us: u64, is_in_doubt: bool) {
        if is_in_doubt {
            self.doubts_since_us.get_or_insert(now_us);
        } else if self.doubts_since_us.take().is_some() {
            self.wait_for_places_anew(now_us);
        }
    }

    /// Whether the job's end is not to be decided now.
    pub(super) fn is_in_doubt(&self, now_us: u64) -> bool {
        self.doubts_until().is_some_and(|until| now_us < until)
    }

    pub(super) fn doubts_until(&self) -> Option<u64> {
        self.doubts_since_us.map(|since_us| since_us + DOUBT_US_MAX)
    }
}
