//! Why data could not be parked or restored.

use crate::region::{HookFailed, RegionError, memory::MemoryError};
use pcm_core::{
    parked::{HeadError, PreambleError},
    partition::PartitionError,
    redistribution::{PlanError, parcels::ParcelError},
};
use pcm_proto::reconfiguration::Trouble;
use std::{fmt, io};

/// Why no image was made. Nothing has changed.
#[derive(Debug)]
pub(crate) enum ParkError {
    /// There is not enough memory for it.
    Memory(MemoryError),
    /// The memory file cannot be made or written.
    File(io::Error),
    /// Its head cannot be written.
    Head(HeadError),
    /// The daemon could not be given it.
    NotHanded(String),
    /// A hook failed.
    Hook { region: String, error: HookFailed },
    /// A custom region names ranks that will not be.
    Parcel { region: String, error: ParcelError },
    /// The job would have fewer ranks, and a per-rank value says nothing of how two become one.
    NoMergeHook { region: String },
    /// An array cannot be divided among the next ranks.
    Partition { region: String, error: PartitionError },
    /// There is no plan for an array.
    Plan { region: String, error: PlanError },
}

impl ParkError {
    /// Whether the program is at fault, so that no other way would help.
    pub(crate) fn trouble(&self) -> Trouble {
        match self {
            Self::Hook { .. } | Self::Parcel { .. } | Self::NoMergeHook { .. } | Self::Partition { .. } => {
                Trouble::Program
            }
            Self::Memory(_) | Self::File(_) | Self::Head(_) | Self::NotHanded(_) | Self::Plan { .. } => Trouble::Moving,
        }
    }
}

impl fmt::Display for ParkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => write!(f, "its data cannot be parked: {error}"),
            Self::File(error) => write!(f, "its data cannot be parked: no memory file: {error}"),
            Self::Head(error) => error.fmt(f),
            Self::NotHanded(error) => write!(f, "its data is not parked: {error}"),
            Self::Hook { region, error } => write!(f, "the pack hook of region \"{region}\" failed: {error}"),
            Self::Parcel { region, error } => write!(f, "region \"{region}\": {error}"),
            Self::NoMergeHook { region } => write!(
                f,
                "per-rank value \"{region}\" has no merge hook, and the job would have fewer ranks"
            ),
            Self::Partition { region, error } => write!(f, "region \"{region}\": {error}"),
            Self::Plan { region, error } => write!(f, "region \"{region}\": {error}"),
        }
    }
}

/// Why a process could not take up its data. It must not go on.
#[derive(Debug)]
pub(crate) enum RestoreError {
    /// It has been asked for and is not here yet.
    Awaited,
    /// No process of the plan is this one.
    NoSuchPlan,
    /// The daemon said nothing for too long.
    NoAnswer { asked: String },
    /// The data of an old rank cannot be had.
    Lost { rank: u32, reason: String },
    /// A memory file cannot be mapped.
    Map(io::Error),
    /// It is no image of this build.
    Preamble(PreambleError),
    /// Its head is not understood.
    Head(HeadError),
    /// An image does not hold what its head says.
    Damaged { rank: u32, what: String },
    /// A region is registered otherwise than it was.
    RegistrationsDiffer {
        region: String,
        here: Option<String>,
        parked: Option<String>,
    },
    /// An array cannot be divided.
    Partition { region: String, error: PartitionError },
    /// There is no plan for an array.
    Plan { region: String, error: PlanError },
    /// There is no memory for an array.
    Memory { region: String, error: MemoryError },
    /// A custom region names ranks that are not.
    Parcel { region: String, error: ParcelError },
    /// The job has fewer ranks, and a per-rank value says nothing of how two become one.
    NoMergeHook { region: String },
    /// A custom region was in a process that hung; only its own hooks could have packed it.
    NotPacked { region: String },
    /// A hook failed.
    Hook {
        region: String,
        hook: &'static str,
        error: HookFailed,
    },
    /// The process is not the rank it was started as.
    Place { rank: u32, planned: u32 },
    /// A registration failed.
    Region(RegionError),
}

impl From<RegionError> for RestoreError {
    fn from(error: RegionError) -> Self {
        Self::Region(error)
    }
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Awaited => f.write_str("parked data is still on its way"),
            Self::NoSuchPlan => f.write_str("the plan does not name the processes it is for; this is a defect"),
            Self::NoAnswer { asked } => write!(f, "the daemon did not answer when it was asked for {asked}"),
            Self::Lost { rank, reason } => write!(f, "the data of rank {rank} is not available: {reason}"),
            Self::Map(error) => write!(f, "parked data cannot be mapped: {error}"),
            Self::Preamble(error) => error.fmt(f),
            Self::Head(error) => error.fmt(f),
            Self::Damaged { rank, what } => write!(f, "the parked data of rank {rank} is damaged: {what}"),
            Self::RegistrationsDiffer { region, here, parked } => {
                let text = |side: &Option<String>| side.clone().unwrap_or_else(|| "not registered".to_owned());
                write!(
                    f,
                    "region \"{region}\" is {} here and was {} when it was parked; register the same in every start",
                    text(here),
                    text(parked)
                )
            }
            Self::Partition { region, error } => write!(f, "region \"{region}\": {error}"),
            Self::Plan { region, error } => write!(f, "region \"{region}\": {error}"),
            Self::Memory { region, error } => write!(f, "region \"{region}\": {error}"),
            Self::Parcel { region, error } => write!(f, "region \"{region}\": {error}"),
            Self::NoMergeHook { region } => write!(
                f,
                "per-rank value \"{region}\" has no merge hook, and the job has fewer ranks than before"
            ),
            Self::NotPacked { region } => write!(
                f,
                "custom region \"{region}\" was in a process that hung and could not pack it"
            ),
            Self::Hook { region, hook, error } => write!(f, "the {hook} hook of region \"{region}\" failed: {error}"),
            Self::Place { rank, planned } => {
                write!(
                    f,
                    "MPI calls this process rank {rank}, the daemon planned {planned}; this is a defect"
                )
            }
            Self::Region(error) => error.fmt(f),
        }
    }
}
