//! Worlds that an application asks for with `MPI_Comm_spawn`, and their programs.

use crate::ids::{ProcessId, WorldId};
use serde::{Deserialize, Serialize};

/// One program of a world that an application asked for, or of a job of several; the job's only program needs none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorldCommand {
    /// Ranks that run it, after those of the commands before.
    pub count: u32,
    /// What MPI calls `MPI_APPNUM`.
    pub number: u32,
    /// Program, to be resolved against the working directory and the search path.
    #[serde(with = "serde_bytes")]
    pub program: Vec<u8>,
    pub args: Vec<Vec<u8>>,
    /// Working directory, where it is not the job's.
    pub cwd: Option<std::path::PathBuf>,
    /// Where the program is looked for before the job's search path (info key `path`).
    pub search_path: Option<Vec<u8>>,
    /// Hosts or nodes the application asked for (info key `host`); empty leaves the choice to us.
    pub hosts: Vec<String>,
    /// Variables of its ranks beside those of the job, which are weaker.
    #[serde(with = "crate::byte_lists::pairs")]
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A process as MPI knows it: by its world and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorldMember {
    pub world: WorldId,
    pub rank: u32,
}

/// A world that an application asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnedWorld {
    pub world: WorldId,
    /// How many ranks it has.
    pub size: u32,
}

/// A request of `MPI_Comm_spawn`, as PMI or PMIx carries it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnAsk {
    /// The process that asks.
    pub process: ProcessId,
    /// The same process, as MPI knows it.
    pub asker: WorldMember,
    /// Counts its requests from 0.
    pub number: u32,
    /// The programs in order, or what is wrong with the request.
    pub commands: Result<Vec<WorldCommand>, String>,
    /// Keys the new world finds from the beginning.
    pub preset: Vec<(String, String)>,
}
