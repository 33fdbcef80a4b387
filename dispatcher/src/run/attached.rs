//! An attached job: output comes, input and signals go, the exit code is the end. A lost link is made again, because
//! the keeper starts a killed daemon again and the ranks go on meanwhile.

use super::input::Input;
use super::signals::{SIGHUP, SIGINT, Signals};
use super::watching::{self, Wanted};
use super::writer::{Piece, Writer, Written};
use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{Link, is_lost};
use crate::progress::ProgressLine;
use crate::{lookup, output};
use pcm_proto::control::{ControlToDaemon, DaemonToControl, Stream};
use pcm_proto::ids::{JobId, NodeName, ProcessId};
use pcm_proto::job::JobEnd;
use pcm_proto::refusal;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// What accepting or starting a job may take: the way down a tree of daemons, each with a start of its own.
pub(crate) const START_MAX: Duration = Duration::from_secs(30);

/// How long a lost daemon may take to come back: the keeper's first back-offs and the reading of its journal.
const BACK_MAX: Duration = Duration::from_secs(10);

/// The same where its node is lost but others answer: they have to notice, and one of them takes its jobs over.
const ELSEWHERE_MAX: Duration = Duration::from_secs(30);

/// A coordinator that is cut off says so this often.
const TOLD_EVERY: Duration = Duration::from_secs(2);

/// Between two attempts to reach it.
const BACK_PAUSE: Duration = Duration::from_millis(50);

/// What ending a job may take after `Kill`, its grace time included.
const END_MAX: Duration = Duration::from_secs(15);

/// What a shell reports for a program whose reader went away.
const CODE_BROKEN_PIPE: i32 = 128 + 13;

/// A job and everything that ties this process to it.
pub(crate) struct Attached<'a> {
    cluster: &'a ClusterDir,
    link: Link,
    job: JobId,
    coordinator: NodeName,
    input: Input,
    writer: Writer,
    written: mpsc::Receiver<Written>,
    line: Arc<ProgressLine>,
    signals: Signals,
    /// Where each stream stands, so that none of it comes twice after a lost link.
    received: BTreeMap<(ProcessId, bool), u64>,
    /// Signals that ask for an end, so far.
    asked_to_end: u32,
    must_end_by: Option<Instant>,
    reader_gone: bool,
    /// Who leads the job, when another daemon is being asked.
    leader: Option<JoinHandle<Option<NodeName>>>,
    /// When the coordinator last said that it is cut off.
    cut_off: Option<Instant>,
    /// Whether it was said that nobody else can be asked.
    has_told_alone: bool,
}

enum Happening {
    Answer(Result<DaemonToControl, Failure>),
    Input(Vec<u8>),
    Signal(i32),
    Written(Written),
    Room(Option<mpsc::OwnedPermit<Piece>>),
    /// Another daemon was asked who leads the job.
    Leader(Option<NodeName>),
    Late,
}

impl<'a> Attached<'a> {
    /// Takes over a link on which the job was accepted.
    pub(crate) fn new(
        cluster: &'a ClusterDir,
        link: Link,
        job: JobId,
        label: bool,
        wanted: Wanted,
    ) -> Result<Self, Failure> {
        let signals = Signals::watch()?;
        let line = Arc::new(ProgressLine::new());
        let (writer, written) = Writer::start(label, Arc::clone(&line));
        if line.is_shown() && !wanted.is_nothing() {
            tokio::spawn(watching::tell(cluster.clone(), job, Arc::clone(&line), wanted));
        }
        Ok(Self {
            cluster,
            coordinator: link.node().clone(),
            link,
            job,
            input: Input::start(),
            writer,
            written,
            line,
            signals,
            received: BTreeMap::new(),
            asked_to_end: 0,
            must_end_by: None,
            reader_gone: false,
            leader: None,
            cut_off: None,
            has_told_alone: false,
        })
    }

    /// Stays until the job has ended; returns its exit code.
    pub(crate) async fn until_end(mut self) -> Result<i32, Failure> {
        let mut room = None;
        let end = loop {
            match self.next_happening(room.is_none()).await {
                Happening::Answer(Ok(DaemonToControl::JobEnded(end))) => break end,
                Happening::Answer(Ok(DaemonToControl::LedBy { node })) | Happening::Leader(Some(node)) => {
                    self.coordinator = node;
                    let moved = Failure::link("the job has another coordinator".to_owned());
                    if let Some(end) = self.attach_again(moved).await? {
                        break end;
                    }
                }
                Happening::Leader(None) => self.tell_alone(),
                Happening::Answer(Ok(DaemonToControl::CutOff)) => {
                    self.cut_off = Some(Instant::now());
                    self.ask_who_leads();
                }
                Happening::Answer(Ok(answer)) => self.on_answer(answer, &mut room).await?,
                Happening::Answer(Err(failure)) if is_lost(&failure) => {
                    if let Some(end) = self.attach_again(failure).await? {
                        break end;
                    }
                }
                Happening::Answer(Err(failure)) => return Err(failure),
                Happening::Input(chunk) => self.tell(ControlToDaemon::Stdin(chunk)).await,
                Happening::Signal(number) => self.on_signal(number).await,
                Happening::Written(written) => self.on_written(written).await?,
                Happening::Room(permit) => room = permit,
                Happening::Late => {
                    let (job, limit) = (self.job, END_MAX.as_secs());
                    return Err(Failure::deadline(format!(
                        "job {job} did not end within {limit} s after it was told to: try 'pcmctl kill {job}', else \
                         'pcmctl down'"
                    )));
                }
            }
        };
        drop(room);
        self.line.close();
        self.conclude(end).await
    }

    /// Waits for one thing; answers are only taken when there is room to write what they may bring.
    async fn next_happening(&mut self, needs_room: bool) -> Happening {
        let needs_room = needs_room && !self.reader_gone;
        let late = self.must_end_by;
        tokio::select! {
            number = self.signals.next() => Happening::Signal(number),
            Some(written) = self.written.recv() => Happening::Written(written),
            permit = self.writer.room(), if needs_room => Happening::Room(permit),
            answer = self.link.next(), if !needs_room => Happening::Answer(answer),
            leader = asked(&mut self.leader), if self.leader.is_some() => {
                self.leader = None;
                Happening::Leader(leader)
            }
            chunk = self.input.next(), if self.input.is_ready() => Happening::Input(chunk),
            () = tokio::time::sleep_until(late.unwrap_or_else(Instant::now)), if late.is_some() => Happening::Late,
        }
    }

    async fn on_answer(
        &mut self,
        answer: DaemonToControl,
        room: &mut Option<mpsc::OwnedPermit<Piece>>,
    ) -> Result<(), Failure> {
        match answer {
            DaemonToControl::JobStarted { .. } | DaemonToControl::Done => {}
            DaemonToControl::Notice { job, text } => {
                self.line.beside(|| output::tell(format_args!("job {job}: {text}")))
            }
            DaemonToControl::StdinTaken { bytes } => {
                for chunk in self.input.on_taken(bytes) {
                    self.tell(ControlToDaemon::Stdin(chunk)).await;
                }
            }
            DaemonToControl::Output {
                rank,
                process,
                stream,
                offset,
                bytes,
            } => {
                let end = offset + bytes.len() as u64;
                let piece = self.new_part(Piece {
                    rank,
                    process,
                    stream,
                    end,
                    bytes,
                });
                match piece {
                    Some(piece) if !self.reader_gone => {
                        if let Some(permit) = room.take() {
                            permit.send(piece);
                        }
                    }
                    _ => {
                        self.tell(ControlToDaemon::OutputTaken {
                            process,
                            stream,
                            bytes: end,
                        })
                        .await;
                    }
                }
            }
            other => return Err(Failure::unexpected("Run", &other)),
        }
        Ok(())
    }

    /// Cuts off what had arrived before a lost link; `None` when nothing is new.
    fn new_part(&mut self, mut piece: Piece) -> Option<Piece> {
        let key = (piece.process, matches!(piece.stream, Stream::Stderr));
        let known = self.received.entry(key).or_default();
        let new = usize::try_from(piece.end.saturating_sub(*known)).unwrap_or(usize::MAX);
        let old = piece.bytes.len().saturating_sub(new);
        piece.bytes.drain(..old);
        *known = piece.end.max(*known);
        (!piece.bytes.is_empty()).then_some(piece)
    }

    async fn on_written(&mut self, written: Written) -> Result<(), Failure> {
        match written {
            Written::Taken(report) => self.tell(report).await,
            Written::Closed => {
                self.reader_gone = true;
                self.end_job().await;
            }
            Written::Failed(error) => {
                self.tell(ControlToDaemon::Kill { job: self.job }).await;
                return Err(Failure::system(format!(
                    "the output of job {} cannot be written ({error}), so the job was ended: make room, or redirect it \
                     elsewhere",
                    self.job
                )));
            }
        }
        Ok(())
    }

    async fn on_signal(&mut self, signal: i32) {
        let job = self.job;
        if Signals::asks_to_end(signal) {
            self.asked_to_end += 1;
            if self.asked_to_end > 1 || signal == SIGHUP {
                return self.end_job().await;
            }
            if signal == SIGINT {
                eprintln!("pcmctl: SIGINT was sent to all ranks of job {job}; again to end it");
            }
        }
        self.tell(ControlToDaemon::Signal { job, signal }).await;
    }

    async fn end_job(&mut self) {
        self.must_end_by.get_or_insert(Instant::now() + END_MAX);
        self.tell(ControlToDaemon::Kill { job: self.job }).await;
    }

    /// Sends; a link that is lost is noticed where answers are awaited.
    async fn tell(&mut self, request: ControlToDaemon) {
        let _ = self.link.send(&request).await;
    }

    /// The coordinator may be cut off: asks another daemon who leads the job.
    fn ask_who_leads(&mut self) {
        if self.leader.is_none() {
            let (cluster, job, known) = (self.cluster.clone(), self.job, self.coordinator.clone());
            self.leader = Some(tokio::spawn(async move {
                let mut link = Link::open_elsewhere(&cluster, &known).await.ok()?;
                let jobs = lookup::jobs(&mut link).await.ok()?;
                let status = jobs.into_iter().find(|status| status.job == job)?;
                (status.coordinator != known).then_some(status.coordinator)
            }));
        }
    }

    /// Says once that the job may go on where this terminal cannot follow it yet.
    fn tell_alone(&mut self) {
        if !std::mem::replace(&mut self.has_told_alone, true) {
            let (job, node) = (self.job, &self.coordinator);
            self.line.beside(|| {
                eprintln!(
                    "pcmctl: job {job}: node {node} does not reach most of the cluster: the job may go on there, and \
                     this command finds it again when the network is back; until then 'pcmctl jobs' on \
                     another node shows it"
                );
            });
        }
    }

    /// Makes the link again; returns the job's end where it ended meanwhile.
    async fn attach_again(&mut self, lost: Failure) -> Result<Option<JobEnd>, Failure> {
        // Asked about the coordinator that is left now: the answer would take this terminal off the link that is made
        // here.
        if let Some(asking) = self.leader.take() {
            asking.abort();
        }
        let begun = Instant::now();
        let mut others_answer = false;
        self.input.hold();
        while begun.elapsed() < if others_answer { ELSEWHERE_MAX } else { BACK_MAX } {
            tokio::select! {
                () = tokio::time::sleep(BACK_PAUSE) => {}
                signal = self.signals.next() => if Signals::asks_to_end(signal) {
                    // Its daemon ends the job when it is back and nobody attaches; an heir cannot know.
                    return Err(self.given_up(lost));
                },
            }
            match self.attach().await {
                Ok(Some(DaemonToControl::JobAccepted { .. })) => return Ok(None),
                Ok(Some(DaemonToControl::JobEnded(end))) => return Ok(Some(end)),
                Ok(Some(other)) => return Err(Failure::unexpected("Attach", &other)),
                Ok(None) => others_answer = true,
                Err(failure) if is_lost(&failure) => {}
                // That daemon was cut off, and has heard that another leads the job.
                Err(failure) if failure.code == refusal::UNKNOWN_JOB => {
                    if let Ok(Some(DaemonToControl::JobEnded(end))) = self.ask_any().await {
                        return Ok(Some(end));
                    }
                    others_answer = true;
                }
                // It ended under another coordinator, which tells how.
                Err(failure) if failure.code == refusal::JOB_ENDED => {
                    return self.end_elsewhere().await?.ok_or(failure).map(Some);
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(self.given_up(lost))
    }

    fn given_up(&self, lost: Failure) -> Failure {
        let (job, message) = (self.job, lost.message);
        Failure::link(format!(
            "{message}; job {job} continues if another node leads it now: 'pcmctl jobs' shows it, 'pcmctl kill \
             {job}' ends it"
        ))
    }

    /// How the job ended, as the cluster remembers it.
    async fn end_elsewhere(&self) -> Result<Option<JobEnd>, Failure> {
        let mut link = Link::open_preferring(self.cluster, Some(&self.coordinator)).await?;
        let known = lookup::jobs(&mut link).await?;
        Ok(known
            .into_iter()
            .find(|job| job.job == self.job)
            .and_then(|job| job.end))
    }

    async fn ask_any(&mut self) -> Result<Option<DaemonToControl>, Failure> {
        let mut link = Link::open(self.cluster).await?;
        self.ask_elsewhere(&mut link).await
    }

    /// Asks another daemon who leads the job now; its end where it has ended.
    async fn ask_elsewhere(&mut self, link: &mut Link) -> Result<Option<DaemonToControl>, Failure> {
        let known = lookup::jobs(link).await?;
        let Some(status) = known.into_iter().find(|job| job.job == self.job) else {
            return Ok(None);
        };
        self.coordinator = status.coordinator;
        Ok(status.end.map(DaemonToControl::JobEnded))
    }

    /// Asks the job's coordinator once to take this process back; `None` where others answer, but no coordinator yet.
    async fn attach(&mut self) -> Result<Option<DaemonToControl>, Failure> {
        let mut link = Link::open_preferring(self.cluster, Some(&self.coordinator))
            .await
            .map_err(|failure| Failure::link(failure.message))?;
        if *link.node() != self.coordinator {
            return self.ask_elsewhere(&mut link).await;
        }
        let stream = |is_stderr| if is_stderr { Stream::Stderr } else { Stream::Stdout };
        let received = self.received.iter();
        let request = ControlToDaemon::Attach {
            job: self.job,
            received: received
                .map(|(&(process, is_stderr), &bytes)| (process, stream(is_stderr), bytes))
                .collect(),
        };
        link.send(&request).await?;
        let answer = within(START_MAX, "the daemon did not take this command back", link.next()).await?;
        self.link = link;
        Ok(Some(answer))
    }

    /// Waits until all output is written, says why the job ended, and gives its code.
    async fn conclude(self, end: JobEnd) -> Result<i32, Failure> {
        let Self {
            writer,
            mut written,
            mut signals,
            job,
            reader_gone,
            cut_off,
            ..
        } = self;
        drop(writer);
        loop {
            tokio::select! {
                report = written.recv() => if report.is_none() { break },
                // The job is over; whoever asks for an end now means this process.
                signal = signals.next() => if Signals::asks_to_end(signal) { return Ok(128 + signal) },
            }
        }
        if reader_gone {
            return Ok(CODE_BROKEN_PIPE);
        }
        if !end.reason.is_empty() {
            output::tell(format_args!("job {job}: {}", end.reason));
        }
        if cut_off.is_some_and(|at| at.elapsed() < TOLD_EVERY * 2) {
            eprintln!(
                "pcmctl: job {job}: its coordinator was cut off: the job may go on elsewhere; 'pcmctl jobs' on another \
                 node shows it, 'pcmctl kill {job}' there ends it"
            );
        }
        // A code whose low byte is zero would read as success.
        Ok(if end.code != 0 && end.code & 0xff == 0 {
            1
        } else {
            end.code
        })
    }
}

/// What a task found, if it was started.
async fn asked(task: &mut Option<JoinHandle<Option<NodeName>>>) -> Option<NodeName> {
    task.as_mut()?.await.ok().flatten()
}

/// The outcome, or a failure that says what did not happen in time.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(limit, work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Failure::deadline(format!(
            "{what} within {} s: see 'pcmctl nodes' and 'pcmctl logs'",
            limit.as_secs()
        ))),
    }
}
