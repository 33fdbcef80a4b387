//! Which rank of a communicator is at which site.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranks by site. Sites are numbered by their lowest ranks, so that all ranks number them alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sites {
    of: Vec<usize>,
    members: Vec<Vec<u32>>,
    /// Runs of ranks at one site, in the order of ranks.
    runs: Vec<Run>,
}

/// Neighbouring ranks at one site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub site: usize,
    pub ranks: Range<u32>,
}

impl Sites {
    /// `names` has a number for the site of each rank, in the order of ranks.
    pub fn new(names: &[u64]) -> Self {
        let mut numbers = BTreeMap::new();
        let mut sites = Self {
            of: Vec::with_capacity(names.len()),
            members: Vec::new(),
            runs: Vec::new(),
        };
        for (rank, name) in (0..).zip(names) {
            let next = numbers.len();
            let site = *numbers.entry(*name).or_insert(next);
            if site == sites.members.len() {
                sites.members.push(Vec::new());
            }
            sites.members[site].push(rank);
            sites.of.push(site);
            match sites.runs.last_mut() {
                Some(run) if run.site == site => run.ranks.end = rank + 1,
                _ => sites.runs.push(Run {
                    site,
                    ranks: rank..rank + 1,
                }),
            }
        }
        sites
    }

    pub fn size(&self) -> u32 {
        self.of.len() as u32
    }

    pub fn count(&self) -> usize {
        self.members.len()
    }

    pub fn of(&self, rank: u32) -> usize {
        self.of[rank as usize]
    }

    /// The ranks at a site, rising.
    pub fn members(&self, site: usize) -> &[u32] {
        &self.members[site]
    }

    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    pub fn runs_of(&self, site: usize) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.site == site)
    }

    /// The rank that speaks for a site: the one that the operation names, else the lowest.
    pub fn leader(&self, site: usize, named: Option<u32>) -> u32 {
        match named.filter(|rank| self.of(*rank) == site) {
            Some(rank) => rank,
            None => self.members[site][0],
        }
    }

    /// All sites but one.
    pub fn others(&self, site: usize) -> impl Iterator<Item = usize> {
        (0..self.count()).filter(move |other| *other != site)
    }
}

/// A rank's place in the tree of its site, whose root is the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub site: usize,
    pub leader: u32,
    /// None for the leader.
    pub parent: Option<u32>,
    /// Nearest first; the subtree of each has the ranks between it and the next one, in the order of the tree.
    pub children: Vec<u32>,
}

impl Place {
    /// In a binomial tree over the leader and then the others, rising.
    pub fn new(sites: &Sites, me: u32, named: Option<u32>) -> Self {
        let site = sites.of(me);
        let leader = sites.leader(site, named);
        let others = sites.members(site).iter().copied().filter(|rank| *rank != leader);
        let order: Vec<u32> = [leader].into_iter().chain(others).collect();
        let index = order.iter().position(|rank| *rank == me).unwrap_or(0);
        let below = match index {
            0 => order.len().next_power_of_two(),
            index => 1 << index.trailing_zeros(),
        };
        let steps = std::iter::successors(Some(1), |step| Some(step * 2)).take_while(|step| *step < below);
        let children = steps.filter_map(|step| order.get(index + step).copied());
        Self {
            site,
            leader,
            parent: (index > 0).then(|| order[index & (index - 1)]),
            children: children.collect(),
        }
    }

    pub fn is_leader(&self) -> bool {
        self.parent.is_none()
    }
}
