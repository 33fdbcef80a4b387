//! Predicts the time of an iteration after a change. An iteration takes as long as its slowest rank computes, and what
//! is measured beyond that is communication; both are carried over to the new places. Pure.

use super::links::LinkCost;
use super::proposal::Change;
use super::tuning::{LinkTuning, Tuning};
use super::view::{RankView, View};
use std::collections::BTreeMap;

/// A node counts with at least this share of a CPU: a crowded one is slow, not infinitely slow.
const SHARE_MIN: f64 = 0.02;

/// A rank that gets at least this part of a CPU lacks none: what is missing is the measuring and the system's own work.
/// Less counts in proportion to it, so that a rank just below is not taken to lack much.
const SHARE_WHOLE: f64 = 0.85;

/// Time in MPI is taken to become shorter or longer by this factor at most, whatever shares of CPUs say: a rank that
/// polls gives its turns away, so that it seems to get less than it would take.
const MPI_FACTOR_MAX: f64 = 4.0;

/// A view with what predicting needs of the tuning.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    pub view: &'a View,
    links: &'a LinkTuning,
    mpi_growth: f64,
    share_best: f64,
}

impl<'a> Model<'a> {
    /// The model of a view.
    pub fn new(view: &'a View, tuning: &'a Tuning) -> Self {
        let shares = view.ranks.iter().map(|rank| rank.cpu_share);
        Self {
            view,
            links: &tuning.links,
            mpi_growth: tuning.size.mpi_growth,
            share_best: shares.fold(SHARE_WHOLE, f64::max).min(1.0),
        }
    }

    /// The share of a CPU that each of `ranks` ranks gets on a node: with a CPU of its own as much as the best of the
    /// job gets now, since what that lacks is the system's own work, which is done everywhere.
    pub fn share(&self, node: usize, ranks: f64) -> f64 {
        let view = &self.view.nodes[node];
        let wanted = ranks.max(1.0) + view.demand;
        (view.cpus.len() as f64 / wanted).clamp(SHARE_MIN, self.share_best)
    }

    /// What a rank computes in an iteration: milliseconds on a free CPU of speed 1.
    pub fn work(&self, rank: usize) -> f64 {
        let rank = &self.view.ranks[rank];
        rank.useful_ms * self.view.nodes[rank.node].speed * rank.cpu_share.clamp(SHARE_MIN, 1.0)
    }

    /// Ranks of all jobs on each node when those of this one are placed so.
    fn crowds_after(&self, places: &[usize]) -> Vec<f64> {
        let mut crowds: Vec<f64> = self.view.nodes.iter().map(|node| f64::from(node.ranks)).collect();
        self.view.ranks.iter().for_each(|rank| crowds[rank.node] -= 1.0);
        places.iter().for_each(|node| crowds[*node] += 1.0);
        crowds
    }

    /// Time each rank computes when they are placed so.
    pub fn useful_after(&self, places: &[usize]) -> Vec<f64> {
        let view = self.view;
        let crowds = self.crowds_after(places);
        let is_same = |node: usize| f64::from(view.nodes[node].ranks) == crowds[node];
        let useful = view.ranks.iter().zip(places).enumerate().map(|(index, (rank, to))| {
            if view.share_cpus(rank.node, *to) {
                if is_same(rank.node) || rank.node != *to {
                    return rank.useful_ms;
                }
                let share_now = self.share(*to, f64::from(view.nodes[*to].ranks));
                return rank.useful_ms * share_now / self.share(*to, crowds[*to]);
            }
            self.work(index) / (view.nodes[*to].speed.max(1e-6) * self.share(*to, crowds[*to]))
        });
        useful.collect()
    }

    /// Time of an iteration when the ranks are placed so.
    pub fn after(&self, places: &[usize]) -> f64 {
        largest(&self.useful_after(places)) + self.mpi_after(places)
    }

    /// Time in MPI when the ranks are placed so: on other links; and as all wait for a message until its sender and its
    /// receiver have a CPU, the rank that lacks it most makes it longer.
    fn mpi_after(&self, places: &[usize]) -> f64 {
        let links = self.link_ms(places) - self.link_ms(&self.view.places());
        let now = smallest(self.view.ranks.iter().map(|rank| whole(rank.cpu_share)));
        let then = smallest(self.shares_after(places).into_iter());
        let factor = (now / then).clamp(1.0 / MPI_FACTOR_MAX, MPI_FACTOR_MAX);
        (self.mpi_ms() * factor + links).max(0.0)
    }

    /// The share of a CPU that each rank gets when they are placed so.
    fn shares_after(&self, places: &[usize]) -> Vec<f64> {
        let view = self.view;
        let crowds = self.crowds_after(places);
        let share = |(rank, to): (&RankView, &usize)| {
            whole(if view.share_cpus(rank.node, *to) {
                rank.cpu_share
            } else {
                self.share(*to, crowds[*to])
            })
        };
        view.ranks.iter().zip(places).map(share).collect()
    }

    /// How long each rank holds up an iteration: by computing, and by not having a CPU when messages come.
    pub fn strain_after(&self, places: &[usize]) -> Vec<f64> {
        let mpi_ms = self.mpi_ms();
        let shares = self.shares_after(places).into_iter();
        let useful = self.useful_after(places).into_iter();
        let strain = useful.zip(shares);
        strain
            .map(|(useful, share)| useful + mpi_ms * (1.0 / share).min(MPI_FACTOR_MAX))
            .collect()
    }

    /// What the slowest rank waits for in MPI now: no rank's computing hides it.
    pub fn mpi_ms(&self) -> f64 {
        let useful = self.view.ranks.iter().map(|rank| rank.useful_ms).fold(0.0, f64::max);
        (self.view.iteration_ms - useful).max(0.0)
    }

    /// Time of an iteration with these nodes' ranks, each with an equal share of the work.
    pub fn after_resize(&self, places: &[usize]) -> f64 {
        let view = self.view;
        let (old, new) = (view.ranks.len().max(1) as f64, places.len().max(1) as f64);
        let work = (0..view.ranks.len()).map(|rank| self.work(rank)).sum::<f64>() / new;
        let useful = places.iter().map(|node| {
            let own = places.iter().filter(|other| *other == node).count() as f64;
            let ranks = f64::from(view.nodes[*node].ranks) - view.own_ranks(*node) as f64 + own;
            work / (view.nodes[*node].speed.max(1e-6) * self.share(*node, ranks))
        });
        let slowest = useful.fold(0.0, f64::max);
        slowest + self.mpi_ms() * (1.0 + self.mpi_growth * (new / old).log2()).max(0.1)
    }

    /// Time of an iteration when the ranks are placed so and shares follow what each gets of its node; and the speeds
    /// that the shares follow. A rank computes as much longer as its share of the data grows: of shares that hardly
    /// change nothing is expected.
    pub fn after_arranging(&self, places: &[usize]) -> (f64, Vec<f64>) {
        let useful = self.useful_after(places);
        let speeds = (0..places.len()).map(|rank| self.work(rank) / useful[rank].max(1e-9));
        let speeds: Vec<f64> = speeds.collect();
        let data = self.view.all_data();
        let all = speeds.iter().sum::<f64>().max(1e-9);
        let ranks = self.view.ranks.iter().zip(&speeds).zip(&useful);
        let then = ranks.map(|((rank, speed), useful)| useful * (speed / all) / (rank.data / data).max(1e-9));
        (then.fold(0.0, f64::max) + self.mpi_after(places), speeds)
    }

    /// Time the messages of an iteration take on the links of a placement: the rank that sends longest counts.
    pub fn link_ms(&self, places: &[usize]) -> f64 {
        let ranks = self.view.ranks.iter().enumerate();
        let cost = ranks.map(|(from, rank)| {
            let of_peer = |(to, messages, bytes): &(usize, f64, f64)| {
                let Some(place) = places.get(*to) else { return 0.0 };
                self.link(places[from], *place).of_traffic_ms(*messages, *bytes)
            };
            rank.sends.iter().map(of_peer).sum::<f64>()
        });
        cost.fold(0.0, f64::max)
    }

    /// What a message between two nodes costs.
    pub fn link(&self, a: usize, b: usize) -> LinkCost {
        link(self.view, self.links, a, b)
    }

    /// Whether two nodes are of one site: of one name, and not found to be as far apart as sites are.
    pub fn is_near(&self, a: usize, b: usize) -> bool {
        let (one, other) = (&self.view.nodes[a], &self.view.nodes[b]);
        // Nearer to a link within a site than to one between sites, in proportion.
        let between = (self.links.site_us * self.links.far_us).sqrt();
        one.site == other.site && self.link(a, b).message_us <= between
    }
}

/// What a message between two nodes costs: as the tuning says, within the bounds of what was measured.
fn link(view: &View, links: &LinkTuning, a: usize, b: usize) -> LinkCost {
    let (one, other) = (&view.nodes[a], &view.nodes[b]);
    let cost = |message_us: f64, megabytes_per_s: f64| LinkCost {
        message_us,
        byte_us: 1.0 / megabytes_per_s,
    };
    if a == b || one.host == other.host {
        // Its ranks share memory, whatever the network is like.
        return cost(links.host_us, links.host_megabytes_per_s);
    }
    let assumed = if one.site == other.site {
        cost(links.site_us, links.site_megabytes_per_s)
    } else {
        cost(links.far_us, links.far_megabytes_per_s)
    };
    let daemons = cost(links.daemons_us, links.copies_megabytes_per_s);
    view.links.cost(a, b, assumed, daemons)
}

/// What the links between nodes take at least for the data of a change: all of them at once.
pub fn moving_s(view: &View, links: &LinkTuning, change: &Change) -> f64 {
    let mut bytes: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for (from, to, moved) in change.flows(view) {
        *bytes.entry((from, to)).or_default() += moved;
    }
    let times = bytes
        .iter()
        .map(|((from, to), bytes)| link(view, links, *from, *to).byte_us * bytes);
    times.fold(0.0, f64::max) / 1e6
}

fn whole(share: f64) -> f64 {
    (share / SHARE_WHOLE).clamp(SHARE_MIN, 1.0)
}

fn smallest(shares: impl Iterator<Item = f64>) -> f64 {
    shares.fold(1.0, f64::min)
}

/// The largest of some times.
pub fn largest(times: &[f64]) -> f64 {
    times.iter().copied().fold(0.0, f64::max)
}
