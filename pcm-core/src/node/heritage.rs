//! How a node begins: with nothing, or where an earlier daemon of the node left off.

use super::event::Held;
use super::machine::Node;
use super::memory::MemoryFile;
use super::record::{Past, Record};
use super::store::checkpoint_store::HeldBuffer;
use super::timer::Timer;
use crate::node::cluster::members::SETTLED_AFTER;
use crate::node::jobs::coordinating::{Audience, Led, RETURN_AFTER_RESTART_WITHIN};
use crate::node::jobs::parts::Local;
use crate::node::outbox::Effect;
use crate::node::streams::job_output::JobOutput;
use pcm_proto::event::EventKind;
use pcm_proto::ids::Epoch;
use pcm_proto::parked::ParkKey;

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
        self.record(Record::Listens {
            address: self.address.clone(),
        });
        if past.keeper_since_us.is_none() {
            self.record(Record::KeeperSince(self.nodes.own().keeper_since_us));
        }
        let processes = held.len() as u32;
        for (ended_us, status) in past.ended {
            self.close(status.job);
            self.ended.remember(ended_us, status);
        }
        let own_host = self.nodes.own().host;
        for report in &past.nodes {
            self.set_address(&report.node, &report.address);
            self.quorum.note_host(&report.node, report.host == own_host);
        }
        let mut written = past.written;
        let spans_hosts = past.nodes.iter().any(|report| report.host != own_host);
        for (job, machine) in past.jobs {
            let is_local = machine.part().is_some();
            let coordinator = machine.coordinator().cloned();
            let known = self.jobs.insert(job, machine);
            if is_local {
                let mut local = Local::new(job);
                for ((process, stream), bytes) in past.printed.get(&job).cloned().unwrap_or_default() {
                    local.output.go_on_at(process, stream, bytes);
                }
                known.local = Some(local);
            }
            let Some(coordinator) = coordinator else { continue };
            let (is_detached, is_inherited) = (coordinator.spec().detached, coordinator.reign() > 0);
            let output = if is_detached {
                let written = written.remove(&job).unwrap_or_default();
                JobOutput::to_files(job, written, &mut self.out)
            } else {
                JobOutput::to_absent_control(job)
            };
            known.led = Some(Led::new(&coordinator, Audience::Detached, output));
            if is_inherited && spans_hosts && !is_detached {
                self.seek_audience(job, RETURN_AFTER_RESTART_WITHIN);
            } else if !is_detached {
                self.await_audience(job, RETURN_AFTER_RESTART_WITHIN);
            }
        }
        let held = self.take_over(held);
        self.take_over_memory(parked, buffers, past.kept);
        self.restart_jobs(held);
        let own = self.own.clone();
        self.on_jobs_linked(&own);
        if restarts > 0 {
            self.note(None, Epoch(0), EventKind::DaemonRestarted { processes });
        } else {
            self.note(None, Epoch(0), EventKind::NodeUp { name: own });
            self.boot_subtree();
        }
        let chosen = self.nodes.own().fabric.clone();
        self.note(None, Epoch(0), EventKind::FabricChosen(chosen));
        self.agent.start(&mut self.out);
        self.on_beat();
        if past.is_draining {
            self.set_draining(true);
        }
        self.on_membership_timer();
        self.out.arm(SETTLED_AFTER, Timer::Settled);
        self.handle_own();
        self.out.take()
    }
}
