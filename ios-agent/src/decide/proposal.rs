//! What a policy proposes, and what that is predicted to bring and cost. Values only.

use super::view::View;
use pcm_proto::agent::Need;
use pcm_proto::ids::NodeName;

/// A change of a job; ranks and nodes are indices of the view.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Ranks go on elsewhere.
    Migrate(Vec<(usize, usize)>),
    /// Newcomers, one for each node named.
    Expand(Vec<usize>),
    Leave(Vec<usize>),
    /// Ranks go on elsewhere, or all stay, and get these shares of the data.
    Arrange(Vec<(usize, usize)>, Vec<f64>),
}

/// The kinds of change, for what is learned about each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Migrate,
    Expand,
    Leave,
    /// A [`Change::Arrange`] in which all stay.
    Weights,
}

/// A direction in which a change goes, for what must not be tried again soon.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Direction {
    /// What kind of change.
    pub kind: Kind,
    /// The nodes it leads to, each once.
    pub to: Vec<NodeName>,
}

/// A change that somebody thinks well of.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    pub change: Change,
    /// Time of an iteration after it, as predicted.
    pub then_ms: f64,
    /// Bytes it moves.
    pub bytes: f64,
    /// How urgent it is.
    pub need: Need,
    /// Whether it must happen even when it gains nothing.
    pub is_forced: bool,
    /// Why, in words.
    pub why: String,
}

/// A proposal with its price.
#[derive(Clone, Debug, PartialEq)]
pub struct Priced {
    pub proposal: Proposal,
    /// Time of an iteration now.
    pub now_ms: f64,
    /// Seconds gained over all iterations to come.
    pub gain_s: f64,
    /// Seconds it costs.
    pub cost_s: f64,
}

impl Change {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Migrate(_) => Kind::Migrate,
            Self::Expand(_) => Kind::Expand,
            Self::Leave(_) => Kind::Leave,
            Self::Arrange(moves, _) if moves.is_empty() => Kind::Weights,
            Self::Arrange(..) => Kind::Migrate,
        }
    }

    /// Whether it gives the ranks other shares of the data.
    pub fn is_sharing(&self) -> bool {
        matches!(self, Self::Arrange(..))
    }

    /// What it is about: while that stays the same from look to look, the change is the same, wherever it leads.
    pub fn subject(&self) -> (Kind, bool, usize) {
        let rank = match self {
            Self::Migrate(moves) => moves.first().map(|(rank, _)| *rank),
            Self::Expand(_) => None,
            Self::Leave(ranks) => ranks.first().copied(),
            Self::Arrange(moves, weights) => match moves.first() {
                Some((rank, _)) => Some(*rank),
                None => (0..weights.len()).min_by(|a, b| weights[*a].total_cmp(&weights[*b])),
            },
        };
        (self.kind(), self.is_sharing(), rank.unwrap_or(0))
    }

    /// How many ranks come to each node.
    pub fn arrivals(&self) -> Vec<(usize, u32)> {
        let nodes: Vec<usize> = match self {
            Self::Migrate(moves) | Self::Arrange(moves, _) => moves.iter().map(|(_, node)| *node).collect(),
            Self::Expand(nodes) => nodes.clone(),
            Self::Leave(_) => Vec::new(),
        };
        let mut arrivals: Vec<(usize, u32)> = Vec::new();
        for node in nodes {
            match arrivals.iter_mut().find(|(known, _)| *known == node) {
                Some((_, count)) => *count += 1,
                None => arrivals.push((node, 1)),
            }
        }
        arrivals
    }

    /// The data that it moves: from which node, to which, how many bytes. What ranks that stay give each other is not
    /// counted.
    pub fn flows(&self, view: &View) -> Vec<(usize, usize, f64)> {
        let size = view.ranks.len();
        match self {
            Self::Migrate(moves) | Self::Arrange(moves, _) => {
                let of_move = |(rank, to): &(usize, usize)| {
                    let rank = &view.ranks[*rank];
                    (rank.node, *to, rank.registered)
                };
                moves.iter().map(of_move).collect()
            }
            Self::Expand(nodes) => {
                let part = 1.0 / (size + nodes.len()) as f64;
                let pairs = nodes
                    .iter()
                    .flat_map(|to| view.ranks.iter().map(move |from| (from, *to)));
                pairs
                    .map(|(from, to)| (from.node, to, from.registered * part))
                    .collect()
            }
            Self::Leave(leavers) => {
                let part = 1.0 / size.saturating_sub(leavers.len()).max(1) as f64;
                let stays = |rank: &usize| !leavers.contains(rank);
                let pairs = leavers
                    .iter()
                    .flat_map(|from| (0..size).filter(stays).map(move |to| (*from, to)));
                let flow = |(from, to): (usize, usize)| {
                    let from = &view.ranks[from];
                    (from.node, view.ranks[to].node, from.registered * part)
                };
                pairs.map(flow).collect()
            }
        }
    }

    pub fn words(&self, view: &View) -> String {
        let name = |node: &usize| view.nodes[*node].name.as_str().to_owned();
        match self {
            Self::Migrate(moves) => format!("migrate {}", moves_in_words(view, moves)),
            Self::Expand(nodes) => {
                let to = view.ranks.len() + nodes.len();
                let names: Vec<String> = nodes.iter().map(name).collect();
                format!(
                    "expand from {} to {to} ranks, on {}",
                    view.ranks.len(),
                    names.join(", ")
                )
            }
            Self::Leave(ranks) => {
                let to = view.ranks.len() - ranks.len();
                let words: Vec<String> = ranks
                    .iter()
                    .map(|rank| format!("{rank} of {}", name(&view.ranks[*rank].node)))
                    .collect();
                format!(
                    "shrink from {} to {to} ranks, without rank {}",
                    view.ranks.len(),
                    words.join(", ")
                )
            }
            Self::Arrange(moves, weights) => {
                let words: Vec<String> = weights.iter().map(|weight| format!("{weight:.2}")).collect();
                let shares = words.join(" : ");
                if moves.is_empty() {
                    format!("rebalance to shares {shares}")
                } else {
                    format!("migrate {} with shares {shares}", moves_in_words(view, moves))
                }
            }
        }
    }
}

fn moves_in_words(view: &View, moves: &[(usize, usize)]) -> String {
    let words = moves.iter().map(|(rank, to)| {
        let from = &view.nodes[view.ranks[*rank].node].name;
        format!("rank {rank} from {from} to {}", view.nodes[*to].name)
    });
    words.collect::<Vec<_>>().join(", ")
}

impl Proposal {
    /// Where it leads.
    pub fn direction(&self, view: &View) -> Direction {
        let arrivals = self.change.arrivals();
        let mut to: Vec<NodeName> = arrivals
            .iter()
            .map(|(node, _)| view.nodes[*node].name.clone())
            .collect();
        to.sort();
        Direction {
            kind: self.change.kind(),
            to,
        }
    }

    /// Its gain and cost in a view; `trust` is the part of predictions that came true, `links_s` what the links between
    /// nodes take at least for its data.
    pub fn price(self, view: &View, trust: f64, links_s: f64) -> Priced {
        let saved_ms = view.iteration_ms - self.then_ms;
        // Doubt makes gains smaller, never losses.
        let saved_ms = if saved_ms > 0.0 { saved_ms * trust } else { saved_ms };
        Priced {
            gain_s: saved_ms * view.remaining / 1e3,
            cost_s: view.fixed_cost_ms / 1e3 + (self.bytes / (view.megabytes_per_s * 1e6)).max(links_s),
            now_ms: view.iteration_ms,
            proposal: self,
        }
    }
}

impl Priced {
    /// Gain less cost.
    pub fn net_s(&self) -> f64 {
        self.gain_s - self.cost_s
    }

    /// The part of the time still to come that it saves.
    pub fn saved_part(&self, view: &View) -> f64 {
        self.gain_s / (view.remaining * self.now_ms / 1e3).max(1e-9)
    }
}
