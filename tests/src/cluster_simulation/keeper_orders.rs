//! What keepers do: they start processes, signal them, end jobs, hold memory, start daemons again, and end all.

use super::happening::{Boot, Happening, Life, RankHappening};
use super::image::File;
use super::keeper::{HeldProcess, KeeperWord};
use super::rank::{Belonging, Program, Rank, Role};
use super::scenario::Plant;
use super::seen::Seen;
use super::simulation::Simulation;
use pcm_core::node::event::{Event, Held, KeeperFact};
use pcm_core::node::ranks::effect::Attached;
use pcm_proto::app::environment as names;
use pcm_proto::ids::{JobId, WorldId};
use pcm_proto::keeper::{DaemonToKeeper, ExitStatus, ProcessKey, ProcessSpec};
use pcm_proto::parked::ParkKey;

fn variable<'a>(spec: &'a ProcessSpec, name: &str) -> Option<&'a str> {
    let entry = spec.env.iter().find(|(known, _)| known == name.as_bytes());
    entry.and_then(|(_, value)| std::str::from_utf8(value).ok())
}

fn number<T: std::str::FromStr + Default>(spec: &ProcessSpec, name: &str) -> T {
    variable(spec, name)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

fn belonging(spec: &ProcessSpec) -> Belonging {
    let role = match variable(spec, names::ROLE) {
        Some(names::NEWCOMER) => Role::Newcomer,
        Some(names::RESTORED) => Role::Restored,
        _ => Role::First,
    };
    let files = variable(spec, names::RESTORE).into_iter().flat_map(str::lines);
    Belonging {
        generation: number(spec, names::LIFE),
        role,
        world: WorldId(number(spec, names::WORLD)),
        world_rank: number(spec, "PMI_RANK"),
        world_size: number(spec, "PMI_SIZE"),
        planned: (
            number(spec, names::EPOCH),
            number(spec, names::RANK),
            number(spec, names::SIZE),
        ),
        files: files.map(|line| line.as_bytes().to_vec()).collect(),
    }
}

impl Simulation {
    /// Says something to the daemon of a machine, if there is one.
    pub(super) fn keeper_says(&mut self, machine: usize, delay: u64, word: KeeperWord) {
        let Some(of) = self.machines[machine].life() else {
            return;
        };
        let now = self.queue.now();
        let Some(keeper) = &mut self.machines[machine].keeper else {
            return;
        };
        let at = keeper.tells(now + delay);
        let word = Box::new(word);
        self.queue.at(at, Happening::KeeperSays { of, word });
    }

    pub(super) fn on_keeper_says(&mut self, of: Life, word: KeeperWord) {
        let machine = of.machine;
        if self.machines[machine].life() != Some(of) {
            return;
        }
        let fact = match word {
            KeeperWord::Started(key) => match self.hold(machine, key) {
                Some(held) => KeeperFact::Started(held),
                None => return,
            },
            KeeperWord::StartRefused { key, reason } => KeeperFact::StartRefused {
                key,
                code: pcm_proto::refusal::START_FAILED.to_owned(),
                reason,
            },
            KeeperWord::Exited { key, status } => KeeperFact::Exited { key, status },
            KeeperWord::Parked { key, file } => {
                let daemon = self.machines[machine].daemon.as_mut();
                let memory = daemon.map(|daemon| daemon.memory.receive(file));
                KeeperFact::Parked { key, memory }
            }
            KeeperWord::Holds(key) => KeeperFact::Kept { key, outcome: Ok(()) },
            KeeperWord::NotParked { key, reason } => KeeperFact::NotParked { key, reason },
            KeeperWord::JobCleared { job, killed } => KeeperFact::JobCleared {
                job,
                killed,
                segments: 0,
                left: 0,
            },
        };
        self.event(machine, Event::Keeper(fact));
    }

    /// A daemon takes a process over, as it is now.
    pub(super) fn hold(&mut self, machine: usize, key: ProcessKey) -> Option<Held> {
        let held = *self.machines[machine].keeper.as_ref()?.table.get(&key)?;
        let rank = self.ranks.get(&key)?;
        let attached = Attached {
            key,
            pid: held.pid,
            is_starting: !rank.page.is_initialized,
            is_asking: rank.pmi.asks.is_some(),
            has_stdin: held.has_stdin,
        };
        let waiting = rank.channel.said.len();
        let daemon = self.machines[machine].daemon.as_mut()?;
        daemon.attached.entry(key).or_default();
        if attached.is_asking {
            self.queue.after(20, Happening::Rank(RankHappening::Asks(key)));
        }
        for _ in 0..=waiting {
            self.queue.after(30, Happening::Rank(RankHappening::Channel(key)));
        }
        Some(Held {
            key,
            pid: held.pid,
            ended: held.ended,
            attached: Ok(attached),
        })
    }

    pub(super) fn keeper_order(&mut self, machine: usize, order: DaemonToKeeper) {
        if self.machines[machine].keeper.is_none() {
            return;
        }
        match order {
            DaemonToKeeper::Start(spec) => self.start_process(machine, &spec),
            DaemonToKeeper::Signal { key, signal } => self.signal(machine, key, signal),
            DaemonToKeeper::EndJob { job } => self.end_job(machine, job),
            DaemonToKeeper::Forget { key } => {
                if let Some(keeper) = &mut self.machines[machine].keeper
                    && !keeper.is_alive(key)
                {
                    keeper.table.remove(&key);
                }
            }
            DaemonToKeeper::Salvage { key, table, .. } => self.salvage(machine, key, table),
            DaemonToKeeper::DropParked { job, attempt } => {
                if let Some(keeper) = &mut self.machines[machine].keeper {
                    keeper.images.retain(|key, _| key.job != job || key.attempt > attempt);
                }
            }
            DaemonToKeeper::DropKept { keys } => {
                let mut jobs = Vec::new();
                if let Some(keeper) = &mut self.machines[machine].keeper {
                    for key in keys {
                        jobs.extend(keeper.buffers.remove(&key).map(|_| key.job));
                    }
                }
                jobs.dedup();
                jobs.into_iter()
                    .for_each(|job| self.ledger.see(Seen::BuffersChanged { job }));
            }
            DaemonToKeeper::Quit { .. } => self.end_machine(machine, true),
            DaemonToKeeper::CloseStdin { .. }
            | DaemonToKeeper::Park { .. }
            | DaemonToKeeper::Keep { .. }
            | DaemonToKeeper::Standbys { .. }
            | DaemonToKeeper::EndStandbys { .. }
            | DaemonToKeeper::Levels(_) => {}
        }
    }

    pub(super) fn park_image(&mut self, machine: usize, key: ParkKey, file: File) {
        let Some(keeper) = &mut self.machines[machine].keeper else {
            return;
        };
        keeper.images.insert(key, file.clone());
        self.keeper_says(machine, 50, KeeperWord::Parked { key, file });
    }

    pub(super) fn start_process(&mut self, machine: usize, spec: &ProcessSpec) {
        let (key, on) = (spec.key, self.machines[machine].boot(machine));
        let starts_twice = self.has_plant(Plant::KeeperStartsTwice);
        let Some(keeper) = &mut self.machines[machine].keeper else {
            return;
        };
        if keeper.table.contains_key(&key) {
            return self.keeper_says(machine, 50, KeeperWord::Started(key));
        }
        if let Some(reason) = keeper.refuses(key) {
            return self.keeper_says(machine, 50, KeeperWord::StartRefused { key, reason });
        }
        if self.breaks(self.scenario.faults.start_fails) {
            let reason = "no such program".to_owned();
            return self.keeper_says(machine, 50, KeeperWord::StartRefused { key, reason });
        }
        self.ledger.see(Seen::Starts { key, on });
        if starts_twice {
            self.ledger.see(Seen::Starts { key, on });
        }
        let Some(program) = self.program_of(spec) else { return };
        self.pids += 1;
        let pid = self.pids;
        let held = HeldProcess {
            pid,
            ended: None,
            has_stdin: spec.stdin,
        };
        if let Some(keeper) = &mut self.machines[machine].keeper {
            keeper.table.insert(key, held);
        }
        let belonging = belonging(spec);
        self.tell(|| format!("n{machine} starts {key:?} ({:?})", belonging.role));
        self.ranks.insert(key, Rank::new(key, on, pid, program, belonging));
        let delay = self.random.between(5_000, 80_000);
        self.queue.after(delay, Happening::Rank(RankHappening::Begins(key)));
        let delay = self.random.between(50, 400);
        self.keeper_says(machine, delay, KeeperWord::Started(key));
    }

    fn program_of(&self, spec: &ProcessSpec) -> Option<Program> {
        let number: usize = std::str::from_utf8(spec.args.first()?).ok()?.parse().ok()?;
        self.scenario.programs.get(number).cloned()
    }

    fn signal(&mut self, machine: usize, key: ProcessKey, signal: i32) {
        let is_alive = self.machines[machine]
            .keeper
            .as_ref()
            .is_some_and(|keeper| keeper.is_alive(key));
        if !is_alive || !matches!(signal, 9 | 15) {
            return;
        }
        if signal == 9 && self.plants_now(Plant::ProcessOutlivesItsKill) {
            return;
        }
        self.note_signalled(key);
        // One that hangs does not hear SIGTERM, nor do some others.
        let is_deaf = self.ranks.get(&key).is_some_and(|rank| rank.is_stuck) || self.random.chance(0.1);
        if signal == 15 && is_deaf {
            return;
        }
        let status = ExitStatus::Signal(signal);
        let delay = self.random.between(20, 400);
        self.queue
            .after(delay, Happening::Rank(RankHappening::Ends { key, status }));
    }

    fn note_signalled(&mut self, key: ProcessKey) {
        if let Some(rank) = self.ranks.get_mut(&key) {
            rank.is_signalled = true;
        }
        self.ledger.left_behind.remove(&key);
    }

    fn end_job(&mut self, machine: usize, job: JobId) {
        let of = self.machines[machine].boot(machine);
        let Some(keeper) = &mut self.machines[machine].keeper else {
            return;
        };
        if !keeper.begin_clearing(job) {
            return;
        }
        for key in keeper.living(job) {
            self.note_signalled(key);
            // What one order leaves alive the end of the job ends: some processes outlive that, too.
            if self.plants_now(Plant::ProcessOutlivesItsKill) {
                continue;
            }
            let status = ExitStatus::Signal(9);
            let delay = self.random.between(20, 400);
            self.queue
                .after(delay, Happening::Rank(RankHappening::Ends { key, status }));
        }
        self.queue.after(500, Happening::Clears { of, job });
    }

    pub(super) fn on_clears(&mut self, of: Boot, job: JobId) {
        if self.machines[of.machine].boot != of.number {
            return;
        }
        let Some(keeper) = &mut self.machines[of.machine].keeper else {
            return;
        };
        match keeper.cleared(job) {
            Some(killed) => {
                self.keeper_says(of.machine, 50, KeeperWord::JobCleared { job, killed });
                self.end_machine_if_cleared(of.machine);
            }
            None => self.queue.after(1_000, Happening::Clears { of, job }),
        }
    }

    fn salvage(&mut self, machine: usize, key: ParkKey, table: u64) {
        let of = self.machines[machine].boot(machine);
        let Some(keeper) = &mut self.machines[machine].keeper else {
            return;
        };
        if let Some(file) = keeper.images.get(&key).cloned() {
            return self.keeper_says(machine, 50, KeeperWord::Parked { key, file });
        }
        let process = ProcessKey {
            job: key.job,
            process: key.process,
        };
        if !keeper.is_alive(process) || table == 0 {
            let reason = "the process has ended, and its data with it".to_owned();
            return self.keeper_says(machine, 50, KeeperWord::NotParked { key, reason });
        }
        if keeper.begin_salvage(key) {
            let delay = self.random.between(500, 5_000);
            self.queue.after(delay, Happening::Salvaged { of, key });
        }
    }

    pub(super) fn on_salvaged(&mut self, of: Boot, key: ParkKey) {
        let machine = of.machine;
        let process = ProcessKey {
            job: key.job,
            process: key.process,
        };
        let file = self.salvaged(process);
        if self.machines[machine].boot != of.number {
            return;
        }
        let Some(keeper) = &mut self.machines[machine].keeper else {
            return;
        };
        if !keeper.end_salvage(key) {
            return;
        }
        match file {
            Some(file) => self.park_image(machine, key, file),
            None => {
                let reason = "its data is not where it was".to_owned();
                self.keeper_says(machine, 50, KeeperWord::NotParked { key, reason });
            }
        }
    }

    pub(super) fn keeper_hears_of_end(&mut self, on: Boot, key: ProcessKey, status: ExitStatus) {
        if self.machines[on.machine].boot != on.number {
            return;
        }
        if let Some(keeper) = &mut self.machines[on.machine].keeper {
            keeper.on_exited(key, status);
        }
        let delay = self.random.between(20, 300);
        self.keeper_says(on.machine, delay, KeeperWord::Exited { key, status });
    }

    /// The keeper ends all jobs here and itself.
    pub(super) fn end_machine(&mut self, machine: usize, is_on_purpose: bool) {
        let Some(keeper) = &mut self.machines[machine].keeper else {
            return;
        };
        if keeper.is_ending() {
            return;
        }
        keeper.end();
        let jobs = keeper.jobs();
        self.machines[machine].has_left |= is_on_purpose;
        self.tell(|| format!("n{machine} keeper ends everything"));
        for job in jobs {
            self.end_job(machine, job);
        }
        self.end_machine_if_cleared(machine);
    }

    fn end_machine_if_cleared(&mut self, machine: usize) {
        let keeper = self.machines[machine].keeper.as_ref();
        if keeper.is_some_and(|keeper| keeper.is_ending() && !keeper.is_clearing()) {
            self.drop_machine(machine);
        }
    }
}
