//! How a node begins: with nothing, or where an earlier daemon of the node left off.

use super::event::Held;
use super::machine::Node;
use super::memory::MemoryFile;
use super::outbox::Effect;
use super::record::{Past, Record};
use super::store::checkpoint_store::HeldBuffer;
use super::store::input::StoreInput;
use super::surroundings::Around;
use super::timer::Timer;
use pcm_proto::event::EventKind;
use pcm_proto::parked::ParkKey;
use std::time::Duration;

/// A daemon that was started again knows its cluster after this time; nodes of its jobs that are not there are gone.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// A node whose time is nearly up at its beginning leaves after this time: others are to know that it was there.
const END_KNOWN_AFTER: Duration = Duration::from_secs(1);

/// What an earlier daemon of the node left; empty for the first one.
#[derive(Debug)]
pub struct Heritage {
    /// How many daemons there were before.
    pub restarts: u32,
    /// Processes that the keeper holds.
    pub held: Vec<Held>,
    /// Images that the keeper holds; without memory where a file cannot be used.
    pub parked: Vec<(ParkKey, Option<MemoryFile>)>,
    /// Parts of checkpoints that the keeper holds.
    pub buffers: Vec<HeldBuffer>,
    /// What the journal says.
    pub past: Past,
}

impl Node {
    /// Takes up where an earlier daemon left off, or begins.
    pub fn begin(&mut self, heritage: Heritage) -> Vec<Effect> {
        let Heritage {
            restarts,
            held,
            parked,
            buffers,
            past,
        } = heritage;
        self.out.record(Record::Listens {
            address: self.settings.address.clone(),
        });
        self.out.record(Record::Boot(self.cluster.nodes().members.own_boot()));
        if past.keeper_since_us.is_none() {
            let since_us = self.cluster.nodes().own().keeper_since_us;
            self.out.record(Record::KeeperSince(since_us));
        }
        let processes = held.len() as u32;
        for (ended_us, status) in past.ended {
            self.jobs.table.past.remember(ended_us, status);
        }
        let own_host = self.cluster.nodes().own().host;
        for report in &past.nodes {
            self.cluster.remember(report, &mut self.out);
        }
        self.cluster.begin(&self.settings.spec.seeds);
        let spans_hosts = past.nodes.iter().any(|report| report.host != own_host);
        let streams = (past.printed, past.written);
        self.with_jobs(|jobs, cx| jobs.restore(past.jobs, streams, spans_hosts, cx));
        let held = self.with_jobs(|jobs, cx| jobs.take_over(held, cx));
        let around = Around {
            jobs: &self.jobs.table,
            cluster: &self.cluster,
        };
        self.store
            .take_over(parked, (buffers, past.kept), &around, &mut self.out);
        let own = self.settings.own.clone();
        // Checkpoints first, as for any coordinator.
        self.store_input(StoreInput::CoordinatorLinked { node: own.clone() });
        self.with_jobs(|jobs, cx| {
            jobs.table.past.remember_panics(past.panics);
            jobs.restart(held, cx);
            jobs.table.past.give_up_lost(past.lost, cx);
            jobs.on_linked(&own, cx);
        });
        if restarts > 0 {
            self.note(EventKind::DaemonRestarted { processes });
        } else {
            self.note(EventKind::NodeUp { name: own });
            self.boot.boot_subtree(&self.settings, &mut self.out);
        }
        let chosen = self.cluster.nodes().own().fabric.clone();
        self.note(EventKind::FabricChosen(chosen));
        self.agent.start(&mut self.out);
        self.on_beat();
        if past.is_draining {
            self.cluster.set_draining(true, &mut self.out);
        }
        self.out.arm(END_KNOWN_AFTER, Timer::End);
        self.cluster.on_membership_timer(&mut self.out);
        self.out.arm(SETTLED_AFTER, Timer::Settled);
        self.handle_own();
        self.out.take()
    }
}
