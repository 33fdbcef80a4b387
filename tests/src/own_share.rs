//! A cluster each of whose nodes has CPU time of its own, so that what agents see does not depend on what else the
//! machine does: as root a share of a CPU by a control group, else, where there are as many CPUs as nodes, one CPU
//! each.

use crate::{
    cluster::{Cluster, LIMIT},
    limited,
    network::Network,
    skip::cannot_run,
    wait,
};
use limited_nodes::{LimitedNodes, Load, Place, Share};
use std::{
    cell::{Cell, RefCell},
    fs::{self, File},
    thread,
    time::{Duration, Instant},
};

/// A node gets a quarter of a CPU, in periods that are short beside an iteration.
const SHARE: Share = Share {
    quota_us: 2_500,
    period_us: 10_000,
};

/// A node that joins is idle where so much of its CPU is.
const IDLE_FOR_ONE_MORE: f64 = 0.8;

/// One at a time, whatever program of tests it is of: together they would need more CPU time than there is. The lock of
/// a file that is always there ends with its holder.
fn take_turn() -> File {
    let turn = File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/src/own_share.rs")).expect("these sources");
    turn.lock().expect("a lock");
    turn
}

fn cpus() -> u32 {
    thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32)
}

/// CPUs of this machine that nothing used in the last two seconds.
fn idle_cpus() -> f64 {
    let idle_ticks = || {
        let text = fs::read_to_string("/proc/stat").expect("the machine's CPU times");
        let ticks = text.split_ascii_whitespace().nth(4);
        ticks.and_then(|ticks| ticks.parse::<u64>().ok()).expect("idle time")
    };
    let (before, began) = (idle_ticks(), Instant::now());
    thread::sleep(Duration::from_secs(2));
    let idle_s = (idle_ticks() - before) as f64 / rustix::param::clock_ticks_per_second() as f64;
    idle_s / began.elapsed().as_secs_f64()
}

pub struct OwnShare {
    /// As any other.
    pub cluster: Cluster,
    limited: RefCell<Option<LimitedNodes>>,
    cpus: u32,
    nodes: Cell<u32>,
    turn: File,
}

impl OwnShare {
    /// A cluster of so many nodes; `None` where that cannot be, which it says.
    ///
    /// # Panics
    /// When the cluster does not come up.
    pub fn up(nodes: u32) -> Option<Self> {
        Self::up_with(nodes, &[], Cluster::place())
    }

    /// The same where one more can [`Self::join`].
    ///
    /// # Panics
    /// When the cluster does not come up.
    pub fn up_for_one_more(nodes: u32) -> Option<Self> {
        let own = Self::up(nodes)?;
        if own.limited.borrow().is_none() && nodes >= own.cpus {
            cannot_run(&format!(
                "no CPU for a node that joins {nodes} on {} CPUs; shares of CPUs take root",
                own.cpus
            ));
            own.down();
            return None;
        }
        let free = idle_cpus();
        if own.limited.borrow().is_none() && free < f64::from(nodes) + IDLE_FOR_ONE_MORE {
            cannot_run(&format!(
                "no idle CPU for a node that joins {nodes}: others leave {free:.1} of {}; shares of CPUs take root",
                own.cpus
            ));
            own.down();
            return None;
        }
        Some(own)
    }

    /// The same at this place, with these variables for the daemons.
    ///
    /// # Panics
    /// When the cluster does not come up.
    pub fn up_with(nodes: u32, variables: &[(&str, &str)], mut cluster: Cluster) -> Option<Self> {
        let turn = take_turn();
        let cpus = cpus();
        let list: Vec<String> = (0..nodes).map(|node| (node % cpus).to_string()).collect();
        let outcome = cluster.boot_with(&["--local", &nodes.to_string(), "--cpus", &list.join(";")], variables);
        assert!(outcome.status.success(), "{outcome:?}");
        Self::of(nodes, cluster, turn)
    }

    /// The same of nodes in this network.
    ///
    /// # Panics
    /// When the cluster does not come up.
    pub fn up_in(network: Network, nodes: u32, cluster: Cluster) -> Option<Self> {
        let turn = take_turn();
        let cluster = cluster.booted_in(network.with_one_cpu_each(), &[], &[]);
        Self::of(nodes, cluster, turn)
    }

    fn of(nodes: u32, cluster: Cluster, turn: File) -> Option<Self> {
        let cpus = cpus();
        let limited = match LimitedNodes::limit(cluster.id(), SHARE) {
            Ok(limited) => Some(limited),
            Err(_) if nodes <= cpus => None,
            Err(reason) => {
                cannot_run(&format!(
                    "no CPU time of its own for each of {nodes} nodes on {cpus} CPUs: {reason}"
                ));
                cluster.down();
                return None;
            }
        };
        let own = Self {
            cluster,
            limited: RefCell::new(limited),
            cpus,
            nodes: Cell::new(nodes),
            turn,
        };
        (0..nodes).for_each(|number| own.wait_until_agent_knows(&format!("n{number}")));
        Some(own)
    }

    /// Daemons are limited when they run already; what their agents saw before is not meant.
    fn wait_until_agent_knows(&self, node: &str) {
        if self.limited.borrow().is_none() {
            return;
        }
        let log = self.cluster.dir().join("nodes").join(node).join("agent.log");
        wait::until("the agent to find the limit", LIMIT, || {
            let text = fs::read_to_string(&log).ok()?;
            text.contains("the CPU time of this node is limited").then_some(())
        });
    }

    fn place(&self, node: &str) -> Place {
        let number: u32 = node.trim_start_matches('n').parse().expect("nodes are n0, n1, …");
        let cpu = number % self.cpus;
        match &*self.limited.borrow() {
            Some(limited) => limited.place(node, cpu),
            None => Place::on_cpu(cpu),
        }
    }

    /// Others compute on a node, in so many processes, until it is dropped.
    ///
    /// # Panics
    /// When they cannot be started.
    pub fn load(&self, node: &str, processes: usize) -> Load {
        Load::on(&self.place(node), processes).expect("sh, timeout and taskset are there")
    }

    /// One more node joins, at this site; its name.
    ///
    /// # Panics
    /// When it does not.
    pub fn join(&self, site: &str) -> String {
        let number = self.nodes.get();
        let name = format!("n{number}");
        let cpu = (number % self.cpus).to_string();
        let mut command = self.cluster.pcmctl(&["join", &name, "--cpus", &cpu]);
        if !site.is_empty() {
            command.args(["--site", site]);
        }
        let outcome = limited::run(&mut command, LIMIT);
        assert!(outcome.status.success(), "{outcome:?}");
        self.nodes.set(number + 1);
        if let Some(limited) = &mut *self.limited.borrow_mut() {
            limited.limit_new(|_| SHARE).expect("it worked for the other nodes");
        }
        self.wait_until_agent_knows(&name);
        name
    }

    /// Takes it down and sees that nothing is left.
    pub fn down(self) {
        let Self {
            cluster, limited, turn, ..
        } = self;
        cluster.down();
        drop((limited, turn));
    }
}
