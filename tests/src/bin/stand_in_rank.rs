//! A rank without MPI, for tests of the daemons alone: it counts iterations on its page, stops at ceilings, meets,
//! parks its data, is restored and leaves as the library in a real rank does, but joins nothing, and its data moves
//! only in a relaunch. Says on its standard output what it lives through. Arguments: iterations, microseconds for each,
//! and
//! `hang` for a rank that never comes back from a meeting, `refuse` for one that does not take parked data up.
#![allow(unsafe_code, reason = "takes over inherited descriptors and maps the shared page")]

use pcm_core::moment::Moment;
use pcm_core::reconfiguration::limits::Limits;
use pcm_core::reconfiguration::rank::{RankEffect, RankSide};
use pcm_proto::app::{AppToDaemon, DaemonToApp, environment, packet_encode};
use pcm_proto::frame::decode;
use pcm_proto::ids::{Iteration, Rank, WorldId};
use pcm_proto::page::{Page, State};
use pcm_proto::parked::{Asked, RestoreAnswer, RestoreAsk};
use pcm_proto::reconfiguration::{Attempt, ReconfigurationOrder, ReconfigurationReport, Tally};
use pcm_proto::registered::Registered;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Release, SeqCst};
use std::time::{Duration, Instant};
use tests::stand_in_data::{StandInData, StandInRestore};

/// How long a waiting rank sleeps before it looks again.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// A daemon that is being started again loses what it was asked; then it is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// Restoring takes a moment.
const RESTORED_WITHIN: Duration = Duration::from_secs(30);

/// What a rank without data counts as moved; both sides say the same.
const NOTHING: Tally = Tally {
    bytes: pcm_proto::ids::Bytes(0),
    checksum: 0,
    ahead: pcm_proto::ids::Bytes(0),
};

struct StandIn {
    side: RankSide,
    channel: OwnedFd,
    page: Page<'static>,
    begun: Instant,
    iteration: u64,
    effects: VecDeque<RankEffect>,
    rank: Rank,
    size: u32,
    /// None once the ranks were others than those who have it: what moves in a live reconfiguration is not kept here.
    data: Option<StandInData>,
    attempt: Option<Attempt>,
    hangs: bool,
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
    // SAFETY: a new mapping at an address of the system's choice, kept until the process ends.
    let start = unsafe { mmap(std::ptr::null_mut(), length, flags, MapFlags::SHARED, &file, 0) };
    let start = NonNull::new(start.expect("the page mapped").cast::<u8>()).expect("an address");
    // SAFETY: it was mapped above; the daemon writes it as atomics only.
    unsafe { Page::at(start, length) }.expect("a page of this build")
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
            Some(_) => RankSide::member(planned, port.to_owned(), limits),
        };
        let is_restored = role.as_deref() == Some(environment::RESTORED);
        let size = variable(environment::SIZE).or(variable("PMI_SIZE")).unwrap_or(1) as u32;
        let rank = if role.is_some() { planned } else { Rank(rank) };
        let (channel, page, begun) = (inherited(environment::CHANNEL_FD), page(), Instant::now());
        page.set_state(State::Running);
        let mut stand_in = Self {
            side,
            channel,
            page,
            begun,
            iteration: 0,
            effects,
            rank,
            size,
            data: role.is_none().then(|| StandInData::new(rank.0, size, 0)),
            attempt: None,
            hangs: std::env::args().any(|argument| argument == "hang"),
        };
        if role.is_none() && rank == Rank(0) {
            stand_in.tell(&AppToDaemon::Registered(Registered {
                shared_extents: vec![1 << 40],
                ..Registered::default()
            }));
        }
        if is_restored {
            stand_in.restore(port.to_owned());
        }
        stand_in
    }

    /// Takes the data from what was parked, and goes on where it was parked.
    fn restore(&mut self, port: String) {
        if std::env::args().any(|argument| argument == "refuse") {
            self.tell(&AppToDaemon::RestoreFailed {
                reason: "the data is not to its taste".to_owned(),
                is_unanswered: false,
            });
            std::thread::sleep(RESTORED_WITHIN);
        }
        if std::env::args().any(|argument| argument == "restores-slowly") {
            std::thread::sleep(Duration::from_millis(500));
        }
        let (awaited, plan) = self.ask(&RestoreAsk::Plan, |answer, _| match answer {
            RestoreAnswer::Plan { awaited, old_size, .. } => Some((awaited, old_size)),
            _ => None,
        });
        let restore = StandInRestore::new(plan, self.rank.0, self.size);
        let mut images = BTreeMap::new();
        for ((from, runs), number) in restore.wanted().into_iter().zip(0..) {
            let request = Asked { rank: from, number };
            let image = self.ask(
                &RestoreAsk::Blocks { asked: request, runs },
                |answer, file| match answer {
                    RestoreAnswer::Image { asked, .. } if asked == request => file,
                    RestoreAnswer::Lost { reason, .. } => panic!("parked data is lost: {reason}"),
                    _ => None,
                },
            );
            images.insert(from, image);
        }
        let (data, iteration) = restore.finish(&images);
        assert!(
            data.is_right(iteration),
            "the data is not that of iteration {iteration}"
        );
        say(&format!("is restored as rank {} at {iteration}", self.rank));
        (self.data, self.iteration) = (Some(data), iteration);
        self.announce();
        let (side, told) = RankSide::restored(self.now(), self.rank, awaited, port, Limits::default());
        self.side = side;
        self.effects.push_back(told);
    }

    fn ask<T>(&mut self, ask: &RestoreAsk, take: impl Fn(RestoreAnswer, Option<File>) -> Option<T>) -> T {
        let end = Instant::now() + RESTORED_WITHIN;
        while Instant::now() < end {
            self.tell(&AppToDaemon::Restore(ask.clone()));
            let again = Instant::now() + ASK_AGAIN;
            while Instant::now() < again {
                match self.receive() {
                    Some((DaemonToApp::Restore(answer), file)) => {
                        if let Some(taken) = take(answer, file) {
                            return taken;
                        }
                    }
                    Some(_) => {}
                    None => std::thread::sleep(LOOK_EVERY),
                }
            }
        }
        panic!("no answer to {ask:?}");
    }

    fn park(&mut self) -> u64 {
        let (Some(data), Some(attempt)) = (&self.data, self.attempt) else {
            return 0;
        };
        let (file, bytes) = data.park(self.iteration);
        self.tell_with(&AppToDaemon::Parked { attempt, bytes }, &[file.as_fd()]);
        bytes
    }

    fn now(&self) -> Moment {
        Moment(self.begun.elapsed().as_micros() as u64)
    }

    fn tell(&self, message: &AppToDaemon) {
        self.tell_with(message, &[]);
    }

    fn tell_with(&self, message: &AppToDaemon, descriptors: &[BorrowedFd<'_>]) {
        let packet = packet_encode(message).expect("a short message");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        // A daemon that is being started again leaves packets in the socket; a dead one ends this process.
        if let Err(error) = sendmsg(
            &self.channel,
            &[IoSlice::new(&packet)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        ) {
            say(&format!("the channel is closed: {error}"));
        }
    }

    fn receive(&self) -> Option<(DaemonToApp, Option<File>)> {
        let mut packet = vec![0; 64 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(
            &self.channel,
            &mut [IoSliceMut::new(&mut packet)],
            &mut ancillary,
            flags,
        )
        .ok()?;
        let mut file = None;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut rights) = message {
                file = rights.next().map(File::from);
            }
        }
        Some((decode(&packet[..received.bytes]).ok()?, file))
    }

    fn hear(&mut self) {
        while let Some((message, _)) = self.receive() {
            let DaemonToApp::Reconfiguration(order) = message else {
                continue;
            };
            if let ReconfigurationOrder::Meet { ceiling, meeting, .. } = &order {
                self.iteration = ceiling.0;
                self.size = meeting.order.len() as u32;
            }
            if let ReconfigurationOrder::Park { attempt, .. } = &order {
                self.attempt = Some(*attempt);
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

    /// Lets the keeper find the data of a rank that hangs.
    fn publish_table(&mut self) {
        let iteration = self.iteration;
        let (table, stretches) = self.data.as_mut().map_or((0, 0), |data| data.table(iteration));
        self.page.head.progress.stretches.store(stretches, Release);
        self.page.head.progress.table.store(table, Release);
    }

    fn announce(&self) {
        self.page.head.progress.iteration.fetch_max(self.iteration + 1, SeqCst);
    }

    fn follow(&mut self) -> bool {
        let mut proceeds = false;
        while let Some(effect) = self.effects.pop_front() {
            match effect {
                RankEffect::Tell(report) => {
                    if matches!(report, ReconfigurationReport::AtCeiling { .. }) {
                        self.publish_table();
                    }
                    self.tell(&AppToDaemon::Reconfiguration(report));
                }
                RankEffect::Proceed => proceeds = true,
                RankEffect::Meet(_) if self.hangs => {
                    say("hangs");
                    loop {
                        std::thread::sleep(Duration::from_secs(1));
                    }
                }
                RankEffect::Meet(_) => {
                    let effects = self.side.on_met(self.now(), Ok(()));
                    self.effects.extend(effects);
                    let effects = self.side.on_moved(self.now(), Ok((NOTHING, NOTHING)));
                    self.effects.extend(effects);
                }
                RankEffect::Park => {
                    let bytes = pcm_proto::ids::Bytes(self.park());
                    let parked = Tally { bytes, ..NOTHING };
                    let effects = self.side.on_moved(self.now(), Ok((parked, NOTHING)));
                    self.effects.extend(effects);
                }
                RankEffect::TakeUp { rank } => {
                    self.announce();
                    // Whose numbers these are changes; they are made anew instead of moved.
                    self.data = Some(StandInData::new(rank.0, self.size, self.iteration));
                    self.rank = rank;
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
        if let Some(data) = &mut rank.data {
            data.step(rank.iteration);
        }
        rank.iteration += 1;
    }
    let is_right = rank.data.as_ref().is_none_or(|data| data.is_right(rank.iteration));
    assert!(is_right, "the numbers are not those of iteration {}", rank.iteration);
    rank.page.head.progress.iteration.store(u64::MAX, SeqCst);
    rank.tell(&AppToDaemon::Finalizing);
    say(&format!("ends after {iterations}"));
}
