//! What breaks, when, and what somebody asks for meanwhile. Also the failure detectors, which notice late.

use super::cluster::{Happening, Sight, Simulation};
use pcm_core::reconfiguration::effects::Input;
use pcm_proto::ids::{NodeName, ProcessId, Rank, WorldId};
use pcm_proto::layout::{ModeWanted, PlanKind, PlanRequest, Seat};
use pcm_proto::method::Method;

/// A node that is not heard of for so long is taken for gone.
const UNSEEN_MAX_US: u64 = 300_000;
const LOOK_EVERY_US: u64 = 100_000;

impl Simulation {
    pub(super) fn on_fault(&mut self) {
        if self.is_healed {
            return;
        }
        let every = self.scenario.fault_every_us;
        let next = self.random.between(every / 2, every * 3 / 2);
        self.after(next, Happening::Fault);
        let node = self.random.index(self.nodes.len());
        if self.random.chance(self.scenario.kill) {
            let alive: Vec<ProcessId> = self.processes.values().filter(|p| p.is_alive).map(|p| p.id).collect();
            if let Some(process) = self.random.pick(&alive) {
                self.tell(|| format!("process {process} is killed"));
                self.after(
                    0,
                    Happening::Ends {
                        process,
                        finished: false,
                    },
                );
            }
        } else if self.random.chance(self.scenario.partition) {
            for side in &mut self.sides {
                *side = u8::from(self.random.chance(0.5));
            }
            let sides = self.sides.clone();
            self.tell(|| format!("the network is cut: {sides:?}"));
            let span = self.random.between(50_000, 3_000_000);
            self.after(span, Happening::Reunion);
        } else if self.random.chance(self.scenario.machine) {
            self.kill_machine(node);
        } else if self.nodes[node].is_daemon_up {
            self.tell(|| format!("n{node} daemon is killed"));
            self.kill_daemon(node);
        }
    }

    fn kill_machine(&mut self, node: usize) {
        if !self.nodes[node].is_up {
            return;
        }
        self.tell(|| format!("n{node} machine dies"));
        let here: Vec<ProcessId> = self
            .processes
            .values()
            .filter(|p| p.node == node && p.is_alive)
            .map(|p| p.id)
            .collect();
        for process in here {
            self.on_ends(process, false);
        }
        let machine = &mut self.nodes[node];
        machine.is_up = false;
        machine.is_daemon_up = false;
        machine.life += 1;
        machine.machine += 1;
        machine.daemon = None;
        machine.store = None;
        machine.parked.clear();
        machine.socket.clear();
        let delay = self.random.between(100_000, 2_000_000);
        self.after(delay, Happening::MachineStarts { node });
    }

    pub(super) fn on_machine_starts(&mut self, node: usize) {
        if self.nodes[node].is_up || self.is_dead_for_good(node) {
            return;
        }
        self.tell(|| format!("n{node} machine starts again"));
        self.nodes[node].is_up = true;
        self.on_daemon_starts(node);
    }

    /// In some histories the first machine that is down when the faults end stays so.
    pub(super) fn is_dead_for_good(&self, node: usize) -> bool {
        self.is_healed && self.scenario.one_stays_dead && self.nodes.iter().position(|n| !n.is_up) == Some(node)
    }

    pub(super) fn on_heal(&mut self) {
        self.tell(|| "everything heals".to_owned());
        self.is_healed = true;
        self.sides.fill(0);
        for node in 0..self.nodes.len() {
            if !self.nodes[node].is_up {
                self.on_machine_starts(node);
            }
            self.on_daemon_starts(node);
        }
        self.after(500_000, Happening::Inspect);
    }

    pub(super) fn on_look_around(&mut self) {
        self.after(LOOK_EVERY_US, Happening::LookAround);
        for watcher in 0..self.nodes.len() {
            for other in 0..self.nodes.len() {
                if watcher != other && self.nodes[watcher].is_daemon_up {
                    self.look_at(watcher, other);
                }
            }
        }
    }

    fn look_at(&mut self, watcher: usize, other: usize) {
        let sees = self.nodes[other].is_daemon_up && self.sides[watcher] == self.sides[other];
        let (machine, now, name) = (self.nodes[other].machine, self.now, self.name(other));
        let sight = &mut self.nodes[watcher].sights[other];
        let Sight {
            unseen_since,
            is_gone,
            machine: known,
        } = *sight;
        let input = match (sees, is_gone) {
            (true, _) => {
                *sight = Sight {
                    unseen_since: None,
                    is_gone: false,
                    machine,
                };
                if known != machine {
                    Some(Input::NodeReborn { node: name })
                } else {
                    is_gone.then_some(Input::NodeBack { node: name })
                }
            }
            (false, true) => None,
            (false, false) => {
                let since = *sight.unseen_since.get_or_insert(now);
                sight.is_gone = now - since >= UNSEEN_MAX_US;
                sight.is_gone.then_some(Input::NodeGone { node: name })
            }
        };
        let _ = unseen_since;
        if let Some(input) = input {
            self.tell(|| format!("n{watcher} sees {input:?}"));
            self.input(watcher, input);
        }
    }

    pub(super) fn on_request(&mut self) {
        if self.is_healed {
            return;
        }
        let every = self.scenario.request_every_us;
        let next = self.random.between(every / 2, every * 3 / 2);
        self.after(next, Happening::Request);
        let holders: Vec<usize> = (0..self.nodes.len())
            .filter(|node| self.nodes[*node].daemon.as_ref().is_some_and(|d| d.is_holder()))
            .collect();
        let anyone = self.random.index(self.nodes.len());
        let asked = if self.random.chance(0.05) {
            anyone
        } else {
            self.random.pick(&holders).unwrap_or(anyone)
        };
        let Some(layout) = self.nodes[asked].daemon.as_ref().and_then(|d| d.layout()) else {
            return;
        };
        let (size, worlds_met) = (layout.size(), 1);
        let request = self.draw_request(size);
        let (next_process, next_world) = (ProcessId(0), WorldId(0));
        self.input(
            asked,
            Input::Request {
                request,
                next_process,
                next_world,
                worlds_met,
            },
        );
        if self.random.chance(0.02) {
            self.input(asked, Input::Cancel);
        }
    }

    fn draw_request(&mut self, size: usize) -> PlanRequest {
        let mut seats: Vec<Seat> = (0..size as u32).map(|rank| Seat::Stay { rank: Rank(rank) }).collect();
        let mode = self.random.pick(&[
            ModeWanted::Auto,
            ModeWanted::Auto,
            ModeWanted::Live,
            ModeWanted::Relaunch,
        ]);
        let mut weights = Vec::new();
        let kind = match self.random.index(5) {
            0 | 1 => {
                for _ in 0..1 + self.random.index(2) {
                    let rank = self.random.index(size);
                    seats[rank] = Seat::Move {
                        rank: Rank(rank as u32),
                        to: self.any_node(),
                    };
                }
                PlanKind::Migrate
            }
            2 if size < 7 => {
                for _ in 0..1 + self.random.index(2) {
                    let at = self.random.index(seats.len() + 1);
                    let node = self.any_node();
                    seats.insert(at, Seat::Join { node });
                }
                PlanKind::Expand
            }
            3 if size > 1 => {
                seats.remove(self.random.index(size));
                PlanKind::Shrink
            }
            _ => {
                weights = (0..seats.len()).map(|_| 1 + self.random.index(3) as u32).collect();
                PlanKind::Rebalance
            }
        };
        if self.random.chance(0.1) {
            // Several at once, and another order of ranks.
            let last = seats.len() - 1;
            seats.swap(0, last);
        }
        let witnesses = if self.random.chance(0.4) {
            vec![self.any_node()]
        } else {
            Vec::new()
        };
        let mode = mode.unwrap_or(ModeWanted::Auto);
        let methods: Vec<Method> = Method::all().collect();
        let method = match self.random.chance(0.5) {
            true => Method::default(),
            false => self.random.pick(&methods).unwrap_or_default(),
        };
        PlanRequest {
            kind,
            cause: "drawn".into(),
            mode,
            seats,
            weights,
            witnesses,
            method,
        }
    }

    fn any_node(&mut self) -> NodeName {
        let node = self.random.index(self.nodes.len());
        self.name(node)
    }
}
