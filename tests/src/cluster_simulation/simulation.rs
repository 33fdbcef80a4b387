//! One history: the parts of the world, and the step that goes from one thing that happens to the next. The rules are
//! looked at after each step.

use super::daemon::Daemon;
use super::files::Files;
use super::groups::Groups;
use super::happening::{Boot, Happening, Life, RankHappening};
use super::image;
use super::keeper::Keeper;
use super::ledger::Ledger;
use super::machine::{Machine, address};
use super::meeting::Meetings;
use super::network::Network;
use super::person::Person;
use super::queue::Queue;
use super::rank::Rank;
use super::scenario::{Plant, Scenario};
use super::story::Story;
use super::tally::Tally;
use super::violation::Violation;
use pcm_core::membership::{Details, LocalNode, Membership};
use pcm_core::moment::Moment;
use pcm_core::node::cluster::nodes::Nodes;
use pcm_core::node::event::{Event, RankNews};
use pcm_core::node::ranks::launch::InFront;
use pcm_core::node::record::Past;
use pcm_core::node::store::checkpoint_store::HeldBuffer;
use pcm_core::node::store::end::EndAddresses;
use pcm_core::node::store::route::AllowedRoutes;
use pcm_core::node::{Beginnings, Heritage, Node};
use pcm_proto::boot::{BootSpec, NodeSpec, Reach};
use pcm_proto::control::{NodeState, Stream};
use pcm_proto::fabric::{FabricReport, FabricWish};
use pcm_proto::handshake::PROTOCOL_VERSION;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::peer::NodeReport;
use pcm_proto::random::Random;
use pcm_proto::secret::Secret;
use std::collections::BTreeMap;
use std::time::Duration;

/// See the file head.
pub(super) struct Simulation {
    pub(super) scenario: Scenario,
    pub(super) random: Random,
    pub(super) queue: Queue,
    pub(super) story: Story,
    pub(super) machines: Vec<Machine>,
    pub(super) network: Network,
    pub(super) ranks: BTreeMap<ProcessKey, Rank>,
    pub(super) groups: Groups,
    pub(super) meetings: Meetings,
    pub(super) files: Files,
    pub(super) person: Person,
    pub(super) ledger: Ledger,
    pub(super) tally: Tally,
    /// From then on nothing breaks.
    pub(super) is_healed: bool,
    pub(super) pids: u32,
    pub(super) links: u64,
    lives: u64,
    violation: Option<Violation>,
}

impl Simulation {
    pub(super) fn new(seed: u64, scenario: Scenario, is_told: bool) -> Self {
        let hosts = &scenario.hosts;
        let machines = hosts
            .iter()
            .enumerate()
            .map(|(number, host)| Machine::new(number, *host));
        let machines: Vec<Machine> = machines.collect();
        let mut this = Self {
            random: Random::new(seed),
            queue: Queue::default(),
            story: Story::new(is_told),
            network: Network::new(machines.len()),
            machines,
            ranks: BTreeMap::new(),
            groups: Groups::default(),
            meetings: Meetings::default(),
            files: Files::default(),
            person: Person::default(),
            ledger: Ledger::default(),
            tally: Tally::default(),
            is_healed: false,
            pids: 1000,
            links: 0,
            lives: 0,
            violation: None,
            scenario,
        };
        for machine in 0..this.machines.len() {
            let delay = 1 + 30_000 * u64::from(machine > 0) + this.random.between(0, 5_000);
            this.queue.after(delay, Happening::MachineStarts(machine));
            this.machines[machine].clock_off = this.scenario.clock_offs[machine];
        }
        this.plan_history();
        this
    }

    pub(super) fn moment(&self) -> Moment {
        Moment(self.queue.now())
    }

    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        let now = self.queue.now();
        self.story.tell(now, line);
    }

    pub(super) fn violate(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    /// Whether something breaks that breaks in this share of all cases, as long as anything does.
    pub(super) fn breaks(&mut self, share: f64) -> bool {
        !self.is_healed && self.random.chance(share)
    }

    pub(super) fn has_plant(&self, plant: Plant) -> bool {
        self.scenario.plant == Some(plant)
    }

    /// The same, now and then and not from the beginning.
    pub(super) fn plants_now(&mut self, plant: Plant) -> bool {
        self.has_plant(plant) && self.queue.now() > 2_000_000 && self.random.chance(0.3)
    }

    /// One step. `None` when nothing is left to happen.
    pub(super) fn step(&mut self) -> Result<Option<Step>, Violation> {
        let Some(what) = self.queue.pop() else { return Ok(None) };
        self.tally.steps += 1;
        let is_inspection = matches!(what, Happening::Inspection);
        self.happen(what);
        let checked = self.check();
        match self.violation.take() {
            Some(violation) => Err(violation),
            None => checked.map(|()| Some(if is_inspection { Step::Inspection } else { Step::Done })),
        }
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::MachineStarts(machine) => self.on_machine_starts(machine),
            Happening::DaemonStarts(boot) => self.on_daemon_starts(boot),
            Happening::DaemonGoesOn(of) => self.on_daemon_goes_on(of),
            Happening::Farewell(of) => self.on_farewell(of),
            Happening::Timer { of, timer } => self.event_of(of, Event::Timer(*timer)),
            Happening::Event { of, event } => self.event_of(of, *event),
            Happening::KeeperSays { of, word } => self.on_keeper_says(of, *word),
            Happening::Clears { of, job } => self.on_clears(of, job),
            Happening::Salvaged { of, key } => self.on_salvaged(of, key),
            Happening::Net(net) => self.on_net(net),
            Happening::Rank(what) => self.on_rank(what),
            Happening::Store(work) => self.on_background(work),
            Happening::AgentAsks { of, link } => self.on_agent_asks(of, link),
            Happening::Act(act) => self.on_act(*act),
            Happening::Fault => self.on_fault(),
            Happening::DiskHasRoom(machine) => self.machines[machine].disk.set_full(false),
            Happening::Heals => self.on_heals(),
            Happening::Inspection => {}
        }
    }

    fn on_rank(&mut self, what: RankHappening) {
        match what {
            RankHappening::Begins(key) => self.begin_process(key),
            RankHappening::Asks(key) => self.on_asks(key),
            RankHappening::Answered { key, request, line } => self.on_pmi_answered(key, &request, &line),
            RankHappening::Channel(key) => self.on_channel(key),
            RankHappening::Pipe(key) => self.on_pipe(key),
            RankHappening::Told { key, message, file } => self.on_told(key, *message, file),
            RankHappening::LooksUp(turn) => self.on_looks_up(turn),
            RankHappening::Computed(turn) => self.on_computed(turn),
            RankHappening::Tick(turn) => self.on_tick(turn),
            RankHappening::MeetingEnds { turn, is_joined } => self.on_meeting_ends(turn, is_joined),
            RankHappening::MoveEnds(turn) => self.on_move_ends(turn),
            RankHappening::Kept(turn) => self.on_kept(turn),
            RankHappening::Filed { turn, iteration } => self.on_filed(turn, iteration),
            RankHappening::AsksAgain { key, number } => self.on_asks_again(key, number),
            RankHappening::Ends { key, status } => self.on_process_ends(key, status),
        }
    }

    /// The machine of a process, if its daemon serves the process.
    fn served(&self, key: ProcessKey) -> Option<usize> {
        let rank = self.ranks.get(&key)?;
        let machine = &self.machines[rank.on.machine];
        let daemon = machine.daemon.as_ref().filter(|_| machine.boot == rank.on.number)?;
        let is_attached = daemon.attached.contains_key(&key) && !daemon.is_ending;
        is_attached.then_some(rank.on.machine)
    }

    /// A request is in its socket until it is answered.
    fn on_asks(&mut self, key: ProcessKey) {
        let Some(machine) = self.served(key) else { return };
        let request = self.ranks.get(&key).and_then(|rank| rank.pmi.asks.clone());
        let is_alive = self.ranks.get(&key).is_some_and(|rank| rank.is_alive);
        if let Some(request) = request.filter(|_| is_alive) {
            self.event(machine, Event::Rank(RankNews::Pmi { key, request }));
        }
    }

    fn on_channel(&mut self, key: ProcessKey) {
        let Some(machine) = self.served(key) else { return };
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        let said = rank.channel.said.pop_front();
        let is_over = !rank.is_alive && rank.channel.said.is_empty();
        let Some(daemon) = &mut self.machines[machine].daemon else {
            return;
        };
        if let Some((message, file)) = said {
            let memory = file.map(|file| daemon.memory.receive(file));
            self.event(machine, Event::Rank(RankNews::Said { key, message, memory }));
        } else if is_over
            && let Some(attachment) = daemon.attached.get_mut(&key)
            && !std::mem::replace(&mut attachment.is_silent, true)
        {
            return self.event(machine, Event::Rank(RankNews::Silent { key, nonsense: None }));
        }
        if is_over {
            self.queue.after(10, Happening::Rank(RankHappening::Channel(key)));
        }
    }

    fn on_pipe(&mut self, key: ProcessKey) {
        let Some(machine) = self.served(key) else { return };
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        let Some(daemon) = &mut self.machines[machine].daemon else {
            return;
        };
        let Some(attachment) = daemon.attached.get_mut(&key).filter(|attachment| attachment.is_read) else {
            return;
        };
        let is_over = !rank.is_alive;
        let ends = is_over && !std::mem::replace(&mut attachment.has_output_ended, is_over);
        let bytes: Vec<u8> = rank.pipe.drain(..).flatten().collect();
        let stream = Stream::Stdout;
        if !bytes.is_empty() {
            self.event(machine, Event::Rank(RankNews::Printed { key, stream, bytes }));
        }
        if ends {
            for stream in [Stream::Stdout, Stream::Stderr] {
                self.event(machine, Event::Rank(RankNews::OutputEnded { key, stream }));
            }
        }
    }

    fn on_machine_starts(&mut self, machine: usize) {
        if self.machines[machine].is_up() {
            return;
        }
        let now = self.queue.now();
        // Whoever boots it tells it of one that is there.
        let is_there = |other: &usize| *other != machine && self.machines[*other].daemon.is_some();
        let seeds = (0..self.machines.len()).filter(is_there).map(address).take(1).collect();
        let own = &mut self.machines[machine];
        own.seeds = seeds;
        own.boot += 1;
        own.since = now;
        own.has_left = false;
        own.keeper = Some(Keeper::default());
        own.disk.clear();
        let boot = own.boot(machine);
        self.tell(|| format!("n{machine} starts"));
        self.queue.after(2_000, Happening::DaemonStarts(boot));
    }

    fn on_daemon_starts(&mut self, boot: Boot) {
        let (machine, now) = (boot.machine, self.queue.now());
        let own = &self.machines[machine];
        let is_ending = own.keeper.as_ref().is_none_or(Keeper::is_ending);
        if own.boot != boot.number || own.daemon.is_some() || is_ending {
            return;
        }
        let restarts = own.keeper.as_ref().map_or(0, Keeper::restarts);
        self.lives += 1;
        self.tally.restarts += u64::from(restarts > 0);
        if restarts > 0 {
            self.plant_in_journal(machine);
        }
        let own = &self.machines[machine];
        let life = Life {
            machine,
            number: self.lives,
        };
        let limits = self.scenario.limits();
        let past = match restarts {
            0 => Past::new(own.name.clone(), limits),
            _ => own.disk.past(&own.name, limits),
        };
        let first = past.next_boot(Moment(self.machines[machine].wall(now)));
        let node = self.make_node(machine, &past, first);
        let began = (now, first.0);
        self.machines[machine].daemon = Some(Daemon::new(life, node, began));
        self.tell(|| format!("n{machine} daemon starts, {restarts} before it"));
        let heritage = self.heritage(machine, restarts, past);
        let Some(daemon) = &mut self.machines[machine].daemon else {
            return;
        };
        let effects = daemon.node.begin(heritage);
        self.carry_out(machine, effects);
    }

    fn spec(&self, machine: usize, cpus: &[u32]) -> BootSpec {
        let own = &self.machines[machine];
        BootSpec {
            version: PROTOCOL_VERSION,
            cluster_id: "c0ffee".to_owned(),
            cluster_dir: "/cluster".into(),
            key: Secret::default(),
            node: NodeSpec {
                name: own.name.clone(),
                address: address(machine),
                site: "here".to_owned(),
                cpus: cpus.to_vec(),
                reach: Reach::Local,
            },
            subtree: Vec::new(),
            seeds: own.seeds.clone(),
            fabric: FabricWish::default(),
            is_rdma_sealed: false,
            patience_ms: self.scenario.patience_ms,
        }
    }

    fn make_node(&self, machine: usize, past: &Past, now: Moment) -> Node {
        let own = &self.machines[machine];
        let (name, cpus) = (own.name.clone(), vec![0, 1, 2, 3]);
        let spec = self.spec(machine, &cpus);
        let local = LocalNode {
            node: name.clone(),
            boot: now.0,
            details: Details {
                address: address(machine),
                site: "here".to_owned(),
                cpus: cpus.clone(),
                host: own.host,
                ud: None,
            },
            patience: spec.patience(),
        };
        let known = past.nodes.iter().map(|report| report.address.clone());
        let seeds = known.chain(spec.seeds.clone()).collect();
        let members = Membership::new(local, seeds, Duration::from_micros(now.0));
        let report = NodeReport {
            node: name,
            address: address(machine),
            site: "here".to_owned(),
            cpus: cpus.clone(),
            state: if past.is_draining {
                NodeState::Draining
            } else {
                NodeState::Up
            },
            host: own.host,
            host_name: "simulated".to_owned(),
            speed: 0.0,
            load_by_others: 0.0,
            ranks: 0,
            free_memory: 0,
            daemon_pid: 1,
            highest_job: past.numbers.highest(),
            keeper_since_us: past.keeper_since_us.unwrap_or(now.0),
            fabric: FabricReport::default(),
            ends: None,
        };
        let bulk = self.scenario.has_bulk.then(|| EndAddresses {
            port: 70,
            rdma: Err("no device".to_owned()),
        });
        Node::new(Beginnings {
            address: address(machine),
            cpus,
            now,
            limits: self.scenario.limits(),
            notice: Duration::from_secs(8),
            libraries: InFront::default(),
            nodes: Nodes::new(report, members),
            numbers: past.numbers.clone(),
            has_device: false,
            routes: AllowedRoutes::default(),
            bulk,
            spec,
        })
    }

    fn heritage(&mut self, machine: usize, restarts: u32, past: Past) -> Heritage {
        let keeper = self.machines[machine].keeper.as_ref();
        let keys: Vec<ProcessKey> = keeper
            .into_iter()
            .flat_map(|keeper| keeper.table.keys().copied())
            .collect();
        let held = keys.into_iter().filter_map(|key| self.hold(machine, key)).collect();
        let own = &mut self.machines[machine];
        let (mut parked, mut buffers) = (Vec::new(), Vec::new());
        if let (Some(keeper), Some(daemon)) = (&own.keeper, &mut own.daemon) {
            for (key, file) in &keeper.images {
                parked.push((*key, Some(daemon.memory.receive(file.clone()))));
            }
            for (key, file) in &keeper.buffers {
                let stated = image::tally(&file.borrow()).filter(|_| image::is_summed(&file.borrow()));
                let memory = Some(daemon.memory.receive(file.clone()));
                buffers.push(HeldBuffer {
                    key: *key,
                    memory,
                    stated,
                });
            }
        }
        Heritage {
            restarts,
            held,
            parked,
            buffers,
            past,
        }
    }
}

/// What a step was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Done,
    /// It is to be looked whether everything has settled.
    Inspection,
}
