//! What the slowest link between two sites is like, and which way of a message pays over it. All ranks of a job have
//! the same numbers, so that all decide alike without a message.

use super::sites::Sites;
use pcm_proto::link::LinkMeasured;
use std::{fmt, str::FromStr};

/// What a message of its own takes on a link beside its data.
const HEADER_BYTES: f64 = 100.0;

/// What a message takes longer that passes through the leader of a site, where ranks share CPUs.
const PASSING_MS: f64 = 1.0;

/// A way over two links is taken where it saves so much of the other's time: what is not in the model may cost that.
const WORTH_IT: f64 = 0.85;

/// A long message is cut into pieces, so that a site passes the first on while others come.
const PIECE_BYTES: usize = 64 << 10;

/// The shortest piece that is cut off only so that more links carry at once.
const SHARED_PIECE_BYTES_MIN: usize = 8 << 10;

/// Then a site passes on so many, if they are not too short.
const PIECES_OF_A_SITE: usize = 4;

/// Most pieces of one message: each has tags of its own.
const PIECES_MAX: usize = 8192;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    latency_ms: f64,
    bytes_per_ms: f64,
}

/// How the pieces of a long message travel between sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From one site to each other one: over one link.
    Direct,
    /// Each piece by one site to the others, the next piece by another site: all links carry at once, and a piece
    /// crosses two of them.
    Shared,
}

/// Pieces of so many elements at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    pub length: usize,
    pub way: Way,
}

/// Who has what a message carries, before and afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// From one site to all.
    FromOne,
    /// Something of each site: on its way to the site that makes one of all, and from there.
    FromAll,
}

impl Default for Link {
    /// Where nothing was measured: between what private wires and the Internet are like.
    fn default() -> Self {
        Self {
            latency_ms: 10.0,
            bytes_per_ms: 10_000.0,
        }
    }
}

/// Milliseconds, and megabytes in a second.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} {:.3}", self.latency_ms, self.bytes_per_ms / 1000.0)
    }
}

impl Link {
    /// The slowest of some, of which not all is known.
    pub fn slowest(links: &[LinkMeasured]) -> Self {
        let unknown = Self::default();
        let latency_us = links.iter().filter_map(|link| link.latency_us).reduce(f64::max);
        let megabytes_per_s = links.iter().filter_map(|link| link.megabytes_per_s).reduce(f64::min);
        Self {
            latency_ms: latency_us.map_or(unknown.latency_ms, |us| us / 1000.0),
            bytes_per_ms: megabytes_per_s.map_or(unknown.bytes_per_ms, |megabytes| megabytes * 1000.0),
        }
    }

    /// Whether it pays that a site's leader joins the blocks of its ranks to one message, where MPI would send each
    /// directly.
    pub fn joining_pays(&self, sites: &Sites) -> bool {
        let most = (0..sites.count()).map(|site| sites.members(site).len()).max();
        most.unwrap_or(0).saturating_sub(1) as f64 * HEADER_BYTES / self.bytes_per_ms > PASSING_MS
    }

    /// The fastest way for so many elements of so many bytes.
    pub fn pieces(&self, sites: &Sites, spread: Spread, (count, element_bytes): (usize, usize)) -> Pieces {
        let of_bytes = |bytes: usize| (bytes / element_bytes.max(1)).max(count.div_ceil(PIECES_MAX)).max(1);
        let bytes = count.saturating_mul(element_bytes);
        let homes = match spread {
            Spread::FromOne => sites.count().saturating_sub(1),
            Spread::FromAll => sites.count(),
        };
        let piece = (bytes / (PIECES_OF_A_SITE * homes.max(1))).clamp(SHARED_PIECE_BYTES_MIN, PIECE_BYTES);
        let is_worth_it =
            sites.count() > 2 && self.shared_ms(spread, homes, bytes, piece) < WORTH_IT * self.direct_ms(bytes);
        match is_worth_it {
            true => Pieces {
                length: of_bytes(piece),
                way: Way::Shared,
            },
            false => Pieces {
                length: of_bytes(PIECE_BYTES),
                way: Way::Direct,
            },
        }
    }

    fn direct_ms(&self, bytes: usize) -> f64 {
        self.latency_ms + bytes as f64 / self.bytes_per_ms
    }

    /// Each link carries a share, and once more what was made of the shares; the last piece goes on when it has come.
    fn shared_ms(&self, spread: Spread, homes: usize, bytes: usize, piece: usize) -> f64 {
        let shares = match spread {
            Spread::FromOne => 1,
            Spread::FromAll => 2,
        };
        let share = bytes.div_ceil(piece).div_ceil(homes) * piece;
        2.0 * self.latency_ms + (shares * share + piece) as f64 / self.bytes_per_ms
    }
}

impl FromStr for Link {
    type Err = String;

    fn from_str(words: &str) -> Result<Self, Self::Err> {
        let number = |word: &str| match word.parse::<f64>() {
            Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
            _ => Err(format!("`{word}` is no number above 0")),
        };
        match *words.split_whitespace().collect::<Vec<_>>() {
            [latency, bandwidth] => Ok(Self {
                latency_ms: number(latency)?,
                bytes_per_ms: 1000.0 * number(bandwidth)?,
            }),
            _ => Err("two numbers are needed: milliseconds, and megabytes in a second, as in \"10 1\"".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::NodeName;

    const KIB: usize = 1 << 10;

    fn way(link: &str, sites: &[u64], spread: Spread, bytes: usize) -> Way {
        let link: Link = link.parse().unwrap();
        link.pieces(&Sites::new(sites), spread, (bytes, 1)).way
    }

    #[test]
    fn long_messages_take_all_links_where_these_are_slow() {
        for spread in [Spread::FromOne, Spread::FromAll] {
            let four = |link, bytes| way(link, &[0, 1, 2, 3], spread, bytes);
            assert_eq!(four("10 1", 1024 * KIB), Way::Shared);
            assert_eq!(four("10 1", KIB), Way::Direct);
            assert_eq!(four("10 100", 1024 * KIB), Way::Direct);
            assert_eq!(four("10 100", 64 * 1024 * KIB), Way::Shared);
            // There is no third site.
            assert_eq!(way("10 1", &[0, 1, 0, 1], spread, 1024 * KIB), Way::Direct);
        }
        assert_eq!(way("1 1", &[0, 1, 2, 3], Spread::FromAll, 0), Way::Direct);
    }

    #[test]
    fn pieces_are_enough_for_all_sites_and_not_more_than_there_are_tags() {
        let link: Link = "10 1".parse().unwrap();
        let sites = Sites::new(&[0, 1, 2, 3]);
        let pieces = link.pieces(&sites, Spread::FromAll, (64 * KIB, 1));
        assert_eq!((pieces.length, pieces.way), (8 * KIB, Way::Shared));
        let pieces = link.pieces(&sites, Spread::FromAll, (1 << 28, 8));
        assert!((1_usize << 28).div_ceil(pieces.length) <= PIECES_MAX);
        assert_eq!(link.pieces(&sites, Spread::FromOne, (0, 0)).length, 64 * KIB);
    }

    #[test]
    fn what_is_said_of_a_link_is_read_and_what_is_no_link_is_refused() {
        let link = |latency_us, megabytes_per_s| LinkMeasured {
            node: NodeName::new("n1").unwrap(),
            latency_us,
            megabytes_per_s,
        };
        let links = [
            link(Some(500.0), None),
            link(Some(2000.0), Some(3.0)),
            link(None, Some(4.0)),
        ];
        let slowest = Link::slowest(&links);
        assert_eq!(slowest.to_string(), "2.000 3.000");
        assert_eq!(slowest.to_string().parse(), Ok(slowest));
        assert_eq!(Link::slowest(&[]), Link::default());
        for bad in ["", "1", "1 2 3", "x 1", "1 0", "-1 1", "inf 1"] {
            assert!(bad.parse::<Link>().is_err(), "{bad}");
        }
    }
}
