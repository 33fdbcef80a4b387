//! Nodes with networks of their own on one machine, each joined to the others by a link that a test can cut or filter.
//! What `up` starts over ssh runs there. Needs root; must never touch a network that it did not make.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

/// Name of a test's rules in a node's network.
const TABLE: &str = "pcmt";

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// What joins two sites that are far apart.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Time of a frame, one way.
    pub delay: Duration,
    /// Bytes that pass in a second.
    pub bytes_per_s: u64,
}

/// Sites that are far apart, each joined to each other one by a wire of its own.
#[derive(Clone, Copy, Debug)]
pub struct FarSites<'a> {
    pub count: usize,
    pub wire: Wire,
    /// The program `pcm-wire`.
    pub program: &'a Path,
    /// Whether the host file says which node is at which.
    pub are_named: bool,
}

/// The network of all nodes; `pcmctl` stands in it beside them.
pub struct Network {
    name: String,
    nodes: usize,
    /// Nodes belong to them in turn.
    sites: usize,
    are_named: bool,
    /// The wires between sites that are far apart.
    wires: Option<Child>,
    has_one_cpu_each: bool,
    folder: PathBuf,
}

impl Network {
    /// Links so many nodes `n0` …; none where this machine or user cannot. Files go into `folder`.
    pub fn of(nodes: usize, folder: &Path) -> Option<Self> {
        Self::of_sites(nodes, 1, folder)
    }

    /// The same in so many sites `s0` …, to which the nodes belong in turn.
    pub fn of_sites(nodes: usize, sites: usize, folder: &Path) -> Option<Self> {
        let network = Self::apart(nodes, (sites, true), folder)?;
        (1..sites).all(|site| network.lay_trunk(site)).then_some(network)
    }

    /// The same in sites that are far apart.
    pub fn over_wires(nodes: usize, sites: FarSites<'_>, folder: &Path) -> Option<Self> {
        let mut network = Self::apart(nodes, (sites.count, sites.are_named), folder)?;
        network.lay_wires(sites).then_some(network)
    }

    /// Sites that nothing joins yet.
    fn apart(nodes: usize, (sites, are_named): (usize, bool), folder: &Path) -> Option<Self> {
        let number = NUMBER.fetch_add(1, Relaxed);
        let network = Self {
            name: format!("pcmt{}-{number}", process::id()),
            nodes,
            sites,
            are_named,
            wires: None,
            has_one_cpu_each: false,
            folder: folder.to_owned(),
        };
        network.make().then_some(network)
    }

    /// Gives each node one of the machine's CPUs, in turn, instead of all.
    #[must_use]
    pub fn with_one_cpu_each(mut self) -> Self {
        self.has_one_cpu_each = true;
        self
    }

    fn make(&self) -> bool {
        let front = self.front();
        let made = ip(&["netns", "add", &front])
            && self.at(&front, &["link", "set", "lo", "up"])
            && (0..self.sites).all(|site| self.make_site(site))
            && self.at(&front, &["addr", "add", "10.77.0.254/24", "dev", "br0"]);
        made && (0..self.nodes).all(|node| self.link(node)) && self.write_ssh()
    }

    fn make_site(&self, site: usize) -> bool {
        let (front, bridge) = (self.front(), bridge(site));
        let kind = ["link", "add", &bridge, "type", "bridge", "forward_delay", "0"];
        self.at(&front, &kind) && self.at(&front, &["link", "set", &bridge, "up"])
    }

    /// A trunk to the first site.
    fn lay_trunk(&self, site: usize) -> bool {
        let (front, [near, far]) = (self.front(), trunk(site));
        self.at(&front, &["link", "add", &near, "type", "veth", "peer", "name", &far])
            && self.at(&front, &["link", "set", &near, "master", "br0", "up"])
            && self.at(&front, &["link", "set", &far, "master", &bridge(site), "up"])
    }

    /// Wires from each site to each other one.
    fn lay_wires(&mut self, sites: FarSites<'_>) -> bool {
        let front = self.front();
        let ends: Vec<String> = (0..self.sites).map(|site| format!("far{site}")).collect();
        let has_end = |(site, end): (usize, &String)| {
            self.at(&front, &["tuntap", "add", "dev", end, "mode", "tap"])
                && self.at(&front, &["link", "set", end, "master", &bridge(site), "up"])
        };
        if !ends.iter().enumerate().all(has_end) {
            return false;
        }
        let Wire { delay, bytes_per_s } = sites.wire;
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{front}")).arg(sites.program);
        command.args([delay.as_micros().to_string(), bytes_per_s.to_string()]);
        self.wires = command.args(ends).spawn().ok();
        self.wires.is_some()
    }

    /// No more than so many Mbit/s pass between two sites. False where the kernel cannot do that.
    pub fn slow_between_sites(&self, mbit: u32) -> bool {
        let front = self.front();
        let rate = format!("{mbit}mbit");
        let is_slow = |device: &String| {
            let mut command = Command::new("tc");
            command.args(["-n", &front, "qdisc", "add", "dev", device, "root", "tbf"]);
            command.args(["rate", &rate, "burst", "64kb", "latency", "50ms"]);
            command
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        };
        (1..self.sites).all(|site| trunk(site).iter().all(is_slow))
    }

    fn link(&self, node: usize) -> bool {
        let (front, own) = (self.front(), self.of_node(node));
        let (end, address) = (format!("n{node}"), format!("{}/24", address(node)));
        let bridge = bridge(node % self.sites);
        ip(&["netns", "add", &own])
            && self.at(
                &front,
                &[
                    "link", "add", &end, "type", "veth", "peer", "name", "eth0", "netns", &own,
                ],
            )
            && self.at(&front, &["link", "set", &end, "master", &bridge, "up"])
            && self.at(&own, &["link", "set", "lo", "up"])
            && self.at(&own, &["link", "set", "eth0", "up"])
            && self.at(&own, &["addr", "add", &address, "dev", "eth0"])
    }

    /// An `ssh` that enters a node's network, with memory of its own, where the destination is a node's name.
    fn write_ssh(&self) -> bool {
        let script = format!(
            "#!/bin/sh\nwhile [ \"$1\" = -o ]; do shift 2; done\n[ \"$1\" = -- ] && shift\nnode=$1; shift\n\
             exec nsenter --net=/run/netns/{}-$node unshare --ipc --mount sh -c \
             'mount -t tmpfs tmpfs /dev/shm && exec sh -c \"$1\"' sh \"$*\"\n",
            self.name
        );
        let path = self.folder.join("ssh");
        let is_written = fs::write(&path, script).is_ok();
        is_written && fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).is_ok()
    }

    /// The host file that `up` reads.
    pub fn host_file(&self) -> PathBuf {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let line = |node: usize| {
            let site = match self.sites > 1 && self.are_named {
                true => format!(" site=s{}", node % self.sites),
                false => String::new(),
            };
            let cpu = match self.has_one_cpu_each {
                true => format!(" cpus={}", node % cpus),
                false => String::new(),
            };
            format!("n{node} {}{site}{cpu} ssh=n{node}\n", address(node))
        };
        let lines = (0..self.nodes).map(line);
        let path = self.folder.join("hosts");
        fs::write(&path, lines.collect::<String>()).expect("a file of the test");
        path
    }

    /// A command that runs beside the nodes and finds their `ssh`.
    pub fn command(&self, mut command: Command, program: &Path) -> Command {
        let programs = program.parent().unwrap_or(Path::new("/"));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{}:{path}", self.folder.display(), programs.display());
        command.arg(format!("--net=/run/netns/{}", self.front()));
        command.arg(program).env("PATH", path);
        command
    }

    /// A command that runs in a node's network.
    pub fn command_at(&self, node: &str, mut command: Command, program: &Path) -> Command {
        command.arg(format!("--net=/run/netns/{}-{node}", self.name));
        command.arg(program);
        command
    }

    /// Nothing passes between this node and the others any more.
    pub fn cut(&self, node: &str) {
        assert!(self.at(&self.front(), &["link", "set", node, "down"]), "no link {node}");
    }

    /// What comes to this node meets this rule of nftables, until it is [opened](Self::open). False where there are
    /// none.
    pub fn filter(&self, node: &str, rule: &str) -> bool {
        let rules = format!(
            "add table ip {TABLE}\nadd chain ip {TABLE} in {{ type filter hook input priority 0; }}\n\
             add rule ip {TABLE} in {rule}\n"
        );
        self.nft(node, &rules)
    }

    /// Everything comes to this node again.
    pub fn open(&self, node: &str) {
        assert!(
            self.nft(node, &format!("delete table ip {TABLE}\n")),
            "no rules at {node}"
        );
    }

    fn nft(&self, node: &str, rules: &str) -> bool {
        let path = self.folder.join("rules");
        fs::write(&path, rules).expect("a file of the test");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{}-{node}", self.name), "nft", "-f"]);
        let status = command.arg(&path).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    /// It passes again.
    pub fn mend(&self, node: &str) {
        assert!(self.at(&self.front(), &["link", "set", node, "up"]), "no link {node}");
    }

    /// Nothing passes between this node and the other nodes any more; `pcmctl` still reaches all of them.
    pub fn part(&self, node: &str) {
        self.split(&[node]);
    }

    /// It passes again.
    pub fn join(&self, node: &str) {
        self.unite(&[node]);
    }

    /// Nothing passes between these nodes and the others any more; `pcmctl` still reaches all of them.
    pub fn split(&self, some: &[&str]) {
        self.route("add", some);
    }

    /// It passes again.
    pub fn unite(&self, some: &[&str]) {
        self.route("del", some);
    }

    fn route(&self, verb: &str, some: &[&str]) {
        let of = |number: usize| format!("{}/32", address(number));
        let is_one = |number: &usize| some.contains(&format!("n{number}").as_str());
        let (ones, others): (Vec<usize>, Vec<usize>) = (0..self.nodes).partition(is_one);
        assert_eq!(ones.len(), some.len(), "not all of {some:?} are nodes");
        for one in ones {
            for (at, to) in others.iter().flat_map(|other| [(one, *other), (*other, one)]) {
                let is_done = self.at(&self.of_node(at), &["route", verb, "blackhole", &of(to)]);
                assert!(is_done, "no route from n{at} to n{to}");
            }
        }
    }

    fn front(&self) -> String {
        format!("{}-f", self.name)
    }

    fn of_node(&self, node: usize) -> String {
        format!("{}-n{node}", self.name)
    }

    fn at(&self, namespace: &str, arguments: &[&str]) -> bool {
        ip(&[&["-n", namespace][..], arguments].concat())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(wires) = &mut self.wires {
            // What has ended needs no end.
            let _ = wires.kill();
            let _ = wires.wait();
        }
        for node in 0..self.nodes {
            ip(&["netns", "del", &self.of_node(node)]);
        }
        ip(&["netns", "del", &self.front()]);
    }
}

fn bridge(site: usize) -> String {
    format!("br{site}")
}

/// The two ends of what joins a site to the first one.
fn trunk(site: usize) -> [String; 2] {
    [format!("trunk{site}"), format!("far{site}")]
}

fn address(node: usize) -> String {
    format!("10.77.0.{}", node + 1)
}

fn ip(arguments: &[&str]) -> bool {
    let mut command = Command::new("ip");
    let status = command.args(arguments).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
