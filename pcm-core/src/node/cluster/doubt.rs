//! What the jobs of this node and attached readers were told of doubt: whether the node may be cut off.

use super::machine::Cluster;
use crate::moment::Moment;
use crate::node::outbox::Outbox;
use crate::node::requester::LinkId;
use crate::node::timer::Timer;
use pcm_proto::control::DaemonToControl;
use std::time::Duration;

/// A node in doubt looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// An attached `pcmctl` is told again: to look elsewhere takes it a second or two.
const TELL_AGAIN: Duration = Duration::from_secs(2);

/// See the file head.
#[derive(Debug, Default)]
pub(in crate::node) struct DoubtTold {
    is_in_doubt: bool,
    is_looking: bool,
    told: Option<Moment>,
}

impl DoubtTold {
    pub(in crate::node) fn on_timer(&mut self) {
        self.is_looking = false;
    }

    /// Whether the jobs were told otherwise.
    pub(in crate::node) fn is_other(&self, is_in_doubt: bool) -> bool {
        is_in_doubt != self.is_in_doubt
    }

    pub(in crate::node) fn on_told(&mut self, is_in_doubt: bool) {
        self.is_in_doubt = is_in_doubt;
    }

    /// Tells attached readers to look elsewhere, and looks again while there is doubt.
    pub(in crate::node) fn look_around(&mut self, cluster: &Cluster, readers: &[LinkId], out: &mut Outbox) {
        let now = out.now();
        if cluster.is_cut_off(now) && self.told.is_none_or(|at| now.since(at) >= TELL_AGAIN) {
            self.told = Some(now);
            for link in readers {
                out.control(*link, DaemonToControl::CutOff);
            }
        }
        if cluster.is_in_doubt(now) && !std::mem::replace(&mut self.is_looking, true) {
            out.arm(LOOK_AGAIN, Timer::Quorum);
        }
    }
}
