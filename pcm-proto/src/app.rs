//! What the library inside a rank and the daemon of its node say to each other, and how the daemon tells a rank where
//! to find it.
//!
//! The channel is a `SOCK_SEQPACKET` socket pair: one packet, one message, MessagePack. Counters and orders that must
//! cost nothing travel on the shared page ([`crate::page`]) instead. Nothing here does I/O.

use crate::checkpoint::{CheckpointOrder, RankCheckpoint};
use crate::frame::EncodeError;
use crate::parked::{RestoreAnswer, RestoreAsk};
use crate::reconfiguration::{Attempt, ReconfigurationOrder, ReconfigurationReport};
use crate::registered::Registered;
use serde::{Deserialize, Serialize};

/// Names of the variables by which a daemon tells a rank where it belongs; `PMI_*` come beside them.
pub mod environment {
    /// Number of the inherited descriptor of the channel.
    pub const CHANNEL_FD: &str = "PCM_CHANNEL_FD";
    /// Under this key and its rank a process puts the name of its MPI into its world's values.
    pub const MPI_NAME_KEY: &str = "pcm-mpi-";
    /// Number of the inherited descriptor of the shared page.
    pub const PAGE_FD: &str = "PCM_PAGE_FD";
    /// The job, a [`crate::ids::JobId`].
    pub const JOB: &str = "PCM_JOB";
    /// The cluster, a number of its own for all time.
    pub const CLUSTER: &str = "PCM_CLUSTER_ID";
    /// The process within its job, a [`crate::ids::ProcessId`].
    pub const PROCESS: &str = "PCM_PROCESS";
    /// The world the process starts in, a [`crate::ids::WorldId`].
    pub const WORLD: &str = "PCM_WORLD";
    /// How many worlds the job begins with, numbered from 0 in the order of its ranks. Absent when it is one, and for
    /// processes that come later: only what begins together is joined within `MPI_Init`.
    pub const WORLDS: &str = "PCM_WORLDS";
    /// The node, a [`crate::ids::NodeName`].
    pub const NODE: &str = "PCM_NODE";
    /// What the node's host is called among the cluster's hosts: equal for processes that can share memory, and for no
    /// others. MPI is told it in place of the host's name.
    pub const HOST: &str = "PCM_HOST";
    /// The site of the node.
    pub const SITE: &str = "PCM_SITE";
    /// Set where the cluster had nodes at several sites when the job began: collective operations cross a slow link
    /// once. The same for all ranks of a job. From the user: [`NEVER_WIDE`] leaves them to MPI, [`ALWAYS_WIDE`] leaves
    /// none to MPI.
    pub const WIDE: &str = "PCM_WIDE";
    pub const NEVER_WIDE: &str = "no";
    pub const ALWAYS_WIDE: &str = "always";
    /// With [`WIDE`]: the slowest link between sites that was measured when the job began, as `pcm_core::wide::link`
    /// reads it. The same for all ranks of a job; the user's own value stays.
    pub const LINK: &str = "PCM_LINK";
    /// Bits of sums do not depend on where ranks are. The same for all ranks of a job; from `pcmctl`.
    pub const REPRODUCIBLE: &str = "PCM_REPRODUCIBLE";
    /// What the process is to the layout it belongs to: absent for one of the first layout, [`NEWCOMER`] or
    /// [`RESTORED`]. Only with it come the three below, which speak of the planned layout.
    pub const ROLE: &str = "PCM_ROLE";
    /// Waits to be called to a meeting.
    pub const NEWCOMER: &str = "newcomer";
    /// How blocking MPI calls wait: a word of [`crate::waiting::Waiting`]. The same for all ranks of a job.
    pub const WAIT: &str = "PCM_WAIT";
    /// Takes its data from what was parked, and runs.
    pub const RESTORED: &str = "restored";
    /// The planned layout's epoch.
    pub const EPOCH: &str = "PCM_EPOCH";
    /// The process's rank in it.
    pub const RANK: &str = "PCM_RANK";
    pub const SIZE: &str = "PCM_SIZE";
    /// `PHASE:MS`, from the user: makes that phase of reconfigurations last so much longer in each process. For tests.
    pub const HOLD: &str = "PCM_HOLD";
    /// Directory of the checkpoint to begin with; or several, one a line, the first sound one of which is taken.
    pub const RESTORE: &str = "PCM_RESTORE";
    /// How often to write a checkpoint: seconds, or `auto`.
    pub const CHECKPOINT_EVERY: &str = "PCM_CHECKPOINT_EVERY";
    /// Where checkpoints are written: a directory that all ranks share.
    pub const CHECKPOINT_DIR: &str = "PCM_CHECKPOINT_DIR";
    /// The programs of a job of several, as checkpoints in files keep them; from `pcmctl`.
    pub const PROGRAMS: &str = "PCM_PROGRAMS";
    /// What the names of checkpoints begin with; default: the program's name.
    pub const CHECKPOINT_NAME: &str = "PCM_CHECKPOINT_NAME";
    /// Values that the job's ranks registered before they began, for one that joins them; from the daemon.
    pub const VALUES: &str = "PCM_VALUES";
    /// Set in a standby: a process that is started before the job needs it, and waits before `MPI_Init` for a
    /// [`super::StandbyCall`].
    pub const STANDBY: &str = "PCM_STANDBY";
    /// How often the job was started again after crashes; from the daemon.
    pub const RESTARTS: &str = "PCM_RESTARTS";
    /// Which start of the job this is, in a number that no other has; from the daemon.
    pub const LIFE: &str = "PCM_LIFE";
    /// `none` or `lz4`.
    pub const CHECKPOINT_COMPRESSION: &str = "PCM_CHECKPOINT_COMPRESSION";
    /// `yes`: checkpoints that are due are written into files, too, and not only kept in memory by the daemons. Without
    /// daemons they always are.
    pub const CHECKPOINT_FILES: &str = "PCM_CHECKPOINT_FILES";
    /// Megabytes a second that all ranks together may write into files of a checkpoint.
    pub const CHECKPOINT_RATE: &str = "PCM_CHECKPOINT_RATE";
    /// Megabytes that a rank may take for a copy of its data while that is written into files.
    pub const CHECKPOINT_MEMORY: &str = "PCM_CHECKPOINT_MEMORY";
    /// The library of MPI that the daemon loads after libpcm, whatever a program was linked with; from the user.
    pub const MPI_LIBRARY: &str = "PCM_MPI_LIBRARY";
    /// How the program calls MPI, which chooses the library that the daemon loads before MPI; from `pcmctl run`.
    pub const MPI_ABI: &str = "PCM_MPI_ABI";
    /// Its value for the standard ABI of MPI-5.
    pub const MPI_ABI_STANDARD: &str = "standard";
    /// Its value for Open MPI.
    pub const MPI_ABI_OPEN_MPI: &str = "openmpi";
    /// The libpmix of a program of Open MPI, through which PMIx is served to its ranks; from `pcmctl run`.
    pub const PMIX_LIBRARY: &str = "PCM_PMIX_LIBRARY";
    /// Where the program of a spawn is looked for, among the variables of its children; from libpcm, for Open MPI.
    pub const SPAWN_PATH: &str = "PCM_SPAWN_PATH";
    /// How many checkpoints of one run are kept.
    pub const CHECKPOINT_KEEP: &str = "PCM_CHECKPOINT_KEEP";
}

/// What a standby says on its channel when it has come to `MPI_Init`.
pub const STANDBY_WAITS: &[u8] = b"waits";

/// Makes a standby a process of its job. The packet carries the descriptor of its shared page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandbyCall {
    /// Variables that its environment lacks, or has with another value.
    #[serde(with = "crate::byte_lists::pairs")]
    pub set: Vec<(Vec<u8>, Vec<u8>)>,
    /// Variables that it has and should not.
    #[serde(with = "crate::byte_lists::strings")]
    pub unset: Vec<Vec<u8>>,
}

impl StandbyCall {
    /// The way from one environment to another.
    pub fn between(from: &[(Vec<u8>, Vec<u8>)], to: &[(Vec<u8>, Vec<u8>)]) -> Self {
        let is_missing = |variable: &&(Vec<u8>, Vec<u8>)| !from.contains(variable);
        let is_gone = |name: &&Vec<u8>| !to.iter().any(|(known, _)| known == *name);
        Self {
            set: to.iter().filter(is_missing).cloned().collect(),
            unset: from.iter().map(|(name, _)| name).filter(is_gone).cloned().collect(),
        }
    }
}

/// Longest packet on the channel: far above every message, far below the kernel's limit for one packet (208 KiB).
pub const PACKET_BYTES_MAX: usize = 64 * 1024;

/// What a rank tells its daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AppToDaemon {
    /// `MPI_Init` is done and the page is mapped. The first message of every rank.
    Initialized {
        /// [`crate::handshake::PROTOCOL_VERSION`] of the library.
        version: u16,
        /// The process, as itself sees its number (it may live in a PID namespace).
        pid: u32,
        /// Its rank in the world it started in.
        world_rank: u32,
        /// The size of that world.
        world_size: u32,
    },
    /// The application called `MPI_Abort`; the whole job must end.
    Aborting {
        /// The code it gave.
        code: i32,
    },
    /// About a reconfiguration.
    Reconfiguration(ReconfigurationReport),
    /// The image of this rank's data for a relaunch, in the sealed memory file that comes with this packet. Sent before
    /// the report that it has moved.
    Parked {
        attempt: Attempt,
        /// Bytes of the image.
        bytes: u64,
    },
    /// The constant data that others need of this rank can be copied out of its memory while it computes on.
    Ahead {
        /// For which attempt.
        attempt: Attempt,
        /// Address of the table of [`crate::parked::Stretch`]es.
        table: u64,
        stretches: u32,
    },
    /// A restored rank asks for parked data; or, before a meeting, one that needs constant data of others.
    Restore(RestoreAsk),
    /// A restored rank cannot take its data up; the relaunch has failed.
    RestoreFailed {
        /// What happened, for a person.
        reason: String,
        /// Whether its daemon only did not answer: the data may be there.
        is_unanswered: bool,
    },
    /// About checkpoints in memory.
    Checkpoint(RankCheckpoint),
    /// The application wants the job to have so many ranks. Not answered.
    Resize { ranks: u32 },
    /// What the application said of itself. Said by rank 0 when it begins.
    Registered(Registered),
    /// The application called `MPI_Finalize`. The last message of a rank.
    Finalizing,
}

/// What a daemon tells a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DaemonToApp {
    /// The daemon does not serve this rank (its version, its identity); the rank goes on as plain MPI.
    Refused {
        /// [`crate::handshake::PROTOCOL_VERSION`] of the daemon.
        version: u16,
        /// Why, for a person.
        reason: String,
    },
    /// About a reconfiguration.
    Reconfiguration(ReconfigurationOrder),
    /// Parked data for a restored rank.
    Restore(RestoreAnswer),
    /// About checkpoints in memory.
    Checkpoint(CheckpointOrder),
}

/// One message as one packet. The other side reads it with [`crate::frame::decode`].
pub fn packet_encode<T: Serialize>(message: &T) -> Result<Vec<u8>, EncodeError> {
    let packet = rmp_serde::to_vec(message).map_err(EncodeError::Unserialisable)?;
    if packet.len() > PACKET_BYTES_MAX {
        return Err(EncodeError::TooLarge { max: PACKET_BYTES_MAX });
    }
    Ok(packet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        frame::{MessageError, decode},
        handshake::PROTOCOL_VERSION,
    };
    use proptest::prelude::*;

    #[test]
    fn a_standby_gets_what_its_environment_lacks() {
        let variables = |list: &[(&str, &str)]| -> Vec<(Vec<u8>, Vec<u8>)> {
            let variable = |(name, value): &(&str, &str)| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
            list.iter().map(variable).collect()
        };
        let from = variables(&[("HOME", "/h"), ("PCM_STANDBY", "1"), ("FI_PROVIDER", "tcp")]);
        let to = variables(&[("PMI_RANK", "3"), ("HOME", "/h"), ("FI_PROVIDER", "shm")]);
        let call = StandbyCall::between(&from, &to);
        assert_eq!(call.set, variables(&[("PMI_RANK", "3"), ("FI_PROVIDER", "shm")]));
        assert_eq!(call.unset, [b"PCM_STANDBY".to_vec()]);
        assert_eq!(StandbyCall::between(&to, &to), StandbyCall::default());
    }

    #[test]
    fn a_packet_with_more_than_one_message_is_malformed() {
        let mut packet = packet_encode(&AppToDaemon::Finalizing).unwrap();
        packet.push(0);
        assert!(matches!(
            decode::<AppToDaemon>(&packet),
            Err(MessageError::TrailingBytes { count: 1 })
        ));
    }

    #[test]
    fn a_packet_over_the_limit_is_not_sent() {
        let reason = "x".repeat(PACKET_BYTES_MAX);
        let refused = DaemonToApp::Refused {
            version: PROTOCOL_VERSION,
            reason,
        };
        assert!(matches!(packet_encode(&refused), Err(EncodeError::TooLarge { .. })));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic_the_decoder(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode::<AppToDaemon>(&bytes);
            let _ = decode::<DaemonToApp>(&bytes);
        }
    }
}
