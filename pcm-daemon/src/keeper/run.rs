//! The keeper's loop: signals, the daemon's orders, timers.

use super::boot::{Booted, own_limit};
use super::checkpoint_store::{Beside, Buffers};
use super::clearing::{Clearing, Scene};
use super::daemon::{Daemon, Heard, Restarts, With};
use super::foreground::{HeldBack, LEFT_AFTER_NOTICE, Stance, last_word};
use super::held::{Held, memory_file};
use super::images::{Image, Images};
use super::node_environment;
use super::segments::Footprint;
use super::signals::Signals;
use super::standbys::Standbys;
use super::start_refused::StartRefused;
use super::strays::Mark;
use cluster_sweep::left::remove_unheld;
use node_log::Levels;
use pcm_proto::checkpoint::BufferKey;
use pcm_proto::ids::JobId;
use pcm_proto::keeper::{DAEMON_EXIT_FINAL, DaemonToKeeper, ExitStatus, KeeperToDaemon, ProcessKey, ProcessSpec};
use pcm_proto::shortened::Shortened;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, wait};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime};

/// Orders taken in one turn, so that a flood of them cannot keep the keeper from hearing that a child ended.
const ORDERS_MAX: usize = 64;
/// How long a daemon that said `Quit` has for its own end.
const FAREWELL_MAX: Duration = Duration::from_secs(3);

/// Signals that come within this time are one notice: engines send some twice, or to a group and to its members.
const NOTICE_IS_ONE: Duration = Duration::from_secs(2);

/// A daemon that was given notice has ended after this time, its longest grace included.
const NOTICE_MAX: Duration = Duration::from_secs(150);

/// Why what comes with a file is refused when the file did not arrive.
const NO_FILE: &str = "the keeper could not open the file that came with the order: it is out of open files";

#[derive(Debug)]
enum Mode {
    /// A daemon runs or will be started.
    Keeping,
    /// Everything is being ended.
    Ending {
        code: i32,
        /// When a daemon that still lives is killed; set when no job is left.
        farewell: Option<Instant>,
    },
}

struct Keeper {
    booted: Booted,
    signals: Signals,
    mark: Mark,
    mode: Mode,
    daemon: Option<Daemon>,
    /// What its daemons must not forget, in memory files: no disk is asked.
    journal: [OwnedFd; 2],
    restarts: Restarts,
    start_at: Option<Instant>,
    /// After a notice: when everything ends, whatever the daemon still does.
    notice_until: Option<Instant>,
    held_back: HeldBack,
    table: BTreeMap<ProcessKey, Held>,
    standbys: Standbys,
    images: Images,
    buffers: Buffers,
    footprints: BTreeMap<JobId, Footprint>,
    clearings: BTreeMap<JobId, Clearing>,
    /// What a daemon said of the log's levels.
    levels: Option<Levels>,
}

/// Keeps a node until its daemon ends on purpose or cannot be kept alive; the exit code.
pub fn run(booted: Booted) -> i32 {
    let signals = Signals::new();
    // Its thread has the signals blocked, too.
    node_log::begin();
    let signals = match signals {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!(%error, "signals cannot be heard");
            return 1;
        }
    };
    let file = || memory_file("pcm-journal");
    let journal = match file().and_then(|first| Ok([first, file()?])) {
        Ok(journal) => journal,
        Err(error) => {
            tracing::error!(error = %error.text(), "there is no memory for the daemon's journal");
            return 1;
        }
    };
    tracing::info!(node = %booted.spec.node.name, pid = std::process::id(), "the keeper keeps the node");
    let began = SystemTime::now();
    let mut keeper = Keeper {
        mark: Mark::new(&booted.spec.cluster_id, &booted.spec.node.name),
        booted,
        signals,
        mode: Mode::Keeping,
        daemon: None,
        journal,
        restarts: Restarts::default(),
        start_at: Some(Instant::now()),
        notice_until: None,
        held_back: HeldBack::default(),
        table: BTreeMap::new(),
        standbys: Standbys::default(),
        images: Images::default(),
        buffers: Buffers::within(own_limit()),
        footprints: BTreeMap::new(),
        clearings: BTreeMap::new(),
        levels: None,
    };
    loop {
        if let Some(code) = keeper.turn() {
            // Another node of this host, all of whose processes were killed at once, left what none of its own removes.
            remove_unheld(began);
            return last_word(&keeper.booted, code, keeper.notice_until.is_some());
        }
    }
}

impl Keeper {
    fn turn(&mut self) -> Option<i32> {
        if self.start_at.is_some_and(|at| at <= Instant::now()) {
            self.daemon_start();
        }
        if self.notice_until.is_some_and(|at| at <= Instant::now()) {
            self.end_all(0, "the daemon did not leave in time after a notice");
        }
        for (key, status) in self.held_back.take_due() {
            self.tell(&KeeperToDaemon::Exited { key, status }, With::Nothing);
        }
        self.clearings_step();
        self.standbys.end_old();
        if let Some(word) = self.images.salvages_step() {
            self.tell_of_image(&word);
        }
        if let Some(code) = self.ending_step() {
            return Some(code);
        }
        self.flush();
        let (has_signal, has_order) = self.wait_for_something();
        if has_signal {
            let heard = self.signals.take();
            if heard.child {
                self.reap();
            }
            if heard.end {
                self.end_all(0, "a signal asked for it");
            }
            if heard.notice {
                self.on_notice();
            }
        }
        if has_order {
            self.orders_take();
        }
        None
    }

    /// The daemon brings the node's work elsewhere and then ends, and the keeper with it. Who cannot wait says it
    /// again, to a keeper in the foreground after a while.
    fn on_notice(&mut self) {
        let is_heard = self
            .notice_until
            .is_some_and(|until| until > Instant::now() + (NOTICE_MAX - NOTICE_IS_ONE));
        if is_heard && self.booted.stance != Stance::Detached {
            return;
        }
        self.held_back.on_notice();
        match &self.daemon {
            Some(daemon) if self.notice_until.is_none() => {
                tracing::info!("a signal says that the node will be taken away");
                self.notice_until = Some(Instant::now() + NOTICE_MAX);
                let _ = kill_process(daemon.pid, Signal::TERM);
            }
            _ => self.end_all(0, "a signal asked for it"),
        }
    }

    fn wait_for_something(&self) -> (bool, bool) {
        let timers = self
            .start_at
            .into_iter()
            .chain(self.held_back.next())
            .chain(self.standbys.next())
            .chain(self.clearings.values().map(|clearing| clearing.next));
        let (farewell, notice) = match self.mode {
            Mode::Ending { farewell, .. } => (farewell, None),
            Mode::Keeping => (None, self.notice_until),
        };
        let at_once = self.images.is_salvaging().then(Instant::now);
        let timeout = timers.chain(farewell).chain(notice).chain(at_once).min().map(|at| {
            let left = at.saturating_duration_since(Instant::now()) + Duration::from_micros(100);
            Timespec {
                tv_sec: left.as_secs().cast_signed(),
                tv_nsec: i64::from(left.subsec_nanos()),
            }
        });
        let mut wanted = vec![PollFd::new(&self.signals, PollFlags::IN)];
        // After the farewell there is nothing to hear but the daemon's end.
        if let Some(daemon) = self.daemon.as_ref().filter(|_| farewell.is_none()) {
            let room = if daemon.has_queue() {
                PollFlags::OUT
            } else {
                PollFlags::empty()
            };
            wanted.push(PollFd::new(daemon, PollFlags::IN | room));
        }
        // An error of `poll` (a signal at most) is an early return; the loop looks at everything again.
        let _ = poll(&mut wanted, timeout.as_ref());
        let is_ready =
            |fd: Option<&PollFd<'_>>| fd.is_some_and(|fd| !fd.revents().difference(PollFlags::OUT).is_empty());
        (is_ready(wanted.first()), is_ready(wanted.get(1)))
    }

    fn daemon_start(&mut self) {
        self.start_at = None;
        let report = self.booted.report.take();
        match Daemon::start(report.as_ref(), &self.journal, self.booted.of_user.umask) {
            Ok(daemon) => self.daemon = Some(daemon),
            Err(error) => {
                tracing::error!(step = error.step.text(), error = %error.text(), "the daemon cannot be started");
                return self.daemon_later(false);
            }
        }
        let held = u32::try_from(self.table.len()).unwrap_or(u32::MAX);
        let images = self.images.list();
        let parked = u32::try_from(images.len()).unwrap_or(u32::MAX);
        let buffers = self.buffers.list();
        let kept = u32::try_from(buffers.len()).unwrap_or(u32::MAX);
        let spec = Box::new(self.booted.spec.clone());
        self.tell(
            &KeeperToDaemon::Welcome {
                spec,
                restarts: self.restarts.count,
                held,
                parked,
                kept,
                levels: self.levels.as_ref().map(|levels| levels.text().to_owned()),
            },
            With::Nothing,
        );
        let known: Vec<_> = self.table.values().map(Held::process).collect();
        for process in known {
            let key = process.key;
            self.tell(&KeeperToDaemon::Held(process), With::Process(key));
        }
        for (key, bytes) in images {
            self.tell(&KeeperToDaemon::Parked { key, bytes }, With::Image(key));
        }
        for (key, bytes) in buffers {
            self.tell(&KeeperToDaemon::Kept { key, bytes }, With::Buffer(key));
        }
    }

    fn daemon_later(&mut self, was_healthy: bool) {
        match self.restarts.on_end(was_healthy) {
            Some(pause) => self.start_at = Some(Instant::now() + pause),
            None => self.end_all(1, "the daemon cannot be kept alive; its log above says why"),
        }
    }

    fn tell_of_image(&mut self, word: &KeeperToDaemon) {
        let with = match word {
            KeeperToDaemon::Parked { key, .. } => With::Image(*key),
            _ => With::Nothing,
        };
        self.tell(word, with);
    }

    fn tell(&mut self, message: &KeeperToDaemon, with: With) {
        tracing::debug!(message = %Shortened(message), "tells the daemon");
        let told = self.daemon.as_mut().map(|daemon| daemon.tell(message, with));
        if let Some(Err(error)) = told {
            self.daemon_break(&format!("it cannot be told {message:?}: {error}"));
        }
    }

    fn flush(&mut self) {
        let flushed = self
            .daemon
            .as_mut()
            .map(|daemon| daemon.flush(&self.table, &self.images, &self.buffers));
        if let Some(Err(error)) = flushed {
            self.daemon_break(&format!("telling it something failed: {error}"));
        }
    }

    /// A daemon that cannot be talked to is as good as dead; its end is heard as that of any child.
    fn daemon_break(&mut self, reason: &str) {
        if let Some(daemon) = &self.daemon {
            tracing::error!(pid = daemon.number(), reason, "the daemon is killed");
            daemon.kill();
        }
    }

    fn orders_take(&mut self) {
        for _ in 0..ORDERS_MAX {
            match self.daemon.as_ref().map(Daemon::hear) {
                Some(Heard::Order(order, file)) => self.order_carry_out(order, file),
                Some(Heard::Broken(reason)) => {
                    // A daemon that ends closes its socket first; the signal for its end follows at once.
                    self.reap();
                    return self.daemon_break(&reason);
                }
                Some(Heard::Nothing) | None => return,
            }
        }
    }

    fn order_carry_out(&mut self, order: DaemonToKeeper, file: Option<OwnedFd>) {
        tracing::debug!(order = %Shortened(&order), "the daemon orders");
        match order {
            DaemonToKeeper::Start(spec) => self.process_start(&spec, file),
            DaemonToKeeper::Standbys { count, spec } => self.standbys_hold(count, &spec),
            DaemonToKeeper::EndStandbys { job } => self.standbys.end(job),
            DaemonToKeeper::Signal { key, signal } => self.process_signal(key, signal),
            DaemonToKeeper::CloseStdin { key } => {
                if let Some(held) = self.table.get_mut(&key) {
                    held.stdin_close();
                }
            }
            DaemonToKeeper::EndJob { job } => self.job_end(job),
            DaemonToKeeper::Forget { key } => {
                if self.table.get(&key).is_some_and(|held| !held.is_alive()) {
                    self.table.remove(&key);
                }
            }
            DaemonToKeeper::Park { key, bytes } => {
                let word = match file {
                    Some(file) => self.images.hold(key, Image { file, bytes }),
                    None => KeeperToDaemon::NotParked {
                        key,
                        reason: NO_FILE.to_owned(),
                    },
                };
                self.tell_of_image(&word);
            }
            DaemonToKeeper::Salvage { key, table, stretches } => {
                let process = ProcessKey {
                    job: key.job,
                    process: key.process,
                };
                let living = self
                    .table
                    .get(&process)
                    .filter(|held| held.is_alive())
                    .map(|held| held.pid);
                let word = self.images.salvage(key, living, table, stretches);
                word.iter().for_each(|word| self.tell_of_image(word));
            }
            DaemonToKeeper::DropParked { job, attempt } => self.images.drop_up_to(job, attempt),
            DaemonToKeeper::Keep { key, bytes } => {
                let word = self.buffer_hold(key, file.map(|file| Image { file, bytes }));
                self.tell(&word, With::Nothing);
            }
            DaemonToKeeper::DropKept { keys } => self.buffers.drop_these(&keys),
            DaemonToKeeper::Levels(text) => self.levels_change(&text),
            DaemonToKeeper::Quit { is_taken_away } => {
                let code = if is_taken_away { LEFT_AFTER_NOTICE } else { 0 };
                self.end_all(code, "the daemon ends on purpose");
            }
        }
    }

    fn buffer_hold(&mut self, key: BufferKey, image: Option<Image>) -> KeeperToDaemon {
        let beside = Beside {
            ranks: self.table.len(),
            images: self.images.count(),
        };
        let held = match image {
            Some(image) => self.buffers.hold(key, image, beside),
            None => Err(NO_FILE.to_owned()),
        };
        match held {
            Ok(()) => KeeperToDaemon::Holds { key },
            Err(reason) => {
                tracing::warn!(job = %key.job, process = %key.process, reason, "a buffer of a checkpoint is not held");
                KeeperToDaemon::NotKept { key, reason }
            }
        }
    }

    fn levels_change(&mut self, text: &str) {
        match node_log::write_as_told(text) {
            Ok(levels) => self.levels = Some(levels),
            Err(error) => tracing::warn!(%error, "the levels stay as they are"),
        }
    }

    fn process_start(&mut self, spec: &ProcessSpec, page: Option<OwnedFd>) {
        let key = spec.key;
        if let Some(held) = self.table.get(&key) {
            let process = held.process();
            return self.tell(&KeeperToDaemon::Started(process), With::Process(key));
        }
        let started = match page {
            _ if self.clearings.contains_key(&key.job) || matches!(self.mode, Mode::Ending { .. }) => {
                Err(StartRefused::plain(format!("job {} is being ended", key.job)))
            }
            Some(page) => {
                let now = SystemTime::now();
                let footprint = self.footprints.entry(key.job).or_insert_with(|| Footprint::new(now));
                footprint.expect(&spec.segments);
                let spec = node_environment::of_node(spec, self.booted.stance);
                let taken = self.standbys.take(&spec, page);
                taken.or_else(|page| Held::start(&spec, page, self.booted.of_user))
            }
            None => Err(StartRefused::plain(NO_FILE.to_owned())),
        };
        match started {
            Ok(held) => {
                let process = held.process();
                self.table.insert(key, held);
                self.tell(&KeeperToDaemon::Started(process), With::Process(key));
            }
            Err(StartRefused { code, reason }) => {
                let code = code.to_owned();
                self.tell(&KeeperToDaemon::StartRefused { key, code, reason }, With::Nothing);
            }
        }
    }

    fn standbys_hold(&mut self, count: u32, spec: &ProcessSpec) {
        if matches!(self.mode, Mode::Ending { .. }) || self.notice_until.is_some() {
            return;
        }
        let (spec, of_user) = (node_environment::of_node(spec, self.booted.stance), self.booted.of_user);
        let start = |spec: &ProcessSpec| Held::start_standby(spec, of_user);
        let (job, standbys) = (spec.key.job, self.standbys.hold(count, spec.into_owned(), start));
        self.tell(&KeeperToDaemon::StandbysHeld { job, standbys }, With::Nothing);
    }

    fn process_signal(&mut self, key: ProcessKey, number: i32) {
        let Some(held) = self.table.get_mut(&key).filter(|held| held.is_alive()) else {
            return;
        };
        let Some(signal) = Signal::from_named_raw(number) else {
            return tracing::warn!(number, process = %key.process, job = %key.job, "there is no such signal");
        };
        held.is_signalled = true;
        // A process may have left its own group.
        if kill_process_group(held.pid, signal).is_err() {
            let _ = kill_process(held.pid, signal);
        }
    }

    fn job_end(&mut self, job: JobId) {
        self.images.drop_job(job);
        if self.clearings.contains_key(&job) {
            return;
        }
        let footprint = self
            .footprints
            .entry(job)
            .or_insert_with(|| Footprint::new(SystemTime::now()));
        let scene = Scene {
            mark: &self.mark,
            table: &self.table,
            standbys: &self.standbys,
            daemon: self.daemon.as_ref().map(Daemon::number),
        };
        self.clearings.insert(job, Clearing::begin(job, scene, footprint));
    }

    fn clearings_step(&mut self) {
        let now = Instant::now();
        let scene = Scene {
            mark: &self.mark,
            table: &self.table,
            standbys: &self.standbys,
            daemon: self.daemon.as_ref().map(Daemon::number),
        };
        let mut cleared = Vec::new();
        for (job, clearing) in self.clearings.iter_mut().filter(|(_, clearing)| clearing.next <= now) {
            if let Some(footprint) = self.footprints.get(job)
                && let Some(word) = clearing.step(*job, scene, footprint)
            {
                cleared.push((*job, word));
            }
        }
        for (job, word) in cleared {
            self.clearings.remove(&job);
            self.footprints.remove(&job);
            self.tell(&word, With::Nothing);
        }
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if self.daemon.as_ref().is_some_and(|daemon| daemon.pid == pid) {
                self.on_daemon_end(status);
                continue;
            }
            if self.standbys.on_end(pid.as_raw_nonzero().get(), exit_status(status)) {
                continue;
            }
            // Anybody else is what a rank had started, or a daemon: nobody waits for its end.
            let Some(held) = self.table.values_mut().find(|held| held.pid == pid && held.is_alive()) else {
                continue;
            };
            let status = exit_status(status);
            held.ended = Some(status);
            let (key, is_signalled) = (held.key, held.is_signalled);
            if let (ExitStatus::Signal(_), Some(footprint)) = (status, self.footprints.get_mut(&key.job)) {
                footprint.has_killed = true;
            }
            if let Some(clearing) = self.clearings.get_mut(&key.job) {
                clearing.next = Instant::now();
            }
            let is_expected = is_signalled || self.clearings.contains_key(&key.job);
            let may_be_held = self.booted.stance != Stance::Detached && !is_expected;
            if !(may_be_held && self.held_back.keep(key, status)) {
                self.tell(&KeeperToDaemon::Exited { key, status }, With::Nothing);
            }
        }
    }

    fn on_daemon_end(&mut self, status: WaitStatus) {
        // What it had ordered before it died was ordered; the socket holds no more than its buffer.
        while let Some(Heard::Order(order, file)) = self.daemon.as_ref().map(Daemon::hear) {
            self.order_carry_out(order, file);
        }
        let Some(daemon) = self.daemon.take() else { return };
        daemon.kill();
        if matches!(self.mode, Mode::Ending { .. }) {
            return;
        }
        let status = exit_status(status);
        tracing::info!(pid = daemon.number(), ?status, "the daemon ended");
        if self.notice_until.is_some() {
            return self.end_all(0, "the daemon ended after a notice");
        }
        if status == ExitStatus::Code(DAEMON_EXIT_FINAL) {
            return self.end_all(DAEMON_EXIT_FINAL, "the daemon asks not to be started again");
        }
        self.daemon_later(daemon.was_healthy());
    }

    fn end_all(&mut self, code: i32, reason: &str) {
        if matches!(self.mode, Mode::Ending { .. }) {
            return;
        }
        tracing::info!(reason, "the keeper ends everything");
        self.mode = Mode::Ending { code, farewell: None };
        self.start_at = None;
        self.standbys.end_all();
        let jobs: Vec<JobId> = self.footprints.keys().copied().collect();
        for job in jobs {
            self.job_end(job);
        }
    }

    /// Once no job is left the socket is closed, which tells the daemon so; the keeper is the last to go.
    fn ending_step(&mut self) -> Option<i32> {
        let Mode::Ending { code, farewell } = &mut self.mode else {
            return None;
        };
        if !self.clearings.is_empty() {
            return None;
        }
        let Some(daemon) = &self.daemon else {
            return Some(*code);
        };
        match farewell {
            None => {
                *farewell = Some(Instant::now() + FAREWELL_MAX);
                daemon.farewell();
            }
            Some(at) if *at <= Instant::now() => {
                tracing::warn!("the daemon does not end by itself and is killed");
                daemon.kill();
                *at = Instant::now() + FAREWELL_MAX;
            }
            Some(_) => {}
        }
        None
    }
}

fn exit_status(status: WaitStatus) -> ExitStatus {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, Some(signal)) => ExitStatus::Signal(signal),
        (None, None) => ExitStatus::Code(0),
    }
}
