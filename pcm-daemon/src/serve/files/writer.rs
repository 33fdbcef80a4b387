//! The thread that touches the node's files, and the way to it.

use super::super::event::Event;
use super::event_file::EventFile;
use super::logs::{last_lines, path, rotate_all};
use super::method_file::MethodFile;
use super::tuning_file::TuningFile;
use pcm_core::node::event::{Event as NodeEvent, LogsAnswer};
use pcm_core::node::requester::Requester;
use pcm_core::reconfiguration::method_costs::MethodCost;
use pcm_proto::control::{DaemonToControl, LogOf};
use pcm_proto::event::EventKind;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Orders that wait while the disk is away: events of some minutes of a busy node.
const WAITING_MAX: usize = 4096;

/// Between two looks at what may have changed without an order.
const LOOK_EVERY: Duration = Duration::from_secs(2);

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
    pub(in super::super) node_dir: PathBuf,
    /// The file that all nodes share.
    pub(in super::super) costs: PathBuf,
    /// Where `pcmctl doctor --tune` writes.
    pub(in super::super) tuning: PathBuf,
    /// Whether an earlier cluster's events go.
    pub(in super::super) is_new: bool,
}

impl FilesSpec {
    pub(in super::super) fn events(&self) -> PathBuf {
        self.node_dir.join("events.jsonl")
    }
}

/// The way to the thread.
#[derive(Clone, Debug)]
pub(in super::super) struct Files {
    work: SyncSender<Work>,
}

impl Files {
    /// The thread ends with the last way to it.
    pub(in super::super) fn start(spec: FilesSpec, events: mpsc::Sender<Event>) -> io::Result<Self> {
        let (work, orders) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new().name("files".to_owned());
        thread.spawn(move || Writer::new(spec, events).run(&orders))?;
        Ok(Self { work })
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
            methods: MethodFile::at(spec.costs, spec.node_dir.clone()),
            tuning: TuningFile::at(spec.tuning),
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
