//! From profiles to what a node has to give: what others really want of its CPUs, and for how long. Pure.
//!
//! A node whose CPU time is limited is told to others as one with so many slower CPUs of its own: of half a CPU, one of
//! half the speed. So nobody else has to know of limits.

use pcm_proto::agent::{NodeProfile, Resources};
use pcm_proto::ids::{Bytes, NodeName};

/// Less than this of a CPU is noise: daemons, kernel threads, ourselves.
const DEMAND_MIN: f64 = 0.1;

/// A gap that does not count as a pause of the owner.
const GAP_S: f64 = 2.0;

/// No real CPU has a number as high as this.
const LIMITED_FROM: u32 = 1 << 31;

/// Profiles that are looked at: the median ignores a burst shorter than this.
const PROFILES: usize = 3;

/// What does not change about a node, and what was seen of it.
#[derive(Clone, Debug)]
pub struct OwnNode {
    pub node: NodeName,
    pub site: String,
    /// Nodes with the same number share memory.
    pub host: u64,
    pub cpus: Vec<u32>,
    /// CPUs' worth of time it may take, where that is limited.
    limit: Option<f64>,
    /// Whether it is being emptied.
    pub is_draining: bool,
    /// Whether it ends too soon for new ranks.
    pub ends_soon: bool,
    demands: Vec<f64>,
    busy: Option<(f64, f64)>,
    newest: NodeProfile,
}

impl OwnNode {
    /// A node of which nothing was seen yet.
    pub fn new(node: NodeName, cpus: Vec<u32>) -> Self {
        Self {
            node,
            site: String::new(),
            host: 0,
            cpus,
            limit: None,
            is_draining: false,
            ends_soon: false,
            demands: Vec::new(),
            busy: None,
            newest: NodeProfile::default(),
        }
    }

    /// The node may take so many CPUs' worth of time from now on; what is more than it has is no limit.
    pub fn set_limit(&mut self, limit: Option<f64>) {
        let limit = limit.filter(|limit| *limit < self.cpus.len() as f64);
        if limit != self.limit {
            self.limit = limit;
            self.demands.clear();
            self.busy = None;
        }
    }

    /// CPUs the node is told to have.
    fn slots(&self) -> usize {
        self.limit
            .map_or(self.cpus.len(), |limit| (limit.ceil() as usize).max(1))
    }

    /// The part of a CPU that each of them is.
    pub fn pace(&self) -> f64 {
        self.limit.map_or(1.0, |limit| limit / self.slots() as f64)
    }

    /// Takes in a profile; `owner_load` is the part of the CPUs from which on an owner counts.
    pub fn on_profile(&mut self, at_s: f64, profile: NodeProfile, owner_load: f64) {
        let pace = self.pace();
        let paced = NodeProfile {
            load_by_others: profile.load_by_others / pace,
            load_by_ranks: profile.load_by_ranks / pace,
            run_delay: 1.0 - share_of_slot(1.0 - profile.run_delay, pace),
            ..profile
        };
        let demand = demand(&paced, self.slots() as f64);
        self.demands.push(demand);
        if self.demands.len() > PROFILES {
            self.demands.remove(0);
        }
        self.newest = profile;
        let is_busy = demand >= owner_load * self.slots() as f64;
        self.busy = match self.busy {
            Some((since_s, _)) if is_busy => Some((since_s, at_s)),
            Some((_, last_s)) if at_s - last_s > GAP_S => None,
            None if is_busy => Some((at_s, at_s)),
            other => other,
        };
    }

    /// Nodes that name the same CPU share it. Limited ones share nothing, whatever CPUs their groups are run on.
    fn slot_numbers(&self) -> Vec<u32> {
        if self.limit.is_none() {
            return self.cpus.clone();
        }
        let name = self.node.as_str().bytes();
        let own = name.fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        (0..self.slots() as u32)
            .map(|slot| LIMITED_FROM | own.wrapping_add(slot))
            .collect()
    }

    /// What the node has to give while it runs so many ranks.
    pub fn resources(&self, at_s: f64, ranks: u32) -> Resources {
        let mut demands = self.demands.clone();
        demands.sort_by(f64::total_cmp);
        Resources {
            node: self.node.clone(),
            site: self.site.clone(),
            host: self.host,
            cpus: self.slot_numbers(),
            speed: self.newest.speed * self.pace(),
            demand_by_others: demands.get(demands.len() / 2).copied().unwrap_or(0.0),
            others_since_s: self.busy.map_or(0.0, |(since_s, _)| at_s - since_s),
            ranks,
            free_memory: Bytes(self.newest.free_memory),
            is_draining: self.is_draining,
            ends_soon: self.ends_soon,
        }
    }
}

/// The part of its slot that a rank gets when it gets this part of a CPU: what a limit takes away nobody else has.
pub fn share_of_slot(share: f64, pace: f64) -> f64 {
    (share / pace).clamp(0.0, 1.0)
}

/// CPUs that others would use if our ranks were not there. While a CPU idles they have what they want; else they get
/// the same share of it as our ranks do.
fn demand(profile: &NodeProfile, cpus: f64) -> f64 {
    let idle = cpus - profile.load_by_others - profile.load_by_ranks;
    let share = if idle > 0.1 * cpus {
        1.0
    } else {
        (1.0 - profile.run_delay).clamp(0.05, 1.0)
    };
    let demand = profile.load_by_others / share;
    if demand < DEMAND_MIN { 0.0 } else { demand }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> OwnNode {
        OwnNode::new(NodeName::new("a").unwrap(), vec![0])
    }

    fn profile(others: f64, ranks: f64, run_delay: f64) -> NodeProfile {
        NodeProfile {
            load_by_others: others,
            load_by_ranks: ranks,
            run_delay,
            ..NodeProfile::default()
        }
    }

    #[test]
    fn what_gets_half_of_a_cpu_beside_a_rank_wants_a_whole_one() {
        assert!((demand(&profile(0.5, 0.5, 0.5), 1.0) - 1.0).abs() < 1e-9);
        assert!((demand(&profile(0.5, 0.0, 0.0), 1.0) - 0.5).abs() < 1e-9);
        assert_eq!(demand(&profile(0.03, 0.9, 0.0), 1.0), 0.0);
    }

    #[test]
    fn a_burst_does_not_show_and_a_load_does() {
        let mut node = node();
        for (at, load) in [0.0, 0.0, 1.0, 0.0, 0.0].into_iter().enumerate() {
            node.on_profile(at as f64, profile(load, 0.0, 0.0), 0.5);
            assert_eq!(node.resources(0.0, 1).demand_by_others, 0.0);
        }
        node.on_profile(5.0, profile(1.0, 0.0, 0.0), 0.5);
        node.on_profile(6.0, profile(1.0, 0.0, 0.0), 0.5);
        assert_eq!(node.resources(6.0, 1).demand_by_others, 1.0);
    }

    #[test]
    fn a_limited_node_is_told_as_one_with_slower_cpus_of_its_own() {
        let limited = |name: &str, limit| {
            let mut node = OwnNode::new(NodeName::new(name).unwrap(), vec![0, 1]);
            node.set_limit(Some(limit));
            let all_for_one_rank = NodeProfile {
                speed: 2.0,
                ..profile(0.0, limit, 1.0 - limit)
            };
            node.on_profile(0.0, all_for_one_rank, 0.5);
            node.resources(0.0, 1)
        };
        let (half, other) = (limited("a", 0.5), limited("b", 0.5));
        assert_eq!((half.cpus.len(), half.speed, half.demand_by_others), (1, 1.0, 0.0));
        assert!(half.cpus.iter().all(|cpu| !other.cpus.contains(cpu)));
        assert_eq!(limited("a", 1.5).cpus.len(), 2);
        assert_eq!(limited("a", 2.0).cpus, [0, 1]);
    }

    #[test]
    fn a_load_beside_a_rank_of_a_limited_node_shows() {
        let mut node = OwnNode::new(NodeName::new("a").unwrap(), vec![0, 1]);
        node.set_limit(Some(0.5));
        node.on_profile(0.0, profile(0.25, 0.25, 0.75), 0.5);
        assert!((node.resources(0.0, 1).demand_by_others - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_owner_is_there_until_he_has_been_away_for_a_while() {
        let mut node = node();
        let mut at_s = 0.0;
        let mut see = |node: &mut OwnNode, load: f64, times: usize| {
            for _ in 0..times {
                node.on_profile(at_s, profile(load, 0.0, 0.0), 0.5);
                at_s += 0.5;
            }
            node.resources(at_s, 0).others_since_s
        };
        assert_eq!(see(&mut node, 0.0, 4), 0.0);
        assert_eq!(see(&mut node, 1.0, 10), 5.0);
        assert_eq!(see(&mut node, 0.0, 2), 6.0);
        assert_eq!(see(&mut node, 1.0, 2), 7.0);
        assert_eq!(see(&mut node, 0.0, 10), 0.0);
    }
}
