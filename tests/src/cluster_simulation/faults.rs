//! What breaks, and when.

use super::happening::{Happening, Life, Net, RankHappening};
use super::keeper::HEALTHY_AFTER;
use super::rank::Rank;
use super::scenario::Plant;
use super::seen::Seen;
use super::simulation::Simulation;
use pcm_core::job::at_node::Entry;
use pcm_core::node::record::Record;
use pcm_proto::keeper::{ExitStatus, ProcessKey};

/// Between the end of a machine and its return as a new node, so that all others have noticed.
const RETURN_AFTER: (u64, u64) = (6_000_000, 12_000_000);

/// Share of machines that are away three times as long: who waits for one gives up what it did for its jobs.
const LONG_AWAY: f64 = 0.25;

impl Simulation {
    /// What is to happen in this history.
    pub(super) fn plan_history(&mut self) {
        let scenario = &self.scenario;
        let (every, heal) = (scenario.faults.every_us, scenario.heal_at_us);
        if every > 0 {
            self.queue.after(1_000_000 + every, Happening::Fault);
        }
        self.queue.after(heal, Happening::Heals);
        for (at, act) in self.scenario.acts.clone() {
            self.queue.after(at, Happening::Act(Box::new(act)));
        }
    }

    pub(super) fn on_fault(&mut self) {
        if self.is_healed {
            return;
        }
        let every = self.scenario.faults.every_us;
        let next = self.random.between(every / 2, every * 3 / 2);
        self.queue.after(next, Happening::Fault);
        let machine = self.random.index(self.machines.len());
        let faults = self.scenario.faults;
        if self.random.chance(faults.kill) {
            self.kill_some_process();
        } else if self.random.chance(faults.partition) {
            self.cut();
        } else if self.random.chance(faults.machine) {
            self.lose_machine(machine);
        } else if self.random.chance(faults.full_disk) {
            self.tell(|| format!("n{machine} disk is full"));
            self.machines[machine].disk.set_full(true);
            let span = self.random.between(5_000, 900_000);
            self.queue.after(span, Happening::DiskHasRoom(machine));
        } else if self.random.chance(faults.stop) {
            self.stop_daemon(machine);
        } else if self.random.chance(faults.clock) {
            let by = self.random.between(0, 7_200_000_000) as i64 - 3_600_000_000;
            self.tell(|| format!("n{machine} clock jumps by {by} us"));
            self.machines[machine].clock_off += by;
        } else if self.random.chance(faults.wire) {
            let numbers = self.network.numbers();
            if let Some(number) = self.random.pick(&numbers) {
                self.break_wire(number, false);
            }
        } else if self.machines[machine].daemon.is_some() {
            self.tell(|| format!("n{machine} daemon is killed"));
            self.kill_daemon(machine);
        }
    }

    fn kill_some_process(&mut self) {
        let living = self.ranks.values().filter(|rank| rank.is_alive);
        let living: Vec<ProcessKey> = living.map(|rank| rank.key).collect();
        if let Some(key) = self.random.pick(&living) {
            self.tell(|| format!("{key:?} is killed"));
            let status = ExitStatus::Signal(11);
            self.queue
                .after(0, Happening::Rank(RankHappening::Ends { key, status }));
        }
    }

    /// Cuts the network in two; machines of one host stay together.
    fn cut(&mut self) {
        let mut sides: Vec<u8> = Vec::new();
        for machine in 0..self.machines.len() {
            let host = self.machines[machine].host;
            let mate = (0..machine).find(|mate| self.machines[*mate].host == host);
            let side = mate.map(|mate| sides[mate]);
            sides.push(side.unwrap_or_else(|| u8::from(self.random.chance(0.5))));
        }
        self.tell(|| format!("the network is cut: {sides:?}"));
        self.network.cut(sides);
        for number in self.network.cut_wires() {
            let span = self.random.between(200_000, 6_000_000);
            self.queue.after(span, Happening::Net(Net::GivesUp(number)));
        }
        let longest = if self.random.chance(0.5) { 1_500_000 } else { 12_000_000 };
        let span = self.random.between(50_000, longest);
        self.queue.after(span, Happening::Net(Net::Reunion));
        self.tally.cuts += 1;
        self.ledger.has_cut = true;
    }

    fn stop_daemon(&mut self, machine: usize) {
        let span = self.random.between(20_000, 4_000_000);
        let Some(daemon) = &mut self.machines[machine].daemon else {
            return;
        };
        if daemon.is_stopped() {
            return;
        }
        daemon.stop();
        let of = daemon.life();
        self.ledger.has_cut = true;
        self.tell(|| format!("n{machine} daemon stands still for {span} us"));
        self.queue.after(span, Happening::DaemonGoesOn(of));
    }

    /// Where in carrying out so many effects a daemon dies, if it does.
    pub(super) fn draw_death(&mut self, effects: usize) -> Option<usize> {
        let is_early = self.queue.now() < 1_000_000;
        let dies = effects > 0 && !is_early && self.breaks(self.scenario.faults.crash_in_step);
        dies.then(|| self.random.index(effects))
    }

    /// A daemon is gone at once; its keeper starts another one.
    pub(super) fn kill_daemon(&mut self, machine: usize) {
        let now = self.queue.now();
        let Some(daemon) = &self.machines[machine].daemon else {
            return;
        };
        let was_healthy = daemon.age(now) >= HEALTHY_AFTER;
        // It may be away for so long that it counts as dead.
        self.ledger.losses.push((machine, now));
        self.lose_daemon(machine);
        let boot = self.machines[machine].boot(machine);
        let Some(keeper) = &mut self.machines[machine].keeper else {
            return;
        };
        if keeper.is_ending() {
            return;
        }
        match keeper.on_daemon_end(was_healthy) {
            Some(pause) => {
                let start = self.random.between(3_000, 60_000);
                self.queue.after(pause + start, Happening::DaemonStarts(boot));
            }
            None => {
                self.ledger.see(Seen::MachineLost { machine });
                self.end_machine(machine, false);
            }
        }
    }

    /// Its wires end, and whoever talked to it notices.
    pub(super) fn lose_daemon(&mut self, machine: usize) {
        let Some(daemon) = self.machines[machine].daemon.take() else {
            return;
        };
        let of: Life = daemon.life();
        // Wills are lost with it.
        self.ledger.bereaved.clear();
        self.break_wires_of(of, false);
        for link in &daemon.controls {
            self.on_link_lost(*link);
        }
        for borrower in daemon.memory.borrowers.into_values() {
            let work = Box::new(super::memory::Borrowing {
                key: borrower.key,
                attempt: borrower.attempt,
                file: None,
            });
            let of = borrower.of;
            self.queue.after(
                100,
                Happening::Store(super::happening::Background::Borrowed { of, work }),
            );
        }
    }

    /// A machine is gone at once, with all that runs on it and all that it holds.
    pub(super) fn lose_machine(&mut self, machine: usize) {
        let up = self.machines.iter().filter(|machine| machine.is_up()).count();
        if !self.machines[machine].is_up() || up < 2 {
            return;
        }
        self.tell(|| format!("n{machine} is lost"));
        self.tally.machines_lost += 1;
        let now = self.queue.now();
        self.ledger.losses.push((machine, now));
        let silent = self.machines[machine].life();
        self.ledger.see(Seen::MachineLost { machine });
        if let Some(of) = silent {
            self.break_wires_of(of, true);
        }
        self.lose_daemon(machine);
        self.drop_machine(machine);
    }

    /// Nothing of a machine is left; it may come back as a new node.
    pub(super) fn drop_machine(&mut self, machine: usize) {
        self.lose_daemon(machine);
        let now = self.queue.now();
        let own = &mut self.machines[machine];
        let boot = own.boot(machine);
        own.keeper = None;
        own.since = now;
        self.tell(|| format!("n{machine} is down"));
        let here = |rank: &&mut Rank| rank.on == boot && rank.is_alive;
        let ended: Vec<ProcessKey> = self.ranks.values_mut().filter(here).map(|rank| rank.key).collect();
        for key in ended {
            self.on_process_ends(key, ExitStatus::Signal(9));
        }
        self.tally.machines_down += 1;
        self.ledger.see(Seen::MachineDown);
        if self.scenario.machines_return || self.is_healed {
            self.return_later(machine);
        }
    }

    fn return_later(&mut self, machine: usize) {
        let delay = self.random.between(RETURN_AFTER.0, RETURN_AFTER.1);
        let times = if self.random.chance(LONG_AWAY) { 3 } else { 1 };
        self.queue.after(delay * times, Happening::MachineStarts(machine));
    }

    pub(super) fn on_heals(&mut self) {
        self.tell(|| "from now on nothing breaks".to_owned());
        self.is_healed = true;
        self.network.mend();
        for machine in 0..self.machines.len() {
            self.machines[machine].disk.set_full(false);
            if !self.machines[machine].is_up() {
                self.return_later(machine);
            }
        }
        self.queue.after(500_000, Happening::Inspection);
    }

    /// Planted: what a successor reads is not all that was written.
    pub(super) fn plant_in_journal(&mut self, machine: usize) {
        let disk = &mut self.machines[machine].disk;
        match self.scenario.plant {
            Some(Plant::JournalForgetsReconfigurations) => disk.lose(|record| {
                if let Record::Job { entry, .. } = record
                    && let Entry::Step { change, .. } = &mut **entry
                {
                    *change = None;
                }
                true
            }),
            Some(Plant::JournalForgetsJobs) => {
                disk.lose(|record| !matches!(record, Record::Job { .. }));
            }
            Some(Plant::JournalForgetsNumbers) => {
                disk.lose(|record| !matches!(record, Record::HighestJob(_) | Record::Ended { .. }));
            }
            Some(Plant::JournalForgetsPrinted) => {
                disk.lose(|record| !matches!(record, Record::Printed { .. }));
            }
            _ => {}
        }
    }
}
