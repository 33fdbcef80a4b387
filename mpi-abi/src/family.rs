//! The ways in which programs call MPI, in words: for what is refused before a program starts, and within it.

/// Programs of one family call MPI alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    Mpich,
    OpenMpi,
    Standard,
    /// The standard ABI had other numbers before MPI-5 was complete.
    Draft,
}

impl Family {
    /// For a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mpich => "the ABI of MPICH",
            Self::OpenMpi => "Open MPI",
            Self::Standard => "the standard ABI of MPI-5",
            Self::Draft => "a draft of the standard ABI",
        }
    }

    /// File of the libpcm for it, where there is one.
    pub fn libpcm(self) -> Option<&'static str> {
        match self {
            Self::Mpich => Some("libpcm.so"),
            Self::OpenMpi => Some("libpcm_openmpi.so"),
            Self::Standard => Some("libpcm_abi.so"),
            Self::Draft => None,
        }
    }
}

/// Follows the name of a family that no libpcm is for, after a comma.
pub const OTHERS: &str = "and libpcm for the ABI of MPICH, Intel MPI and their relatives, for the standard ABI and for \
                          Open MPI 5: compile the program with one of these";
