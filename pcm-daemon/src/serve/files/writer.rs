//! The thread that touches the node's files, and the way to it.

use super::super::event::Event;
use super::event_file::{self, EventFile};
use super::logs::{last_lines, path, rotate_all};
use super::method_file::MethodFile;
use super::tuning_file::TuningFile;
use pcm_core::node::event::{Event as NodeEvent, LogsAnswer};
use pcm_core::node::requester::Requester;
use pcm_core::reconfiguration::method_costs::MethodCost;
use pcm_proto::control::{DaemonToControl, LogOf};
use pcm_proto::event::EventKind;
use pcm_proto::fabric::TUNING_FILE;
use pcm_proto::method::COSTS_FILE;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Orders that wait while the disk is away: events of some minutes of a busy node.
const WAITING_MAX: usize = 4096;

/// Between two looks at what may have changed without an order.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A daemon that was started again goes on without the events before, where the disk does not give them for so long.
const EARLIER_WITHIN: Duration = Duration::from_millis(500);

/// A process starts without a log where the disk does not give one for so long.
const LOG_WITHIN: Duration = Duration::from_secs(2);

/// What the thread does.
#[derive(Debug)]
pub(in super::super) enum Work {
    Event(pcm_proto::event::Event),
    ReadCosts,
    Learn(MethodCost),
    Tail {
        from: Requester,
        of: LogOf,
        lines: u32,
    },
    /// Open a log for whoever is started with it.
    OpenLog {
        of: LogOf,
        opened: oneshot::Sender<io::Result<File>>,
    },
    /// Say that all that was ordered before is done.
    Done(oneshot::Sender<()>),
}

/// Where the files are.
#[derive(Debug)]
pub(in super::super) struct FilesSpec {
    pub(in super::super) cluster_dir: PathBuf,
    pub(in super::super) node_dir: PathBuf,
    /// Whether the node begins. Then its folder is there, and an earlier cluster's events go. Else its daemon was
    /// started again, and the thread finds the place as it is.
    pub(in super::super) is_new: bool,
    /// Where the node is reached.
    pub(in super::super) address: String,
}

impl FilesSpec {
    fn events(&self) -> PathBuf {
        self.node_dir.join("events.jsonl")
    }

    /// What a daemon that was started again does with the files before all else: it goes on whatever it finds. Its
    /// events before.
    fn look(&self) -> Vec<pcm_proto::event::Event> {
        if self.is_new {
            return Vec::new();
        }
        if let Err(foreign) = own_files::check_directory(&self.cluster_dir) {
            tracing::warn!(%foreign, "the cluster's directory is not as it should be");
        }
        let made = own_files::make_directory(&self.node_dir);
        // Others know the address, or hear it.
        if let Err(error) = made.and_then(|()| publish(&self.node_dir, &self.address)) {
            tracing::warn!(%error, dir = %self.node_dir.display(), "the address is not published");
        }
        event_file::read(&self.events()).collect()
    }
}

/// Says in its folder where the node is reached, in one step: a reader sees the old or the new address.
pub(in super::super) fn publish(node_dir: &Path, address: &str) -> io::Result<()> {
    own_files::replace(&node_dir.join("address"), format!("{address}\n").as_bytes())
}

/// The way to the thread.
#[derive(Clone, Debug)]
pub(in super::super) struct Files {
    work: SyncSender<Work>,
}

impl Files {
    /// The thread ends with the last way to it. With the way come the node's events before this daemon; those that the
    /// disk does not give in time are among `events` later.
    pub(in super::super) async fn start(
        spec: FilesSpec,
        events: mpsc::Sender<Event>,
    ) -> io::Result<(Self, Vec<pcm_proto::event::Event>)> {
        let (work, orders) = sync_channel(WAITING_MAX);
        let (found, earlier) = oneshot::channel();
        let answers = events.clone();
        let thread = std::thread::Builder::new().name("files".to_owned());
        thread.spawn(move || {
            _ = found.send(spec.look());
            Writer::new(spec, answers).run(&orders);
        })?;
        let mut earlier = Box::pin(earlier);
        let in_time = match timeout(EARLIER_WITHIN, &mut earlier).await {
            Ok(found) => found.unwrap_or_default(),
            Err(_) => {
                tokio::spawn(async move {
                    let late = Event::Earlier(earlier.await.unwrap_or_default());
                    // A daemon that has ended asks no more.
                    _ = events.send(late).await;
                });
                Vec::new()
            }
        };
        Ok((Self { work }, in_time))
    }

    /// Whether the thread will do it.
    pub(in super::super) fn order(&self, work: Work) -> bool {
        match self.work.try_send(work) {
            Ok(()) => true,
            Err(TrySendError::Full(work) | TrySendError::Disconnected(work)) => {
                tracing::warn!(?work, "the disk does not take what is written; this is dropped");
                false
            }
        }
    }

    /// A log to write to; `None` where the disk does not give it in time.
    pub(in super::super) async fn log(&self, of: LogOf) -> Option<File> {
        let (opened, file) = oneshot::channel();
        if !self.order(Work::OpenLog { of, opened }) {
            return None;
        }
        timeout(LOG_WITHIN, file).await.ok()?.ok()?.ok()
    }

    /// Waits until everything is done; the caller sets a deadline.
    pub(in super::super) async fn done(&self) {
        let (done, is_done) = oneshot::channel();
        if self.order(Work::Done(done)) {
            _ = is_done.await;
        }
    }
}

struct Writer {
    events: EventFile,
    methods: MethodFile,
    tuning: TuningFile,
    node_dir: PathBuf,
    answers: mpsc::Sender<Event>,
    /// Events that were not written, so that one line tells of all.
    lost: u64,
}

impl Writer {
    fn new(spec: FilesSpec, answers: mpsc::Sender<Event>) -> Self {
        Self {
            events: EventFile::at(spec.events(), spec.is_new),
            methods: MethodFile::at(spec.cluster_dir.join(COSTS_FILE), spec.node_dir.clone()),
            tuning: TuningFile::at(spec.cluster_dir.join(TUNING_FILE)),
            node_dir: spec.node_dir,
            answers,
            lost: 0,
        }
    }

    fn run(mut self, orders: &Receiver<Work>) {
        let mut look_at = Instant::now();
        loop {
            let now = Instant::now();
            if now >= look_at {
                self.look_around();
                look_at = now + LOOK_EVERY;
            }
            match orders.recv_timeout(look_at.saturating_duration_since(now)) {
                Ok(work) => self.carry_out(work),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// What comes without an order: logs that have grown too long, and a fabric that was measured again.
    fn look_around(&mut self) {
        rotate_all(&self.node_dir);
        if let Some(tuning) = self.tuning.read_changed() {
            self.tell(Event::Tuning(tuning));
        }
    }

    fn carry_out(&mut self, work: Work) {
        match work {
            Work::Event(event) => self.write(&event),
            Work::ReadCosts => {
                let costs = self.methods.read_changed();
                self.answer(NodeEvent::CostsRead(costs));
            }
            Work::Learn(cost) => self.methods.learn(&cost),
            Work::Tail { from, of, lines } => {
                let text = last_lines(&path(&self.node_dir, of), lines);
                self.answer(NodeEvent::Logs(Box::new(LogsAnswer {
                    from,
                    answer: DaemonToControl::Logs(text),
                    levels: None,
                })));
            }
            Work::OpenLog { of, opened } => _ = opened.send(own_files::append(&path(&self.node_dir, of))),
            Work::Done(done) => _ = done.send(()),
        }
    }

    fn answer(&self, fact: NodeEvent) {
        self.tell(Event::Files(fact));
    }

    fn tell(&self, event: Event) {
        // A daemon that has ended asks no more.
        _ = self.answers.blocking_send(event);
    }

    fn write(&mut self, event: &pcm_proto::event::Event) {
        match self.events.add(event) {
            Ok(()) if self.lost > 0 => {
                let lost = std::mem::take(&mut self.lost);
                tracing::warn!(lost, "events are written again; those between are in memory only");
                self.answer(NodeEvent::Happened(EventKind::FilesBack { lost }));
            }
            Ok(()) => {}
            Err(error) => {
                if self.lost == 0 {
                    tracing::warn!(%error, "events are not written and are in memory only: is the disk full?");
                    let error = error.to_string();
                    self.answer(NodeEvent::Happened(EventKind::FilesFail { error }));
                }
                self.lost += 1;
            }
        }
    }
}
