//! A rank without MPI, for tests of the daemons alone: it counts iterations on its page, stops at ceilings, meets and
//! leaves as the library in a real rank does, but has no data and joins nothing. Says on its standard output what it
//! lives through.
#![allow(unsafe_code, reason = "takes over inherited descriptors and maps the shared page")]

use pcm_core::moment::Moment;
use pcm_core::reconfiguration::limits::Limits;
use pcm_core::reconfiguration::rank::{RankEffect, RankSide};
use pcm_proto::app::{AppToDaemon, DaemonToApp, environment, packet_encode};
use pcm_proto::frame::decode;
use pcm_proto::ids::{Iteration, Rank, WorldId};
use pcm_proto::page::{Page, State};
use pcm_proto::reconfiguration::{ReconfigurationOrder, Tally};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::collections::VecDeque;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// How long a waiting rank sleeps before it looks again.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// What a rank without data counts as moved; both sides say the same.
const NOTHING: Tally = Tally {
    bytes: pcm_proto::ids::Bytes(0),
    checksum: 0,
};

struct StandIn {
    side: RankSide,
    channel: OwnedFd,
    page: Page<'static>,
    begun: Instant,
    iteration: u64,
    effects: VecDeque<RankEffect>,
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn inherited(name: &str) -> OwnedFd {
    let number = variable(name).unwrap_or_else(|| panic!("{name} is not set: run it with pcmctl"));
    let number = i32::try_from(number).expect("a descriptor's number");
    // SAFETY: the keeper opened this descriptor for this process, and nothing else here uses the number.
    unsafe { OwnedFd::from_raw_fd(number) }
}

fn page() -> Page<'static> {
    let file = inherited(environment::PAGE_FD);
    let length = usize::try_from(rustix::fs::fstat(&file).expect("the page's size").st_size).expect("a size");
    let flags = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping that nobody else has, kept until the process ends.
    let memory = unsafe {
        let start = mmap(std::ptr::null_mut(), length, flags, MapFlags::SHARED, &file, 0).expect("the page mapped");
        std::slice::from_raw_parts_mut(start.cast::<u8>(), length)
    };
    Page::open(memory).expect("a page of this build")
}

impl StandIn {
    fn start() -> Self {
        let limits = Limits::default();
        let (role, rank) = (
            std::env::var(environment::ROLE).ok(),
            variable("PMI_RANK").unwrap_or(0) as u32,
        );
        let planned = Rank(variable(environment::RANK).unwrap_or(0) as u32);
        let port = if rank == 0 { "stand-in" } else { "" };
        let mut effects = VecDeque::new();
        let side = match role.as_deref() {
            None => RankSide::member(Rank(rank), port.to_owned(), limits),
            Some(environment::NEWCOMER) => {
                let world = WorldId(variable(environment::WORLD).unwrap_or(0) as u32);
                let (side, told) = RankSide::newcomer(Moment(0), world, rank, port.to_owned(), limits);
                effects.push_back(told);
                side
            }
            Some(_) => {
                let (side, told) = RankSide::restored(planned, port.to_owned(), limits);
                effects.push_back(told);
                side
            }
        };
        let (channel, page, begun) = (inherited(environment::CHANNEL_FD), page(), Instant::now());
        page.set_state(State::Running);
        Self {
            side,
            channel,
            page,
            begun,
            iteration: 0,
            effects,
        }
    }

    fn now(&self) -> Moment {
        Moment(self.begun.elapsed().as_micros() as u64)
    }

    fn tell(&self, message: &AppToDaemon) {
        let packet = packet_encode(message).expect("a short message");
        // A daemon that is being started again leaves packets in the socket; a dead one ends this process.
        if let Err(error) = send(&self.channel, &packet, SendFlags::NOSIGNAL) {
            say(&format!("the channel is closed: {error}"));
        }
    }

    fn hear(&mut self) {
        let mut packet = vec![0; 64 * 1024];
        while let Ok((_, length)) = recv(&self.channel, &mut packet[..], RecvFlags::DONTWAIT) {
            if length == 0 {
                return;
            }
            let Ok(DaemonToApp::Reconfiguration(order)) = decode(&packet[..length]) else {
                continue;
            };
            if let ReconfigurationOrder::Meet { ceiling, .. } = &order {
                self.iteration = ceiling.0;
            }
            let effects = self.side.on_order(self.now(), order);
            self.effects.extend(effects);
        }
    }

    /// Announces the iteration and waits until it may begin.
    fn top(&mut self) {
        self.announce();
        let mut proceeds = false;
        while !proceeds {
            self.hear();
            let ceiling = Iteration(self.page.head.orders.ceiling.load(SeqCst));
            let effects = self.side.on_top(self.now(), Iteration(self.iteration), ceiling);
            self.effects.extend(effects);
            proceeds = self.follow();
            if !proceeds {
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }

    fn announce(&self) {
        self.page.head.progress.iteration.fetch_max(self.iteration + 1, SeqCst);
    }

    fn follow(&mut self) -> bool {
        let mut proceeds = false;
        while let Some(effect) = self.effects.pop_front() {
            match effect {
                RankEffect::Tell(report) => self.tell(&AppToDaemon::Reconfiguration(report)),
                RankEffect::Proceed => proceeds = true,
                RankEffect::Meet(_) => {
                    let effects = self.side.on_met(self.now(), Ok(()));
                    self.effects.extend(effects);
                    let effects = self.side.on_moved(self.now(), Ok((NOTHING, NOTHING)));
                    self.effects.extend(effects);
                }
                RankEffect::Park => {
                    let effects = self.side.on_moved(self.now(), Ok((NOTHING, NOTHING)));
                    self.effects.extend(effects);
                }
                RankEffect::TakeUp { rank } => {
                    self.announce();
                    say(&format!("takes up rank {rank} at {}", self.iteration));
                }
                RankEffect::Return => say(&format!("returns at {}", self.iteration)),
                RankEffect::Leave => {
                    say(&format!("leaves at {}", self.iteration));
                    std::process::exit(0);
                }
                RankEffect::End(reason) => {
                    say(&format!("ends: {reason:?}"));
                    std::process::exit(3);
                }
            }
        }
        proceeds
    }
}

fn say(text: &str) {
    println!("process {}: {text}", variable(environment::PROCESS).unwrap_or(0));
}

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse::<u64>().ok());
    let (iterations, sleep_us) = (arguments.next().unwrap_or(100), arguments.next().unwrap_or(1000));
    let mut rank = StandIn::start();
    rank.follow();
    while rank.iteration < iterations {
        rank.top();
        std::thread::sleep(Duration::from_micros(sleep_us));
        rank.iteration += 1;
    }
    rank.page.head.progress.iteration.store(u64::MAX, SeqCst);
    rank.tell(&AppToDaemon::Finalizing);
    say(&format!("ends after {iterations}"));
}
