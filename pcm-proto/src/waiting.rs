//! How blocking MPI calls of a job wait: the words of [`crate::app::environment::WAIT`].

use std::fmt;
use std::str::FromStr;

/// How ranks wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Waiting {
    /// As MPI itself does.
    AsMpi,
    /// Without a system call: nobody else gets the CPU before its time slice is over.
    Spin,
    /// With pauses while the CPU is shared.
    Adaptive,
    /// With pauses always.
    Sleep,
}

impl Waiting {
    pub const ALL: [Self; 4] = [Self::AsMpi, Self::Spin, Self::Adaptive, Self::Sleep];

    pub const fn word(self) -> &'static str {
        match self {
            Self::AsMpi => "mpi",
            Self::Spin => "spin",
            Self::Adaptive => "adaptive",
            Self::Sleep => "sleep",
        }
    }

    /// Whether a rank leaves its CPU to others while it waits.
    pub fn is_polite(self) -> bool {
        matches!(self, Self::Adaptive | Self::Sleep)
    }
}

/// A word that names no way of waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuchWaiting(String);

impl FromStr for Waiting {
    type Err = NoSuchWaiting;

    fn from_str(word: &str) -> Result<Self, NoSuchWaiting> {
        let found = Self::ALL.into_iter().find(|waiting| waiting.word() == word);
        found.ok_or_else(|| NoSuchWaiting(word.to_owned()))
    }
}

impl fmt::Display for NoSuchWaiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Waiting::ALL.map(Waiting::word).join(", ");
        write!(f, "there is no way of waiting {:?}: choose one of {words}", self.0)
    }
}

impl std::error::Error for NoSuchWaiting {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_read_as_what_it_names_and_no_other() {
        for waiting in Waiting::ALL {
            assert_eq!(waiting.word().parse(), Ok(waiting));
        }
        let refused = "nap".parse::<Waiting>().unwrap_err().to_string();
        assert!(refused.contains("mpi, spin, adaptive, sleep"), "{refused}");
    }
}
