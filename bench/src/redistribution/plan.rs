//! What a bench of methods is to do: between which sizes, with what data, how often. Pure.

use pcm_proto::method::Method;
use std::fmt;
use std::str::FromStr;

/// More ranks than this do not wait for each other on anything that a bench of minutes could run on.
const RANKS_MAX: u32 = 4096;

/// Two sizes a job goes between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub few: u32,
    pub many: u32,
}

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no pair of sizes: write as 2:4, the smaller one first, up to {RANKS_MAX}");
        let (few, many) = text.split_once(':').ok_or_else(wrong)?;
        let (few, many) = (few.parse().map_err(|_| wrong())?, many.parse().map_err(|_| wrong())?);
        if few == 0 || few >= many || many > RANKS_MAX {
            return Err(wrong());
        }
        Ok(Self { few, many })
    }
}

/// Kinds of data: those that `pcm-moving` makes, by the names it knows, and that of a program of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Data {
    /// A dense array by blocks
    Rows,
    /// The same, declared constant
    Constant,
    /// A square by tiles
    Tiles,
    /// Sparse rows of uneven length, packed by the program
    Sparse,
    #[value(skip)]
    Own,
}

impl Data {
    pub const MADE: [Self; 4] = [Self::Rows, Self::Constant, Self::Tiles, Self::Sparse];

    /// The kind with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let mut all = Self::MADE.into_iter().chain([Self::Own]);
        all.find(|kind| kind.as_str() == name)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Constant => "constant",
            Self::Tiles => "tiles",
            Self::Sparse => "sparse",
            Self::Own => "own",
        }
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// See the file head.
#[derive(Clone, Debug)]
pub struct Plan {
    pub pairs: Vec<Pair>,
    pub data: Vec<Data>,
    /// Size of all data together, where the bench makes it.
    pub mib: Option<u64>,
    pub rounds: u32,
    /// Rounds before them, which teach the daemons what each method costs and are no samples.
    pub learn: u32,
}

/// What is compared: the choice that is left to the daemons, then every method.
pub(super) const CANDIDATES: usize = 13;

/// The method of a candidate; `None` leaves the choice to the daemons.
pub(super) fn method(candidate: usize) -> Option<Method> {
    candidate.checked_sub(1).and_then(|nth| Method::all().nth(nth))
}

/// Its name, as `--method` takes it.
pub(super) fn name(candidate: usize) -> &'static str {
    method(candidate).map_or("auto", Method::as_str)
}

/// The order of a round: another one each time, so that no candidate always follows the same one.
pub(super) fn order(round: u32) -> impl Iterator<Item = usize> {
    // Steps that are prime to the number of candidates visit each once.
    let step = [5, 2, 7, 3, 11, 4][round as usize % 6];
    (0..CANDIDATES).map(move |turn| (turn * step + round as usize) % CANDIDATES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_two_sizes_the_smaller_one_first() {
        assert_eq!("2:4".parse(), Ok(Pair { few: 2, many: 4 }));
        for wrong in ["", "2", "4:2", "2:2", "0:1", "1:100000", "a:b"] {
            assert!(wrong.parse::<Pair>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_round_has_every_candidate_once_in_another_order() {
        let rounds: Vec<Vec<usize>> = (0..6).map(|round| order(round).collect()).collect();
        for round in &rounds {
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..CANDIDATES));
        }
        assert!(rounds.windows(2).all(|two| two[0] != two[1]));
    }

    #[test]
    fn the_first_candidate_is_the_daemons_choice_and_the_others_are_all_methods() {
        assert_eq!((name(0), method(0)), ("auto", None));
        assert!((1..CANDIDATES).filter_map(method).eq(Method::all()));
    }
}
