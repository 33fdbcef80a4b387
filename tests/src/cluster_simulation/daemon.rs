//! One daemon: the real node, and what its process holds besides. All of it is lost when the daemon is killed.

use super::agent::Agent;
use super::happening::Life;
use super::memory::Memory;
use super::output::Written;
use super::peers::Peers;
use pcm_core::moment::Moment;
use pcm_core::node::Node;
use pcm_core::node::event::Event;
use pcm_core::node::requester::LinkId;
use pcm_proto::keeper::ProcessKey;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A process as its daemon serves it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attachment {
    pub(super) is_read: bool,
    pub(super) has_output_ended: bool,
    /// Its end was said on its channel.
    pub(super) is_silent: bool,
}

/// See the file head.
pub(super) struct Daemon {
    life: Life,
    pub(super) node: Node,
    /// When it began, in time of the history and on the clock of its machine.
    began: (u64, u64),
    pub(super) peers: Peers,
    pub(super) memory: Memory,
    pub(super) agent: Agent,
    pub(super) attached: BTreeMap<ProcessKey, Attachment>,
    /// Links of `pcmctl`.
    pub(super) controls: BTreeSet<LinkId>,
    pub(super) written: Written,
    /// It is stopped, or waits for its disk; what happens to it waits here.
    stopped: Option<VecDeque<Event>>,
    /// It has said its last words.
    pub(super) is_ending: bool,
}

impl Daemon {
    pub(super) fn new(life: Life, node: Node, began: (u64, u64)) -> Self {
        Self {
            life,
            node,
            began,
            peers: Peers::default(),
            memory: Memory::default(),
            agent: Agent::default(),
            attached: BTreeMap::new(),
            controls: BTreeSet::new(),
            written: Written::default(),
            stopped: None,
            is_ending: false,
        }
    }

    pub(super) fn life(&self) -> Life {
        self.life
    }

    pub(super) fn age(&self, now: u64) -> u64 {
        now - self.began.0
    }

    /// The time of its own clock, which goes on whatever the machine's does.
    pub(super) fn moment(&self, now: u64) -> Moment {
        Moment(self.began.1 + (now - self.began.0))
    }

    /// When the history comes to this moment.
    pub(super) fn when(&self, moment: Moment) -> u64 {
        self.began.0 + moment.0.saturating_sub(self.began.1)
    }

    pub(super) fn stop(&mut self) {
        self.stopped.get_or_insert_default();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// What waits while it is stopped; gives the event back when it is not.
    pub(super) fn wait(&mut self, event: Event) -> Option<Event> {
        match &mut self.stopped {
            Some(waiting) => {
                waiting.push_back(event);
                None
            }
            None => Some(event),
        }
    }

    pub(super) fn go_on(&mut self) -> VecDeque<Event> {
        self.stopped.take().unwrap_or_default()
    }
}
