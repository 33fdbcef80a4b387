//! The cluster of one history: its nodes, processes, network and clock, and the queue of what happens next.

use super::invariants::{Ledger, Seen, Violation};
use super::meeting::Meetings;
use super::process::Process;
use super::scenario::Scenario;
use pcm_core::moment::Moment;
use pcm_core::reconfiguration::effects::{Report, Timer};
use pcm_core::reconfiguration::limits::Limits;
use pcm_core::reconfiguration::reconfigurer::Reconfigurer;
use pcm_core::reconfiguration::record::JobRecord;
use pcm_proto::ids::{Epoch, NodeName, ProcessId, WorldId};
use pcm_proto::layout::{Layout, Member};
use pcm_proto::random::Random;
use pcm_proto::reconfiguration::{Attempt, ReconfigurationMessage, ReconfigurationOrder, ReconfigurationReport};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Something that will happen.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    /// A message arrives at a machine, if it is still the same one.
    Message {
        to: usize,
        machine: u32,
        from: usize,
        message: Box<ReconfigurationMessage>,
    },
    /// A daemon's timer ends, if it still is the same daemon.
    Timer {
        node: usize,
        life: u32,
        timer: Timer,
    },
    /// A process says something to its daemon.
    Report {
        process: ProcessId,
        report: ReconfigurationReport,
    },
    /// A daemon says something to a process.
    Order {
        process: ProcessId,
        order: ReconfigurationOrder,
    },
    /// A process that was started is initialised.
    Initialised {
        process: ProcessId,
        restored: Option<Attempt>,
    },
    /// A process looks at its ceiling after it announced an iteration.
    LooksUp {
        process: ProcessId,
        turn: u32,
    },
    /// A process has computed an iteration.
    Computed {
        process: ProcessId,
        turn: u32,
    },
    /// A waiting process looks at the time.
    Tick {
        process: ProcessId,
        turn: u32,
    },
    /// A process comes out of accept and connect, or of the redistribution, or has parked.
    MeetingEnds {
        process: ProcessId,
        turn: u32,
        joined: bool,
    },
    MoveEnds {
        process: ProcessId,
        turn: u32,
    },
    /// Data of a stuck process was copied.
    Salvaged {
        node: usize,
        life: u32,
        process: ProcessId,
        attempt: Attempt,
    },
    /// A process ends.
    Ends {
        process: ProcessId,
        finished: bool,
    },
    /// The keeper tells the daemon of an end.
    EndKnown {
        node: usize,
        process: ProcessId,
    },
    /// The failure detectors look around.
    LookAround,
    /// Somebody asks for a reconfiguration.
    Request,
    Fault,
    /// A daemon, or a whole machine, starts again.
    DaemonStarts {
        node: usize,
    },
    MachineStarts {
        node: usize,
    },
    /// The cut through the network is gone.
    Reunion,
    /// From now on nothing breaks.
    Heal,
    /// Has everything settled?
    Inspect,
}

struct Entry {
    at: u64,
    order: u64,
    what: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// What one failure detector thinks of one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    pub(super) unseen_since: Option<u64>,
    pub(super) is_gone: bool,
    pub(super) machine: u32,
}

/// One machine with its daemon.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: NodeName,
    pub(super) is_up: bool,
    /// Counts how often the machine was started.
    pub(super) machine: u32,
    pub(super) is_daemon_up: bool,
    /// Counts how often the daemon was started.
    pub(super) life: u32,
    pub(super) daemon: Option<Reconfigurer>,
    pub(super) store: Option<JobRecord>,
    /// Iteration and elements parked here, by attempt.
    pub(super) parked: BTreeMap<Attempt, (u64, Vec<(u32, u64)>)>,
    /// What processes said while the daemon was down.
    pub(super) socket: Vec<(ProcessId, ReconfigurationReport)>,
    pub(super) sights: Vec<Sight>,
}

/// Counts of what a history went through, to know that histories are worth telling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub steps: u64,
    /// Requests that were taken on.
    pub accepted: u64,
    /// Reconfigurations committed, as reported.
    pub committed: u64,
    /// Attempts aborted, as reported.
    pub aborted: u64,
    /// Leases that moved.
    pub takeovers: u64,
    /// Attempts that followed a failed one as a relaunch.
    pub followed: u64,
    /// Daemons and machines that were started again.
    pub restarts: u64,
    /// Whether the job was lost.
    pub lost: u64,
    /// Whether it came to its own end.
    pub finished: u64,
}

impl Tally {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            steps: self.steps + other.steps,
            accepted: self.accepted + other.accepted,
            committed: self.committed + other.committed,
            aborted: self.aborted + other.aborted,
            takeovers: self.takeovers + other.takeovers,
            followed: self.followed + other.followed,
            restarts: self.restarts + other.restarts,
            lost: self.lost + other.lost,
            finished: self.finished + other.finished,
        }
    }
}

pub struct Simulation {
    pub(super) scenario: Scenario,
    pub(super) limits: Limits,
    pub(super) random: Random,
    pub(super) now: u64,
    queue: BinaryHeap<Reverse<Entry>>,
    order: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) processes: BTreeMap<ProcessId, Process>,
    pub(super) meetings: Meetings,
    /// Which side of a cut each node is on.
    pub(super) sides: Vec<u8>,
    pub(super) is_healed: bool,
    pub(super) ledger: Ledger,
    pub(super) seen: Vec<Seen>,
    pub(super) tally: Tally,
    /// Whether somebody said that the job, or its part on a node, is lost.
    pub(super) is_loss_reported: bool,
    pub(super) plant_at: u64,
    /// What happened, one line a step; only kept when asked for.
    pub(super) story: Option<Vec<String>>,
}

impl Simulation {
    /// A cluster whose job has just started.
    pub fn new(seed: u64, scenario: Scenario, tells: bool) -> Self {
        let mut random = Random::new(seed);
        let names = (0..scenario.nodes).map(|i| NodeName::new(format!("n{i}")).expect("a plain name"));
        let sight = Sight {
            unseen_since: None,
            is_gone: false,
            machine: 0,
        };
        let nodes: Vec<Node> = names
            .map(|name| Node {
                name,
                is_up: true,
                machine: 0,
                is_daemon_up: true,
                life: 0,
                daemon: None,
                store: None,
                parked: BTreeMap::new(),
                socket: Vec::new(),
                sights: vec![sight; scenario.nodes],
            })
            .collect();
        let (sides, limits) = (vec![0; scenario.nodes], scenario.limits());
        let plant_at = random.between(500_000, 1_500_000);
        let mut this = Self {
            limits,
            random,
            now: 0,
            queue: BinaryHeap::new(),
            order: 0,
            nodes,
            processes: BTreeMap::new(),
            meetings: Meetings::default(),
            sides,
            is_healed: false,
            ledger: Ledger::new(scenario.elements),
            seen: Vec::new(),
            tally: Tally::default(),
            is_loss_reported: false,
            plant_at,
            story: tells.then(Vec::new),
            scenario,
        };
        this.start_job();
        let (fault, request, heal) = (
            this.scenario.fault_every_us,
            this.scenario.request_every_us,
            this.scenario.heal_at_us,
        );
        this.after(request, Happening::Request);
        if fault > 0 {
            this.after(fault, Happening::Fault);
        }
        this.after(heal, Happening::Heal);
        this.after(50_000, Happening::LookAround);
        this
    }

    fn start_job(&mut self) {
        let mut members = Vec::new();
        for rank in 0..self.scenario.ranks {
            let node = self.random.index(self.nodes.len());
            members.push((node, ProcessId(rank as u32)));
        }
        let first = members[0].0;
        let witness = self.random.chance(0.5).then(|| self.random.index(self.nodes.len()));
        let layout = Layout {
            epoch: Epoch(0),
            members: members
                .iter()
                .map(|(node, process)| Member {
                    process: *process,
                    node: self.nodes[*node].name.clone(),
                    world: WorldId(0),
                })
                .collect(),
            weights: Vec::new(),
            witnesses: witness.map(|node| self.nodes[node].name.clone()).into_iter().collect(),
        };
        let (voters, holder) = (layout.voters(), self.nodes[first].name.clone());
        for node in 0..self.nodes.len() {
            if voters.contains(&self.nodes[node].name) {
                let (name, limits) = (self.nodes[node].name.clone(), self.limits.clone());
                let (daemon, effects) = Reconfigurer::at_start(name, holder.clone(), layout.clone(), limits);
                self.nodes[node].daemon = Some(daemon);
                self.carry_out(node, effects);
            }
        }
        for (node, process) in members {
            self.start_first(process, node, &layout);
        }
    }

    pub(super) fn moment(&self) -> Moment {
        Moment(self.now)
    }

    pub(super) fn after(&mut self, span: u64, what: Happening) {
        self.order += 1;
        self.queue.push(Reverse(Entry {
            at: self.now + span,
            order: self.order,
            what,
        }));
    }

    pub(super) fn node_of(&self, name: &NodeName) -> usize {
        let index = name.as_str().strip_prefix('n').and_then(|digits| digits.parse().ok());
        index.expect("every node of a simulation is named by its index")
    }

    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(format!("{:>10} {}", self.now, line()));
        }
    }

    /// The story so far, if it was asked for.
    pub fn story(&self) -> &[String] {
        self.story.as_deref().unwrap_or_default()
    }

    /// What this history went through.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// One step. `None` when nothing is left to happen or everything has been inspected.
    pub fn step(&mut self) -> Result<Option<Inspection>, Violation> {
        let Some(Reverse(Entry { at, what, .. })) = self.queue.pop() else {
            return Ok(Some(Inspection::Settled));
        };
        self.now = at;
        self.tally.steps += 1;
        let inspection = self.happen(what);
        for seen in std::mem::take(&mut self.seen) {
            self.ledger.check(&seen)?;
        }
        Ok(inspection)
    }

    fn happen(&mut self, what: Happening) -> Option<Inspection> {
        match what {
            Happening::Message {
                to,
                machine,
                from,
                message,
            } => self.on_message(to, machine, from, *message),
            Happening::Timer { node, life, timer } => self.on_timer(node, life, timer),
            Happening::Report { process, report } => self.on_report(process, report),
            Happening::Order { process, order } => self.on_order(process, order),
            Happening::Initialised { process, restored } => self.on_initialised(process, restored),
            Happening::LooksUp { process, turn } => self.on_looks_up(process, turn),
            Happening::Computed { process, turn } => self.on_computed(process, turn),
            Happening::Tick { process, turn } => self.on_tick(process, turn),
            Happening::MeetingEnds { process, turn, joined } => self.on_meeting_ends(process, turn, joined),
            Happening::MoveEnds { process, turn } => self.on_move_ends(process, turn),
            Happening::Salvaged {
                node,
                life,
                process,
                attempt,
            } => self.on_salvaged(node, life, process, attempt),
            Happening::Ends { process, finished } => self.on_ends(process, finished),
            Happening::EndKnown { node, process } => self.on_end_known(node, process),
            Happening::LookAround => self.on_look_around(),
            Happening::Request => self.on_request(),
            Happening::Fault => self.on_fault(),
            Happening::DaemonStarts { node } => self.on_daemon_starts(node),
            Happening::MachineStarts { node } => self.on_machine_starts(node),
            Happening::Reunion => self.sides.fill(0),
            Happening::Heal => self.on_heal(),
            Happening::Inspect => return Some(Inspection::Due),
        }
        None
    }

    /// What daemons tell those who watch.
    pub(super) fn on_watched(&mut self, node: usize, report: &Report) {
        self.tell(|| format!("n{node} reports {report:?}"));
        match report {
            Report::Accepted { .. } => self.tally.accepted += 1,
            Report::Reconfigured { .. } => self.tally.committed += 1,
            Report::Aborted { followed_by, .. } => {
                self.tally.aborted += 1;
                self.tally.followed += u64::from(followed_by.is_some());
            }
            Report::LeaseTaken { .. } => self.tally.takeovers += 1,
            Report::JobLost { .. } | Report::EndedHere { .. } => self.is_loss_reported = true,
            _ => {}
        }
    }
}

/// What a step asks of the runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inspection {
    /// Look whether everything has settled.
    Due,
    /// Nothing more will happen.
    Settled,
}
