//! One machine of the cluster: its keeper, its daemon, its disk, its clock.

use super::daemon::Daemon;
use super::disk::Disk;
use super::happening::{Boot, Life};
use super::keeper::Keeper;
use pcm_proto::ids::{JobId, NodeName};

/// Machines whose processes have the port of the first one's daemon.
const PORT: u16 = 7000;

/// Wall-clock time at which histories begin, in microseconds since 1970.
const EPOCH_US: u64 = 1_790_000_000_000_000;

/// See the file head.
pub(super) struct Machine {
    pub(super) name: NodeName,
    pub(super) host: u64,
    /// Counts its starts.
    pub(super) boot: u32,
    /// When its keeper was started or ended last.
    pub(super) since: u64,
    /// None while the machine is down or not of the cluster.
    pub(super) keeper: Option<Keeper>,
    pub(super) daemon: Option<Daemon>,
    pub(super) disk: Disk,
    /// How far its wall clock is off, in microseconds.
    pub(super) clock_off: i64,
    /// Daemons that it was told of when it was booted.
    pub(super) seeds: Vec<String>,
    /// It left on purpose.
    pub(super) has_left: bool,
}

impl Machine {
    pub(super) fn new(number: usize, host: u64) -> Self {
        Self {
            name: NodeName::new(format!("n{number}")).expect("a plain name"),
            host,
            boot: 0,
            since: 0,
            keeper: None,
            daemon: None,
            disk: Disk::default(),
            clock_off: 0,
            seeds: Vec::new(),
            has_left: false,
        }
    }

    pub(super) fn wall(&self, now: u64) -> u64 {
        (EPOCH_US + now).saturating_add_signed(self.clock_off)
    }

    pub(super) fn boot(&self, machine: usize) -> Boot {
        Boot {
            machine,
            number: self.boot,
        }
    }

    pub(super) fn life(&self) -> Option<Life> {
        self.daemon.as_ref().map(Daemon::life)
    }

    /// Its processes run, and nobody speaks for them.
    pub(super) fn is_without_daemon(&self) -> bool {
        self.is_up() && self.daemon.as_ref().is_none_or(Daemon::is_stopped)
    }

    /// Whether its keeper holds a buffer of a job's checkpoints.
    pub(super) fn holds(&self, job: JobId) -> bool {
        let mut buffers = self.keeper.iter().flat_map(|keeper| keeper.buffers.keys());
        buffers.any(|key| key.job == job)
    }

    pub(super) fn is_up(&self) -> bool {
        self.keeper.is_some()
    }
}

pub(super) fn address(machine: usize) -> String {
    format!("10.0.0.{machine}:{PORT}")
}

pub(super) fn machine_at(address: &str) -> Option<usize> {
    address.strip_prefix("10.0.0.")?.split(':').next()?.parse().ok()
}

pub(super) fn machine_named(name: &NodeName) -> Option<usize> {
    name.as_str().strip_prefix('n')?.parse().ok()
}
