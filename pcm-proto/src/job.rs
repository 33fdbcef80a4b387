//! What a job is asked to be, and what can be said of it while it runs.

use crate::frame::{self, EncodeError, FrameKind};
use crate::ids::{Bytes, Epoch, Iteration, JobId, NAME_LENGTH_MAX, NodeName, ProcessId, Rank};
use crate::method::Method;
use crate::refusal::{self, Refusal};
use crate::registered::Registered;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Most ranks one `run` may ask for. MPICH's process mapping and our page table of peers are sized for this.
pub const RANKS_MAX: u32 = 4096;

/// Most spares a job may keep of one program: each has the memory of an initialised MPI, about 30 MB.
pub const SPARES_MAX: u32 = 64;

/// Longest encoding of a [`JobSpec`]. It travels inside of longer messages: orders to start with the layout and the
/// worlds, a keeper's orders with the settings of MPI, a coordinator's will with all of its job. Each has a limit.
pub const SPEC_BYTES_MAX: usize = 3 << 19;

/// Longest path that the kernel takes.
const PATH_BYTES_MAX: usize = 4096;

/// How the ranks a job starts with are grouped into MPI worlds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorldShape {
    /// One world over all nodes: shared memory and node-aware collectives.
    #[default]
    Job,
    /// One world per node, joined at start.
    Node,
    /// One world per rank, joined at start: every rank can leave without a mate noticing.
    Rank,
}

/// Everything `run` says about a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Its name; the program's file name by default.
    pub name: String,
    /// What the program said of itself; not the user's to give.
    #[serde(default)]
    pub registered: Registered,
    /// Ranks to start with.
    pub size: u32,
    /// Fewest ranks it may shrink to.
    pub min: u32,
    /// Most ranks it may grow to.
    pub max: u32,
    /// Nodes it may use; empty means all.
    pub nodes: Vec<NodeName>,
    /// Most of its ranks on a node when it starts and grows.
    pub per_node: Option<u32>,
    /// The policy that decides moves, by name; `None` leaves the cluster's default.
    pub policy: Option<String>,
    /// Grouping of the first ranks.
    pub world: WorldShape,
    /// Program, as typed; resolved by the daemon that starts it, against `cwd` and the `PATH` in `env`.
    pub program: Vec<u8>,
    pub args: Vec<Vec<u8>>,
    /// The programs of a job of several, by rank from 0 on, the first of them `program`; empty where all ranks run
    /// that. Such a job keeps its number of ranks.
    pub commands: Vec<Command>,
    /// Environment of the one who typed `run`.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    pub cwd: PathBuf,
    /// Whether ranks are bound to the CPUs of their node.
    pub bind: bool,
    /// Whether libpcm is preloaded, so that a program which is not linked with it can be seen and moved.
    pub preload: bool,
    /// MPI settings by name that replace ours; an empty value leaves the variable unset.
    pub mpi_settings: Vec<(String, String)>,
    /// Whether the job goes on without the `pcmctl` that started it.
    pub detached: bool,
    /// How often it is started again after crashes; 0 ends it with the first.
    pub restarts_max: u32,
    /// How data moves when it is reconfigured live; `None` leaves the default.
    pub method: Option<Method>,
    /// How many started and initialised processes are kept ready of each program that it spawned lately, for the next
    /// spawn of one.
    pub spares: u32,
}

/// One program of a job of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Ranks that run it.
    pub count: u32,
    /// As typed, like that of the job.
    #[serde(with = "serde_bytes")]
    pub program: Vec<u8>,
    pub args: Vec<Vec<u8>>,
}

impl JobSpec {
    /// The program of a rank, and its place among those of the job; none where the job has one program.
    #[must_use]
    pub fn command_of(&self, rank: Rank) -> Option<(u32, &Command)> {
        let mut below = 0;
        (0..).zip(&self.commands).find(|(_, command)| {
            below += command.count;
            rank.0 < below
        })
    }

    /// Refuses what is too long to reach the nodes, their keepers and the job's heirs.
    pub fn check_length(&self) -> Result<(), Refusal> {
        let parts = [
            ("name", self.name.len(), NAME_LENGTH_MAX),
            ("program", self.program.len(), PATH_BYTES_MAX),
            ("working directory", self.cwd.as_os_str().len(), PATH_BYTES_MAX),
        ];
        let message = if let Some((what, length, max)) = parts.into_iter().find(|(_, length, max)| length > max) {
            format!("the job's {what} has {length} bytes, {max} are the most: shorten it")
        } else if let Err(EncodeError::TooLarge { max }) =
            frame::encode(FrameKind::Message, self, SPEC_BYTES_MAX, &mut Vec::new())
        {
            let kib = max >> 10;
            format!(
                "the job's arguments and environment take more than {kib} KiB: unset large variables, or pass long \
                 data in a file"
            )
        } else {
            return Ok(());
        };
        Err(Refusal::new(refusal::ENVIRONMENT_TOO_LARGE, message))
    }
}

/// Where a job stands. `Running` is all that most users ever see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Its processes are being started.
    Starting,
    /// It crashed and is being started again.
    Recovering,
    /// Its ranks run.
    Running,
    /// A reconfiguration is under way.
    Reconfiguring,
    /// It is being ended.
    Ending,
    Ended,
}

/// Why and how a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    /// The worst exit code of the ranks that did not leave on order.
    pub code: i32,
    /// One sentence: what happened, to what, what to do next. Empty when every rank finished well.
    pub reason: String,
}

/// One line of `jobs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatus {
    pub job: JobId,
    pub name: String,
    /// Where it stands.
    pub state: JobState,
    /// Its layout's epoch.
    pub epoch: Epoch,
    /// Its number of ranks.
    pub size: u32,
    /// The nodes it uses, each with its number of ranks.
    pub nodes: Vec<(NodeName, u32)>,
    /// When it was accepted, in microseconds since 1970.
    pub started_us: u64,
    /// How it ended, when it has.
    pub end: Option<JobEnd>,
    /// The node whose daemon coordinates it.
    pub coordinator: NodeName,
    /// Counts the coordinators before that one, whose nodes were lost.
    #[serde(default)]
    pub reign: u32,
    /// Processes that wait for a spawn or for the job to grow; they are no ranks.
    #[serde(default)]
    pub spares: Vec<SpareStatus>,
}

/// A process that was started before it is needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpareStatus {
    /// Its number, where it waits for a spawn; one that waits for the job to grow has none.
    pub process: Option<ProcessId>,
    pub node: NodeName,
    /// Its process id; 0 while not known.
    pub pid: u32,
    /// The program it runs.
    pub program: String,
    /// Whether it can be taken.
    pub ready: bool,
}

/// One rank of `ps`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankStatus {
    /// Rank in the current communicator.
    pub rank: Rank,
    /// The process behind it.
    pub process: ProcessId,
    pub node: NodeName,
    /// Its process id.
    pub pid: u32,
    /// Its iteration, when it counts any.
    pub iteration: Iteration,
    /// Iterations that this process has ended: the next two are means over them.
    pub iterations_here: u64,
    /// Useful time per iteration, outside MPI.
    pub useful_ms: f64,
    /// Time inside MPI, per iteration; of a rank that counts none, all of it.
    pub wait_ms: f64,
    /// Memory it has resident, shared memory included; 0 when not known.
    pub memory: Bytes,
    /// The iteration its loop ends at, where it said so.
    pub iterations_declared: Option<Iteration>,
    /// Bytes it has taken from checkpoint files.
    pub restored: Bytes,
    /// The MPI call it is in, or `-` when it computes.
    pub call: String,
    /// For how long.
    pub call_since_ms: f64,
    /// The peer of the call, where it has one.
    pub peer: Option<i32>,
    /// The tag of the call, where it has one.
    pub tag: Option<i32>,
    /// The size of the call's message, where it has one.
    pub bytes: Option<Bytes>,
    /// Bytes sent so far.
    pub sent: Bytes,
    /// Bytes received so far.
    pub received: Bytes,
    /// Bytes of data it has registered.
    #[serde(default)]
    pub registered: Bytes,
    /// The constant ones of them.
    #[serde(default)]
    pub constant: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(argument: usize) -> JobSpec {
        JobSpec {
            name: "test".to_owned(),
            size: 1,
            min: 1,
            max: 1,
            program: b"a.out".to_vec(),
            args: vec![vec![b'x'; argument]],
            cwd: "/".into(),
            ..JobSpec::default()
        }
    }

    fn code(spec: &JobSpec) -> Option<String> {
        spec.check_length().err().map(|refused| refused.code)
    }

    #[test]
    fn a_job_is_as_long_as_its_limit_and_no_byte_longer() {
        let (mut bytes, large) = (Vec::new(), SPEC_BYTES_MAX - 4096);
        frame::encode(FrameKind::Message, &spec(large), SPEC_BYTES_MAX, &mut bytes).unwrap();
        let rest = large + SPEC_BYTES_MAX - (bytes.len() - frame::HEADER_LENGTH);
        assert_eq!(code(&spec(rest)), None);
        let too_long = Some(refusal::ENVIRONMENT_TOO_LARGE.to_owned());
        assert_eq!(code(&spec(rest + 1)), too_long);
        let name = "x".repeat(NAME_LENGTH_MAX + 1);
        assert_eq!(code(&JobSpec { name, ..spec(1) }), too_long);
        let program = vec![b'x'; PATH_BYTES_MAX + 1];
        assert_eq!(code(&JobSpec { program, ..spec(1) }), too_long);
    }
}
