//! The two ways to call MPI that libpcm is made for.

use mpi_abi::Family;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// See the file head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abi {
    Mpich,
    Standard,
}

impl Abi {
    /// Name of the library of an MPI that has it.
    pub(crate) fn library(self) -> &'static str {
        match self {
            Self::Mpich => "libmpi.so.12",
            Self::Standard => "libmpi_abi.so.1",
        }
    }

    /// Name of the libpcm for it.
    pub(crate) fn libpcm(self) -> &'static str {
        match self {
            Self::Mpich => "libpcm.so",
            Self::Standard => "libpcm_abi.so",
        }
    }

    /// By the name of a library that is known to be an MPI.
    pub(crate) fn of_library(library: &Path) -> Self {
        let name = library.file_name().unwrap_or_default();
        if name.as_bytes().starts_with(b"libmpi_abi.so") {
            Self::Standard
        } else {
            Self::Mpich
        }
    }

    /// By the word in a variable of the environment.
    pub(crate) fn of_word(word: &OsStr) -> Option<Self> {
        [Self::Mpich, Self::Standard].into_iter().find(|abi| word == abi.word())
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::Standard => pcm_proto::app::environment::MPI_ABI_STANDARD,
        }
    }

    /// For a sentence.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mpich => Family::Mpich.name(),
            Self::Standard => Family::Standard.name(),
        }
    }

    /// None where there is no libpcm for it.
    pub(crate) fn of_family(family: Family) -> Option<Self> {
        match family {
            Family::Mpich => Some(Self::Mpich),
            Family::Standard => Some(Self::Standard),
            Family::OpenMpi | Family::Draft => None,
        }
    }
}
