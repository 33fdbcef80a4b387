//! Files written behind the program's back: a thread per rank, one checkpoint at a time, from a copy of the data. It
//! makes no MPI call. Rank 0's publishes when every rank has left its record. Takes at most one copy of the rank's
//! data, or none where `PCM_CHECKPOINT_MEMORY` forbids it, and no more of the disk than `PCM_CHECKPOINT_RATE`.

use super::{
    Settings,
    outline::Outline,
    records,
    source::{Source, touched},
    write::{self, Sheet},
};
use memmap2::MmapMut;
use pcm_checkpoint::{BLOCK_BYTES, Data, Draft, Pace, Progress, is_checkpoint};
use std::{
    collections::VecDeque,
    io,
    num::NonZeroU64,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A disk that takes nothing for so long is given up: slow ones stall for seconds.
const STALL_MAX: Duration = Duration::from_secs(60);

/// Of a bounded rate, the times that one block may take.
const STALL_BLOCKS: f64 = 4.0;

/// Whoever waits for the end of a write looks this often.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The priority of what writes while nobody waits for it: it is to take what the program leaves.
const NICE: i32 = 10;

/// Writers of this process that have not ended, and how long each may stall: who finalizes MPI waits for them.
static UNDERWAY: Mutex<Vec<(Progress, Duration)>> = Mutex::new(Vec::new());

/// What is done when a checkpoint is published, with its directory, or came to nothing.
pub(crate) type Tell = Box<dyn FnOnce(Result<&Path, &str>) + Send>;

/// What a rank's thread is to do.
pub(crate) struct Task {
    pub(crate) outline: Outline,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// Where all write.
    pub(crate) directory: PathBuf,
    /// Rank 0 has the draft.
    pub(crate) draft: Option<Draft>,
    pub(crate) source: Result<Arc<Source>, String>,
    pub(crate) tell: Option<Tell>,
}

/// See the file head.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    running: Option<Running>,
    /// Written by this run and not removed, oldest first; rank 0 knows.
    written: VecDeque<PathBuf>,
    /// For the next copy.
    spare: Option<MmapMut>,
    stall_max: Duration,
}

#[derive(Debug)]
struct Running {
    thread: JoinHandle<Done>,
    progress: Progress,
    /// What is written, as long as it may have to give way.
    source: Option<Arc<Source>>,
}

#[derive(Debug)]
struct Done {
    outcome: Result<(), String>,
    written: VecDeque<PathBuf>,
    spare: Option<MmapMut>,
}

impl Behind {
    /// Whether one is being written.
    pub(crate) fn is_busy(&self) -> bool {
        self.running
            .as_ref()
            .is_some_and(|running| !running.thread.is_finished())
    }

    /// What became of the last one, once: rank 0 knows of all, others of what they wrote themselves.
    pub(crate) fn take_outcome(&mut self) -> Option<Result<(), String>> {
        let running = self.running.take_if(|running| running.thread.is_finished())?;
        let done = running.thread.join().unwrap_or_else(|_| Done {
            outcome: Err("a defect in libpcm".to_owned()),
            written: VecDeque::new(),
            spare: None,
        });
        (self.written, self.spare) = (done.written, done.spare.or_else(|| self.spare.take()));
        Some(done.outcome)
    }

    /// Waits until nothing is being written.
    pub(crate) fn finish(&mut self) -> Option<Result<(), String>> {
        if let Some(Running { thread, progress, .. }) = &self.running {
            progress.hurry();
            wait_for(progress, self.stall_max, || thread.is_finished());
        }
        // One that was called off and hangs in the kernel stays; the next one finds it busy.
        self.take_outcome()
    }

    /// Memory for a copy of so many bytes: the last one's if it fits.
    pub(crate) fn memory(&mut self, bytes: u64) -> io::Result<MmapMut> {
        match self.spare.take().filter(|spare| spare.len() as u64 == bytes) {
            Some(spare) => Ok(spare),
            None => touched(bytes),
        }
    }

    /// Has memory ready for a copy of so many bytes.
    pub(crate) fn prepare(&mut self, bytes: u64) -> io::Result<()> {
        let memory = self.memory(bytes)?;
        self.spare = Some(memory);
        Ok(())
    }

    /// The memory that is written from is wanted: what is left is written from a copy, where that is allowed.
    pub(crate) fn give_way(&mut self, memory_max: Option<u64>) {
        let source = self.running.as_mut().and_then(|running| running.source.take());
        let Some(source) = source.filter(|source| memory_max.is_none_or(|most| source.length() <= most)) else {
            return;
        };
        let spare = self.spare.take();
        let give_way = move || source.give_way(spare);
        // Without a thread it stays where it is, and the next checkpoint waits.
        _ = thread::Builder::new().name("pcm-files-copy".to_owned()).spawn(give_way);
    }

    /// Begins to write. The one before has ended.
    pub(crate) fn begin(&mut self, settings: &Settings, task: Task) -> io::Result<()> {
        let progress = Progress::default();
        let rate = settings.rate.map(|rate| share_of(rate, task.ranks));
        self.stall_max = stall_max(rate);
        let writer = Writer {
            pace: Pace::new(rate, progress.clone()).polite(NICE),
            progress: progress.clone(),
            compression: settings.compression,
            keep: settings.keep,
            stall_max: self.stall_max,
            written: std::mem::take(&mut self.written),
        };
        let stall_max = self.stall_max;
        underway(|all| all.push((progress.clone(), stall_max)));
        let ended = progress.clone();
        let source = task.source.as_ref().ok().map(Arc::clone);
        let thread = thread::Builder::new().name("pcm-files".to_owned()).spawn(move || {
            let done = writer.run(task);
            underway(|all| all.retain(|(one, _)| !one.is_same(&ended)));
            done
        });
        match thread {
            Ok(thread) => {
                self.running = Some(Running {
                    thread,
                    progress,
                    source,
                });
                Ok(())
            }
            Err(error) => {
                underway(|all| all.retain(|(one, _)| !one.is_same(&progress)));
                Err(error)
            }
        }
    }
}

/// Waits, before the process ends, for what is being written.
pub(crate) fn finish_all() {
    for (progress, stall_max) in underway(|all| all.clone()) {
        let is_over = || underway(|all| all.iter().all(|(one, _)| !one.is_same(&progress)));
        progress.hurry();
        wait_for(&progress, stall_max, is_over);
    }
}

fn underway<R>(act: impl FnOnce(&mut Vec<(Progress, Duration)>) -> R) -> R {
    act(&mut UNDERWAY.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Waits as long as something is written; calls it off otherwise.
fn wait_for(progress: &Progress, stall_max: Duration, is_over: impl Fn() -> bool) {
    let (mut seen, mut since) = (progress.written(), Instant::now());
    while !is_over() {
        if progress.written() != seen {
            (seen, since) = (progress.written(), Instant::now());
        }
        // Twice: once for the writer itself, which may be waiting for another rank as long.
        if since.elapsed() > stall_max * 2 {
            progress.call_off();
            return;
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// What one rank of these may write a second.
fn share_of(rate: NonZeroU64, ranks: u32) -> NonZeroU64 {
    NonZeroU64::new(rate.get() / u64::from(ranks.max(1))).unwrap_or(NonZeroU64::MIN)
}

fn stall_max(rate: Option<NonZeroU64>) -> Duration {
    let block = rate.map_or(0.0, |rate| BLOCK_BYTES as f64 / rate.get() as f64);
    STALL_MAX.max(Duration::from_secs_f64((STALL_BLOCKS * block).min(1e6)))
}

struct Writer {
    pace: Pace,
    progress: Progress,
    compression: pcm_checkpoint::Compression,
    keep: usize,
    stall_max: Duration,
    written: VecDeque<PathBuf>,
}

impl Writer {
    fn run(mut self, task: Task) -> Done {
        let Task {
            outline,
            rank,
            ranks,
            directory,
            draft,
            source,
            tell,
        } = task;
        let sheet = Sheet {
            directory: &directory,
            rank,
            compression: self.compression,
        };
        let (own, spare) = match source {
            Ok(source) => {
                let own = write::parts(&outline, &source, &sheet, &self.pace);
                (own, source.release())
            }
            Err(problem) => (Err(problem), None),
        };
        let outcome = match draft {
            Some(draft) => {
                let published = self.publish(outline, ranks, own, draft);
                if let Some(tell) = tell {
                    tell(published.as_deref().map_err(String::as_str));
                }
                published.map(|path| {
                    self.written.push_back(path);
                    self.remove_old();
                })
            }
            None => records::leave(&directory, rank, &own)
                .map_err(|error| format!("rank 0 cannot be informed: {error}"))
                .and(own.map(|_| ())),
        };
        Done {
            outcome,
            written: self.written,
            spare,
        }
    }

    fn publish(&self, outline: Outline, ranks: u32, own: records::Outcome, draft: Draft) -> Result<PathBuf, String> {
        let all = records::collect(draft.directory(), ranks, own, &self.progress, self.stall_max)?;
        draft.publish(&outline.manifest(all)).map_err(|error| error.to_string())
    }

    fn remove_old(&mut self) {
        self.written.retain(|path| is_checkpoint(path));
        while self.written.len() > self.keep {
            if let Some(oldest) = self.written.pop_front() {
                // One that cannot be removed only takes room.
                _ = pcm_checkpoint::remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_rate_is_shared_and_its_blocks_are_waited_for() {
        let rate = NonZeroU64::new(1_000_000).unwrap();
        assert_eq!(share_of(rate, 4).get(), 250_000);
        assert_eq!(share_of(NonZeroU64::MIN, 4).get(), 1);
        assert_eq!(stall_max(None), STALL_MAX);
        assert!(stall_max(NonZeroU64::new(10_000)) > 3 * STALL_MAX);
    }

    #[test]
    fn who_waits_goes_on_at_the_end_or_when_nothing_is_written_any_more() {
        let progress = Progress::default();
        wait_for(&progress, STALL_MAX, || true);
        assert!(!progress.is_called_off());
        wait_for(&progress, Duration::from_millis(5), || false);
        assert!(progress.is_called_off());
    }
}
