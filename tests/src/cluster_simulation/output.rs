//! What readers have of the output of jobs: whole lines, each with its number.

use pcm_proto::control::Stream;
use pcm_proto::ids::{JobId, ProcessId};
use std::collections::BTreeMap;

/// Bytes of one line, its end included.
pub(super) const LINE: usize = 19;

/// Stands for a byte that was lost.
const LOST: u8 = b'#';

/// One line of a process.
pub(super) fn line(process: ProcessId, number: u64) -> Vec<u8> {
    format!("{:010} {number:07}\n", process.0).into_bytes()
}

/// The output of a detached job as its files have it, by the daemon that writes them.
#[derive(Debug, Default)]
pub(super) struct Written {
    open: BTreeMap<JobId, ()>,
}

impl Written {
    pub(super) fn open(&mut self, job: JobId) {
        self.open.insert(job, ());
    }

    pub(super) fn close(&mut self, job: JobId) {
        self.open.remove(&job);
    }

    pub(super) fn is_open(&self, job: JobId) -> bool {
        self.open.contains_key(&job)
    }
}

/// What one attached reader has of each stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    streams: BTreeMap<(ProcessId, Stream), Vec<u8>>,
}

impl Received {
    pub(super) fn bytes(&self, of: (ProcessId, Stream)) -> u64 {
        self.streams.get(&of).map_or(0, |bytes| bytes.len() as u64)
    }

    pub(super) fn all(&self) -> Vec<(ProcessId, Stream, u64)> {
        let streams = self.streams.iter();
        streams
            .map(|((process, stream), bytes)| (*process, *stream, bytes.len() as u64))
            .collect()
    }

    /// What is before this offset was lost with a daemon.
    pub(super) fn skip(&mut self, of: (ProcessId, Stream), offset: u64) {
        let known = self.streams.entry(of).or_default();
        known.resize(known.len().max(offset as usize), LOST);
    }

    /// Takes what is new of a piece; false when something before it is missing.
    pub(super) fn take(&mut self, of: (ProcessId, Stream), offset: u64, piece: &[u8]) -> bool {
        let known = self.streams.entry(of).or_default();
        let has = known.len() as u64;
        if offset > has {
            return false;
        }
        let new = piece.get((has - offset) as usize..).unwrap_or_default();
        known.extend(new);
        true
    }

    /// Why the lines are not what a process prints: each once, in order. Lines may be missing where a daemon died.
    pub(super) fn disorder(&self) -> Option<String> {
        self.streams.iter().find_map(|((process, _), bytes)| {
            let mut before = None;
            for text in bytes.chunks(LINE) {
                if text.contains(&LOST) {
                    continue;
                }
                let number = std::str::from_utf8(text)
                    .ok()
                    .and_then(|text| number_of(*process, text));
                match number {
                    Some(number) if before.is_none_or(|before| number > before) => before = Some(number),
                    Some(number) => return Some(format!("process {process} printed line {number} after {before:?}")),
                    None => return Some(format!("process {process} printed {text:?}")),
                }
            }
            None
        })
    }
}

fn number_of(process: ProcessId, text: &str) -> Option<u64> {
    let (own, number) = text.strip_suffix('\n')?.split_once(' ')?;
    (own.parse() == Ok(process.0)).then(|| number.parse().ok())?
}
