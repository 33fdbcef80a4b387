//! The handles of all ranks of this node, by process.

use super::counters::counters;
use super::hang_report::hang_report;
use super::launch::prepare;
use super::looks::{LastLooks, look};
use super::monotonic::monotonic_ns;
use super::statuses::status;
use super::streams::{FromRanks, JobStreams};
use super::traces::traces;
use crate::keeper_link::Handed;
use crate::rank::{AttachError, PageFile, RankHandle};
use pcm_core::node::ranks::effect::{Attached, RankEffect, RankFact};
use pcm_core::node::ranks::pages::{PageQuestion, Pages};
use pcm_proto::app::DaemonToApp;
use pcm_proto::ids::{Bytes, Iteration, JobId, NodeName, ProcessId};
use pcm_proto::keeper::{ProcessKey, ProcessSpec};
use pcm_proto::page::{CEILING_NONE, Page, State};
use pcm_proto::parked::ParkKey;
use pcm_proto::peer::RanksBegun;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;
use tokio::sync::mpsc;

/// What came of an effect.
#[derive(Debug)]
pub enum Outcome {
    /// There is nothing to report.
    Done,
    Fact(RankFact),
    /// The keeper is to start a process.
    Start(Box<ProcessSpec>, PageFile),
}

impl From<Option<RankFact>> for Outcome {
    fn from(fact: Option<RankFact>) -> Self {
        fact.map_or(Self::Done, Self::Fact)
    }
}

/// One job's ranks here.
#[derive(Debug)]
struct JobRanks {
    handles: BTreeMap<ProcessId, RankHandle>,
    last_looks: LastLooks,
    streams: JobStreams,
}

/// All ranks here. Must be used inside a tokio runtime.
#[derive(Debug)]
pub struct RankTable<E> {
    own: NodeName,
    events: mpsc::Sender<E>,
    jobs: BTreeMap<JobId, JobRanks>,
}

impl<E: FromRanks> RankTable<E> {
    pub fn new(own: NodeName, events: mpsc::Sender<E>) -> Self {
        Self {
            own,
            events,
            jobs: BTreeMap::new(),
        }
    }

    /// Takes over the descriptors of a process.
    pub fn attach(&mut self, handed: Handed) -> Result<Attached, AttachError> {
        let key = handed.key;
        let job = self.jobs.entry(key.job).or_insert_with(|| JobRanks {
            handles: BTreeMap::new(),
            last_looks: LastLooks::default(),
            streams: JobStreams::start(&self.events),
        });
        let handle = RankHandle::attach(handed, job.streams.said())?;
        let stdin = handle.stdin();
        let attached = Attached {
            key,
            pid: handle.pid(),
            is_starting: handle.page().page().state() == State::Starting,
            is_asking: handle.is_asking(),
            has_stdin: stdin.is_some(),
        };
        if let Some(pipe) = stdin {
            job.streams.feed(key.job, pipe, &self.events);
        }
        job.handles.insert(key.process, handle);
        Ok(attached)
    }

    /// Carries out an effect; `file` is the memory that goes with a message.
    pub fn carry_out(&mut self, effect: RankEffect, file: Option<OwnedFd>) -> Outcome {
        match effect {
            RankEffect::Launch(launch) => {
                return match prepare(*launch) {
                    Ok((spec, page)) => Outcome::Start(Box::new(spec), page),
                    Err(fact) => Outcome::Fact(fact),
                };
            }
            RankEffect::Tell { key, message, .. } => self.tell(key, &message, file),
            RankEffect::AnswerPmi { key, line } => return self.answer_pmi(key, &line).into(),
            RankEffect::SetCeiling { key, ceiling } => return self.set_ceiling(key, ceiling).into(),
            RankEffect::LiftCeiling { key } => _ = self.set_ceiling(key, Iteration(CEILING_NONE)),
            RankEffect::TellCrowd {
                is_crowded,
                starting_for,
            } => self.tell_crowd(is_crowded, starting_for),
            RankEffect::WeighData { key } => return Outcome::Fact(self.weigh_data(key)),
            RankEffect::FindData { key } => return Outcome::Fact(self.find_data(key)),
            RankEffect::LogHang { key, cause } => {
                if let Some(handle) = self.handle(key) {
                    let stands = hang_report(handle.pid());
                    tracing::info!(job = %key.job, process = %key.process, cause, stands, "a process is ended");
                }
            }
            RankEffect::ReadOutput { key } => self.read_output(key),
            RankEffect::FreeOutput { job, bytes } => {
                if let Some(job) = self.jobs.get(&job) {
                    job.streams.free(bytes);
                }
            }
            RankEffect::WriteStdin { key, end, bytes } => {
                if let Some(job) = self.jobs.get(&key.job) {
                    job.streams.write(key.job, end, bytes);
                }
            }
            RankEffect::EndStdin { key } => self.end_stdin(key),
            RankEffect::Read { number, question } => {
                let pages = self.read(question);
                return Outcome::Fact(RankFact::PagesRead { number, pages });
            }
            RankEffect::Forget { key } => self.forget(key),
            RankEffect::ForgetJob { job } => _ = self.jobs.remove(&job),
        }
        Outcome::Done
    }

    fn handle(&self, key: ProcessKey) -> Option<&RankHandle> {
        self.jobs.get(&key.job)?.handles.get(&key.process)
    }

    fn page(&self, key: ParkKey) -> Option<&Page<'_>> {
        let (job, process) = (key.job, key.process);
        Some(self.handle(ProcessKey { job, process })?.page().page())
    }

    fn pages(&self, job: JobId) -> impl Iterator<Item = (ProcessId, &Page<'_>)> {
        let handles = self.jobs.get(&job).map(|job| job.handles.iter());
        let handles = handles.into_iter().flatten();
        handles.map(|(process, handle)| (*process, handle.page().page()))
    }

    /// The processes of a job with their numbers in the kernel.
    pub fn pids(&self, job: JobId) -> Vec<(ProcessId, u32)> {
        let handles = self.jobs.get(&job).map(|job| job.handles.iter());
        let handles = handles.into_iter().flatten();
        handles.map(|(process, handle)| (*process, handle.pid())).collect()
    }

    /// Sends a message to the library in a process, and a file with it.
    pub fn tell(&self, key: ProcessKey, message: &DaemonToApp, file: Option<OwnedFd>) {
        let Some(handle) = self.handle(key) else { return };
        let descriptors: Vec<_> = file.iter().map(AsFd::as_fd).collect();
        match handle.app_send(message, &descriptors) {
            Ok(()) => handle.page().page().ring(),
            Err(error) => {
                let ProcessKey { job, process } = key;
                tracing::warn!(%job, %process, %error, "a message did not reach a rank");
            }
        }
    }

    /// The same to all processes of a job.
    pub fn tell_all(&self, job: JobId, message: &DaemonToApp) {
        let processes = self.jobs.get(&job).map(|job| job.handles.keys());
        for process in processes.into_iter().flatten().copied() {
            self.tell(ProcessKey { job, process }, message, None);
        }
    }

    fn answer_pmi(&self, key: ProcessKey, line: &str) -> Option<RankFact> {
        match self.handle(key)?.pmi_answer(line) {
            Ok(()) => Some(RankFact::PmiAnswered { key }),
            Err(error) => {
                tracing::debug!(job = %key.job, process = %key.process, %error, "a process did not take its answer");
                None
            }
        }
    }

    fn set_ceiling(&self, key: ProcessKey, ceiling: Iteration) -> Option<RankFact> {
        let page = self.handle(key)?.page().page();
        let started = Iteration(page.set_ceiling(ceiling.0));
        page.ring();
        let declared = page.head.progress.iterations_declared.load(Relaxed);
        Some(RankFact::CeilingWritten {
            key,
            ceiling,
            started,
            ends: (declared > 0).then_some(Iteration(declared)),
        })
    }

    fn tell_crowd(&self, is_crowded: bool, starting_for: Duration) {
        let until = match starting_for.as_nanos() as u64 {
            0 => 0,
            nanos => monotonic_ns() + nanos,
        };
        for handle in self.jobs.values().flat_map(|job| job.handles.values()) {
            let orders = &handle.page().page().head.orders;
            orders.is_crowded.store(is_crowded.into(), Relaxed);
            orders.starting_until.store(until, Relaxed);
        }
    }

    fn weigh_data(&self, key: ParkKey) -> RankFact {
        let progress = self.page(key).map(|page| &page.head.progress);
        let (constant, registered) = progress.map_or((0, 0), |progress| {
            (
                progress.constant_bytes.load(Relaxed),
                progress.registered_bytes.load(Relaxed),
            )
        });
        RankFact::DataWeighed {
            key,
            constant: Bytes(constant),
            registered: Bytes(registered),
        }
    }

    fn find_data(&self, key: ParkKey) -> RankFact {
        let ParkKey { job, process, .. } = key;
        let stands = self
            .handle(ProcessKey { job, process })
            .map(|handle| hang_report(handle.pid()));
        tracing::warn!(%job, %process, stands, "a process does not come back from MPI: its data is salvaged");
        let progress = self.page(key).map(|page| &page.head.progress);
        let (table, stretches) = progress.map_or((0, 0), |progress| {
            (progress.table.load(Acquire), progress.stretches.load(Acquire))
        });
        let stretches = u32::try_from(stretches).unwrap_or(u32::MAX);
        RankFact::DataFound { key, table, stretches }
    }

    fn read_output(&mut self, key: ProcessKey) {
        if let Some(job) = self.jobs.get_mut(&key.job)
            && let Some(handle) = job.handles.get_mut(&key.process)
        {
            handle.read_output(job.streams.printed());
        }
    }

    fn end_stdin(&mut self, key: ProcessKey) {
        let Some(job) = self.jobs.get_mut(&key.job) else { return };
        job.streams.end_stdin();
        if let Some(handle) = job.handles.get_mut(&key.process) {
            handle.stdin_close();
        }
    }

    fn forget(&mut self, key: ProcessKey) {
        if let Some(job) = self.jobs.get_mut(&key.job)
            && let Some(handle) = job.handles.remove(&key.process)
        {
            job.last_looks.keep(key.process, &self.own, handle.page().page());
        }
    }

    fn begun(&self, job: JobId) -> RanksBegun {
        let mut begun = RanksBegun::default();
        for (process, page) in self.pages(job) {
            let progress = &page.head.progress;
            if progress.iteration.load(Relaxed) > 0 {
                begun.processes.push(process);
                begun.registered.0 += progress.registered_bytes.load(Relaxed);
                begun.constant.0 += progress.constant_bytes.load(Relaxed);
            }
        }
        begun
    }

    fn read(&self, question: PageQuestion) -> Pages {
        let now_ns = monotonic_ns();
        match question {
            PageQuestion::Ranks { job } => {
                let handles = self.jobs.get(&job).map(|job| job.handles.iter());
                let rows = handles.into_iter().flatten();
                let rows = rows.map(|(process, handle)| status(*process, &self.own, handle, now_ns));
                Pages::Ranks(rows.collect())
            }
            PageQuestion::Begun { job } => Pages::Begun(self.begun(job)),
            PageQuestion::Looks { job } => {
                let looks = self
                    .pages(job)
                    .map(|(process, page)| look(process, &self.own, page, now_ns));
                let last = self.jobs.get(&job).map(|job| job.last_looks.all());
                Pages::Looks(looks.chain(last.into_iter().flatten().cloned()).collect())
            }
            PageQuestion::Traces {
                job,
                after,
                is_last,
                entries_max,
                now,
            } => {
                let pages: Vec<_> = self.pages(job).collect();
                let epoch_offset_ns = (now.0 * 1000).wrapping_sub(now_ns) as i64;
                Pages::Traces(traces(
                    &pages,
                    (&self.own, epoch_offset_ns),
                    &after,
                    is_last,
                    entries_max,
                ))
            }
            PageQuestion::Counters { jobs } => {
                let jobs = jobs.into_iter().map(|(job, ranks)| {
                    let size = ranks.len();
                    let of_job = self.pages(job).filter_map(|(process, page)| {
                        let rank = ranks.get(&process)?;
                        Some(counters(process, *rank, size, page))
                    });
                    (job, of_job.collect())
                });
                Pages::Counters {
                    at_ns: now_ns,
                    jobs: jobs.collect(),
                }
            }
            PageQuestion::Reached { job } => {
                let begun = self
                    .pages(job)
                    .map(|(_, page)| page.head.progress.iteration.load(Relaxed));
                // What a page shows is the iteration begun, plus one; past its last one a rank shows no number.
                let begun = begun.filter(|begun| *begun != CEILING_NONE && *begun > 0).max();
                Pages::Reached {
                    iteration: begun.map(|begun| Iteration(begun - 1)),
                }
            }
        }
    }
}
