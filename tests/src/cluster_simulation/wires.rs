//! How messages go between daemons: over wires that are dialled when there is something to say, or as datagrams. What
//! each daemon's transport reports.

use super::happening::{Happening, Life, Net};
use super::peers::Dial;
use super::simulation::Simulation;
use super::story::short;
use pcm_core::node::event::{Event, PeerFact};
use pcm_proto::peer::{Answer, DaemonToDaemon, Question};

/// Whether a message may be lost, arrive twice, or overtake others, as `pcm-fabric` sends it.
fn is_unordered(message: &DaemonToDaemon) -> bool {
    match message {
        DaemonToDaemon::Membership(_) | DaemonToDaemon::Report(_) | DaemonToDaemon::Agent(_) => true,
        DaemonToDaemon::Job { .. } => false,
        DaemonToDaemon::Ask { question, .. } => !matches!(
            **question,
            Question::Trace { .. } | Question::Control(_) | Question::EndJobs | Question::Quit
        ),
        DaemonToDaemon::Answer { answer, .. } => {
            !matches!(**answer, Answer::Trace(_) | Answer::Control(_) | Answer::Done)
        }
    }
}

impl Simulation {
    fn delay(&mut self) -> u64 {
        let is_slow = self.breaks(self.scenario.faults.slow);
        if is_slow {
            self.random.between(5_000, 400_000)
        } else {
            self.random.between(80, 1_500)
        }
    }

    /// Sends a message to another daemon.
    pub(super) fn send(&mut self, machine: usize, to: usize, message: DaemonToDaemon) {
        let Some(daemon) = &mut self.machines[machine].daemon else {
            return;
        };
        if self.scenario.has_datagrams && daemon.peers.has_address(to) && is_unordered(&message) {
            return self.send_datagram(machine, to, message);
        }
        daemon.peers.enqueue(to, message);
        self.send_waiting(machine, to);
    }

    /// Sends a message to a daemon of which only the address is known.
    pub(super) fn send_apart(&mut self, machine: usize, to: usize, message: DaemonToDaemon) {
        if to != machine {
            self.send_datagram(machine, to, message);
        }
    }

    fn send_datagram(&mut self, machine: usize, to: usize, message: DaemonToDaemon) {
        let copies = 1 + usize::from(self.breaks(self.scenario.faults.duplicate));
        for _ in 0..copies {
            let is_lost = self.breaks(self.scenario.faults.loss) || self.network.is_cut(machine, to);
            let Some(life) = self.machines[to].life().filter(|_| !is_lost) else {
                continue;
            };
            let delay = self.delay();
            let net = Net::Datagram {
                from: machine,
                to: life,
                message: Box::new(message.clone()),
            };
            self.queue.after(delay, Happening::Net(net));
        }
    }

    fn send_waiting(&mut self, machine: usize, to: usize) {
        let Some(daemon) = &mut self.machines[machine].daemon else {
            return;
        };
        let of = daemon.life();
        let Some(number) = daemon.peers.wire(to) else {
            return self.dial(machine, to);
        };
        for message in daemon.peers.take_waiting(to) {
            let delay = self.delay();
            let at = self.queue.now() + delay;
            // The sender may not have noticed that it has ended.
            let Some(wire) = self.network.wire(number) else {
                continue;
            };
            let to = wire.other(of);
            let (at, message) = (self.network.lane(of, to).arrives(at), Box::new(message));
            let net = Net::Arrives {
                wire: number,
                to,
                message,
            };
            self.queue.at(at, Happening::Net(net));
        }
    }

    pub(super) fn dial(&mut self, machine: usize, to: usize) {
        let Some(daemon) = &mut self.machines[machine].daemon else {
            return;
        };
        let of = daemon.life();
        if daemon.peers.begin_dial(to) == Dial::Begins {
            let delay = self.random.between(300, 4_000);
            self.queue.after(delay, Happening::Net(Net::Dialled { of, to }));
        }
    }

    pub(super) fn on_net(&mut self, net: Net) {
        match net {
            Net::Arrives { wire, to, message } => self.on_arrives(wire, to, message),
            Net::Datagram { from, to, message } => {
                let node = self.machines[from].name.clone();
                let message = *message;
                self.event_of(to, Event::Peer(PeerFact::Said { node, message }));
            }
            Net::Thaws { from, to } => self.on_thaws(from, to),
            Net::Dialled { of, to } => self.on_dialled(of, to),
            Net::DialFails { of, to } => self.on_dial_fails(of, to),
            Net::Accepted { of, by, wire } => self.on_accepted(of, by, wire),
            Net::Noticed { of, peer, wire } => self.on_noticed(of, peer, wire),
            Net::GivesUp(number) => {
                let ends = self.network.wire(number).map(|wire| wire.ends);
                if ends.is_some_and(|[one, other]| self.network.is_cut(one.machine, other.machine)) {
                    self.break_wire(number, true);
                }
            }
            Net::Reunion => {
                self.tell(|| "the network is whole again".to_owned());
                self.network.mend();
            }
        }
    }

    fn on_arrives(&mut self, number: u64, to: Life, message: Box<DaemonToDaemon>) {
        let Some(wire) = self.network.wire(number) else { return };
        let from = wire.other(to);
        let is_cut = self.network.is_cut(from.machine, to.machine);
        let lane = self.network.lane(from, to);
        if lane.is_stalled() {
            return lane.stall(number, message);
        }
        if is_cut {
            lane.stall(number, message);
            return self.queue.after(30_000, Happening::Net(Net::Thaws { from, to }));
        }
        self.deliver(from.machine, to, *message);
    }

    fn deliver(&mut self, from: usize, to: Life, message: DaemonToDaemon) {
        let node = self.machines[from].name.clone();
        if matches!(message, DaemonToDaemon::Job { .. }) && self.plants_now(super::scenario::Plant::LinkLosesMessages) {
            return;
        }
        self.event_of(to, Event::Peer(PeerFact::Said { node, message }));
    }

    fn on_thaws(&mut self, from: Life, to: Life) {
        if self.network.is_cut(from.machine, to.machine) {
            return self.queue.after(30_000, Happening::Net(Net::Thaws { from, to }));
        }
        for (number, message) in self.network.lane(from, to).take_stalled() {
            if self.network.wire(number).is_some() {
                self.deliver(from.machine, to, *message);
            }
        }
    }

    fn on_dialled(&mut self, of: Life, to: usize) {
        if self.machines[of.machine].life() != Some(of) {
            return;
        }
        let is_cut = self.network.is_cut(of.machine, to);
        let target = self.machines[to]
            .daemon
            .as_ref()
            .filter(|daemon| !daemon.is_ending && !is_cut);
        let Some(other) = target.map(super::daemon::Daemon::life) else {
            // A machine that is there refuses at once; of one that is not nothing is heard.
            let is_there = self.machines[to].is_up() && !is_cut;
            let delay = if is_there {
                100
            } else {
                self.random.between(300_000, 2_000_000)
            };
            return self.queue.after(delay, Happening::Net(Net::DialFails { of, to }));
        };
        let number = self.network.connect(of, other);
        let delay = self.random.between(50, 500);
        let at = self.queue.now() + delay;
        self.network.lane(of, other).arrives(at);
        let accepted = Net::Accepted {
            of: other,
            by: of.machine,
            wire: number,
        };
        self.queue.at(at, Happening::Net(accepted));
        self.linked(of.machine, to, number, true);
    }

    fn linked(&mut self, machine: usize, other: usize, wire: u64, is_own_dial: bool) {
        let Some(daemon) = &mut self.machines[machine].daemon else {
            return;
        };
        daemon.peers.on_linked(other, wire, is_own_dial);
        self.send_waiting(machine, other);
        let node = self.machines[other].name.clone();
        self.event(machine, Event::Peer(PeerFact::Linked(node)));
    }

    fn on_accepted(&mut self, of: Life, by: usize, wire: u64) {
        if self.machines[of.machine].life() == Some(of) && self.network.wire(wire).is_some() {
            self.linked(of.machine, by, wire, false);
        }
    }

    fn on_dial_fails(&mut self, of: Life, to: usize) {
        if self.machines[of.machine].life() != Some(of) {
            return;
        }
        let Some(daemon) = &mut self.machines[of.machine].daemon else {
            return;
        };
        daemon.peers.on_dial_failed(to);
        let (node, reason) = (self.machines[to].name.clone(), "nothing answers there".to_owned());
        self.event(of.machine, Event::Peer(PeerFact::Unreachable { node, reason }));
    }

    fn on_noticed(&mut self, of: Life, peer: usize, wire: u64) {
        if self.machines[of.machine].life() != Some(of) {
            return;
        }
        let Some(daemon) = &mut self.machines[of.machine].daemon else {
            return;
        };
        let is_linked = daemon.peers.on_ended(peer, wire);
        let node = self.machines[peer].name.clone();
        let fact = match is_linked {
            true => PeerFact::Linked(node),
            false => PeerFact::Unlinked(node),
        };
        self.event(of.machine, Event::Peer(fact));
    }

    /// A wire ends; both sides notice, at their own time.
    pub(super) fn break_wire(&mut self, number: u64, is_silent: bool) {
        let Some(wire) = self.network.remove(number) else {
            return;
        };
        self.tell(|| format!("the wire {} ends", short(&wire.ends)));
        let [one, other] = wire.ends;
        for (of, peer) in [(one, other.machine), (other, one.machine)] {
            let delay = match is_silent {
                true => self.random.between(1_000, 800_000),
                false => self.random.between(50, 1_500),
            };
            let noticed = Net::Noticed { of, peer, wire: number };
            self.queue.after(delay, Happening::Net(noticed));
        }
    }

    /// The node is taken for dead: all wires to it are dropped.
    pub(super) fn forget_wires(&mut self, machine: usize, other: usize) {
        let Some(daemon) = &mut self.machines[machine].daemon else {
            return;
        };
        daemon.peers.forget(other);
        let of = daemon.life();
        for number in self.network.of(of) {
            let wire = self.network.wire(number);
            if wire.is_some_and(|wire| wire.other(of).machine == other) {
                self.break_wire(number, false);
            }
        }
    }

    /// All wires of a daemon end with it.
    pub(super) fn break_wires_of(&mut self, of: Life, is_silent: bool) {
        for number in self.network.of(of) {
            self.break_wire(number, is_silent);
        }
    }
}
