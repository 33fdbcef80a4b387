//! Tells the jobs that this node leads when it may be cut off from the cluster, and whoever is attached to them to look
//! elsewhere. [`crate::node::cluster::quorum`] says whether it is.

use crate::job::coordinator::Input;
use crate::moment::Moment;
use crate::node::machine::Node;
use crate::node::requester::Requester;
use crate::node::timer::Timer;
use pcm_proto::control::DaemonToControl;
use pcm_proto::ids::NodeName;
use std::time::Duration;

/// A node in doubt looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// An attached `pcmctl` is told again: to look elsewhere takes it a second or two.
const TELL_AGAIN: Duration = Duration::from_secs(2);

/// What the jobs and their readers were told last.
#[derive(Debug, Default)]
pub(in crate::node) struct DoubtTold {
    is_in_doubt: bool,
    is_looking: bool,
    told: Option<Moment>,
}

impl Node {
    /// Whether a node was lost so lately that others may be about to be.
    pub(in crate::node) fn is_just_lost(&self, node: &NodeName) -> bool {
        self.quorum.is_just_lost(self.out.now(), node)
    }

    /// A node is gone that did not say so. Before the jobs hear of it.
    pub(in crate::node) fn note_loss(&mut self, node: &NodeName) {
        self.quorum.note_loss(self.out.now(), node, &self.nodes);
        self.look_around();
    }

    pub(in crate::node) fn is_cut_off(&self) -> bool {
        self.quorum.is_cut_off(self.out.now(), &self.nodes)
    }

    pub(in crate::node) fn is_in_doubt(&self) -> bool {
        self.quorum.is_in_doubt(self.out.now(), &self.nodes)
    }

    pub(in crate::node) fn note_rejoined(&mut self) {
        self.quorum.note_rejoined(self.out.now(), &self.nodes);
    }

    pub(in crate::node) fn on_quorum_timer(&mut self) {
        self.doubt.is_looking = false;
        self.look_around();
    }

    /// Tells the jobs coordinated here when doubt begins and ends, and whoever is attached to them to look elsewhere.
    fn look_around(&mut self) {
        self.note_rejoined();
        let is_in_doubt = self.is_in_doubt();
        if is_in_doubt != self.doubt.is_in_doubt {
            self.tell_doubt();
        }
        if self.is_cut_off() {
            self.tell_attached();
        }
        if is_in_doubt && !std::mem::replace(&mut self.doubt.is_looking, true) {
            self.out.arm(LOOK_AGAIN, Timer::Quorum);
        }
    }

    /// Tells the jobs coordinated here whether there is doubt.
    pub(in crate::node) fn tell_doubt(&mut self) {
        let is_in_doubt = self.is_in_doubt();
        self.doubt.is_in_doubt = is_in_doubt;
        for job in self.jobs.led_ids() {
            self.coordinate(job, Input::Doubt { is_in_doubt });
        }
    }

    fn tell_attached(&mut self) {
        let now = self.out.now();
        if self.doubt.told.is_some_and(|at| now.since(at) < TELL_AGAIN) {
            return;
        }
        self.doubt.told = Some(now);
        let jobs = self.jobs.led_ids().into_iter();
        let links: Vec<_> = jobs.filter_map(|job| self.controls.attached_to(job)).collect();
        for link in links {
            self.answer(Requester::Control(link), DaemonToControl::CutOff);
        }
    }
}
