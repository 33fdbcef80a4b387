//! The ways to call MPI that libpcm is made for.

use super::{family_of, own_name};
use mpi_abi::Family;
use pcm_proto::app::environment::{MPI_ABI_OPEN_MPI, MPI_ABI_STANDARD};
use std::ffi::OsStr;
use std::path::Path;

/// See the file head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abi {
    Mpich,
    Standard,
    OpenMpi,
}

impl Abi {
    pub(crate) const ALL: [Self; 3] = [Self::Mpich, Self::Standard, Self::OpenMpi];

    /// Name of the library of an MPI that has it.
    pub(crate) fn library(self) -> &'static str {
        match self {
            Self::Mpich => "libmpi.so.12",
            Self::Standard => "libmpi_abi.so.1",
            Self::OpenMpi => "libmpi.so.40",
        }
    }

    /// Name of the libpcm for it.
    pub(crate) fn libpcm(self) -> &'static str {
        match self {
            Self::Mpich => "libpcm.so",
            Self::Standard => "libpcm_abi.so",
            Self::OpenMpi => "libpcm_openmpi.so",
        }
    }

    /// Of a library that is known to be an MPI, by its name, or by the one that the file gives itself.
    pub(crate) fn of_library(library: &Path) -> Self {
        let is_open = |name: &str| family_of(name) == Some(Family::OpenMpi);
        let name = library.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if name.starts_with("libmpi_abi.so") {
            Self::Standard
        } else if is_open(name) || own_name(library).is_some_and(|name| is_open(&name)) {
            Self::OpenMpi
        } else {
            Self::Mpich
        }
    }

    /// By the word in a variable of the environment.
    pub(crate) fn of_word(word: &OsStr) -> Option<Self> {
        Self::ALL.into_iter().find(|abi| word == abi.word())
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::Standard => MPI_ABI_STANDARD,
            Self::OpenMpi => MPI_ABI_OPEN_MPI,
        }
    }

    /// For a sentence.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mpich => Family::Mpich.name(),
            Self::Standard => Family::Standard.name(),
            Self::OpenMpi => Family::OpenMpi.name(),
        }
    }

    /// None where there is no libpcm for it.
    pub(crate) fn of_family(family: Family) -> Option<Self> {
        match family {
            Family::Mpich => Some(Self::Mpich),
            Family::Standard => Some(Self::Standard),
            Family::OpenMpi => Some(Self::OpenMpi),
            Family::Draft => None,
        }
    }
}
