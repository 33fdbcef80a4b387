//! A process on its way into MPI and out of it: what it asks its process manager, one request at a time.

use super::happening::{Happening, RankHappening};
use super::rank::{Activity, Role};
use super::simulation::Simulation;
use super::violation::Violation;
use pcm_core::pmi::wire::Request;
use pcm_core::reconfiguration::rank::RankSide;
use pcm_core::reconfiguration::seat::Seat;
use pcm_proto::app::AppToDaemon;
use pcm_proto::handshake::PROTOCOL_VERSION;
use pcm_proto::keeper::{ExitStatus, ProcessKey};

/// The steps into MPI; the last is that out of it.
const INIT: u32 = 0;
const KVS_NAME: u32 = 1;
const PUT: u32 = 2;
const BARRIER: u32 = 3;
const GET: u32 = 4;
const FINALIZE: u32 = 5;

/// What a rank of a world publishes.
fn card(key: ProcessKey, world_rank: u32) -> (String, String) {
    (format!("P{world_rank}-card"), format!("card-{}-{world_rank}", key.job))
}

impl Simulation {
    pub(super) fn begin_process(&mut self, key: ProcessKey) {
        self.ask_manager(key, INIT);
    }

    /// It is done with MPI.
    pub(super) fn begin_finalize(&mut self, key: ProcessKey) {
        self.ask_manager(key, FINALIZE);
    }

    fn ask_manager(&mut self, key: ProcessKey, step: u32) {
        let Some(rank) = self.ranks.get_mut(&key).filter(|rank| rank.is_alive) else {
            return;
        };
        let (own, size) = (rank.belonging.world_rank, rank.belonging.world_size);
        let request = match step {
            INIT => Request::Init {
                version: 1,
                subversion: 1,
            },
            KVS_NAME => Request::KvsName,
            PUT => {
                let (key, value) = card(key, own);
                Request::Put { key, value }
            }
            BARRIER => Request::BarrierIn,
            GET => Request::Get {
                key: card(key, (own + 1) % size).0,
            },
            _ => Request::Finalize,
        };
        rank.pmi.step = step;
        rank.pmi.count += 1;
        rank.pmi.asks = Some(request);
        let delay = self.random.between(10, 60);
        self.queue.after(delay, Happening::Rank(RankHappening::Asks(key)));
    }

    /// The answer is in the process's socket.
    pub(super) fn on_pmi_answered(&mut self, key: ProcessKey, request: &Request, line: &str) {
        let Some(rank) = self.ranks.get(&key).filter(|rank| rank.is_alive) else {
            return;
        };
        let (step, own, size) = (rank.pmi.step, rank.belonging.world_rank, rank.belonging.world_size);
        let is_answer = match request {
            Request::Init { .. } => line.starts_with("cmd=response_to_init") && line.contains("rc=0"),
            Request::KvsName => line.starts_with("cmd=my_kvsname"),
            Request::Put { .. } => line.starts_with("cmd=put_result rc=0"),
            Request::BarrierIn => line.starts_with("cmd=barrier_out"),
            Request::Get { .. } => line.trim_end().ends_with(&card(key, (own + 1) % size).1),
            Request::Finalize => line.starts_with("cmd=finalize_ack"),
            _ => true,
        };
        if !is_answer {
            let text = format!("{key:?} asked {request:?} and got {line:?}");
            return self.violate(Violation::new("every_request_has_its_own_answer", text));
        }
        match step {
            GET => self.initialized(key),
            FINALIZE => {
                let delay = self.random.between(2_000, 20_000);
                let status = ExitStatus::Code(0);
                self.queue
                    .after(delay, Happening::Rank(RankHappening::Ends { key, status }));
            }
            step => self.ask_manager(key, step + 1),
        }
    }

    /// `MPI_Init` has returned.
    fn initialized(&mut self, key: ProcessKey) {
        let now = self.moment();
        let limits = self.scenario.limits();
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        rank.page.is_initialized = true;
        let (own, size) = (rank.belonging.world_rank, rank.belonging.world_size);
        let initialized = AppToDaemon::Initialized {
            version: PROTOCOL_VERSION,
            pid: rank.pid,
            world_rank: own,
            world_size: size,
        };
        let (role, world) = (rank.belonging.role, rank.belonging.world);
        self.say(key, initialized, None);
        self.tell(|| format!("{key:?} has initialised MPI as {role:?}"));
        match role {
            Role::First => self.begin_first(key),
            Role::Restored => self.begin_restore(key),
            Role::Newcomer => {
                let port = format!("port of {}", key.process);
                let (side, told) = RankSide::newcomer(now, world, own, port, limits);
                if let Some(rank) = self.ranks.get_mut(&key) {
                    rank.side = Some(side);
                }
                self.wait(key);
                self.follow(key, vec![told]);
                self.drain_inbox(key);
            }
        }
    }

    /// A rank of the first layout of a start of the job.
    fn begin_first(&mut self, key: ProcessKey) {
        let epoch = self.ledger.epoch_of(key).unwrap_or(0);
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        rank.epoch = epoch;
        rank.rank = pcm_proto::ids::Rank(rank.belonging.world_rank);
        let (size, elements) = (rank.belonging.world_size, rank.program.elements);
        let block = super::groups::block(&[], size, elements, rank.rank);
        let found = rank
            .belonging
            .files
            .iter()
            .find_map(|directory| self.files.read(directory));
        let (iteration, all) = found.cloned().unwrap_or_default();
        let from_files = !all.is_empty();
        rank.iteration = iteration;
        rank.data = match from_files {
            true => all.into_iter().filter(|(index, _)| block.contains(index)).collect(),
            false => block.map(|index| (index, 0)).collect(),
        };
        rank.side = Some(RankSide::member(rank.rank, String::new(), self.scenario.limits()));
        self.take_place(key, (size, Vec::new()));
        self.announce(key);
    }

    /// It is a rank of its layout from now on.
    pub(super) fn take_place(&mut self, key: ProcessKey, (size, weights): (u32, Vec<u32>)) {
        let Some(rank) = self.ranks.get_mut(&key) else { return };
        rank.is_member = true;
        rank.activity = Activity::Waiting;
        let (group, number) = (rank.group(), rank.rank);
        let seen = super::seen::Seen::TakesUp {
            key,
            group,
            size,
            iteration: rank.iteration,
            elements: rank.data.iter().map(|(index, value)| (*index, *value)).collect(),
        };
        self.groups.join(group, (size, &weights), number, key);
        self.ledger.see(seen);
    }

    /// Its seat at a meeting.
    pub(super) fn seat(&self, key: ProcessKey) -> Option<Seat> {
        let rank = self.ranks.get(&key)?;
        Some(match rank.is_member {
            true => Seat::Member(rank.rank),
            false => Seat::Newcomer {
                world: rank.belonging.world,
                rank: rank.belonging.world_rank,
            },
        })
    }
}
