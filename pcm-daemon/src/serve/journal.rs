//! What a daemon must not forget when it is killed: a file of records, appended before anybody is told. There is no
//! fsync, for it has to survive the process only; a machine that dies has no ranks left. When it has grown, it is
//! written anew with the present state and renamed into place.

use super::journal_head::{HeadError, head, head_length};
use pcm_core::node::record::Record;
use pcm_proto::frame::{self, Decoder, FrameKind};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Longest record: all of a job holds the command and environment of its program several times, and each may be as long
/// as a message.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// Below this size a journal is never rewritten: reading it takes a few milliseconds.
const REWRITE_BYTES_MIN: u64 = 4 << 20;

/// A journal is rewritten when it is so many times larger than after the last rewriting.
const REWRITE_GROWTH: u64 = 4;

/// Why a journal cannot be used.
#[derive(Debug)]
pub(super) enum JournalError {
    File {
        path: PathBuf,
        doing: &'static str,
        error: io::Error,
    },
    /// Its records are not those of this version; another start changes nothing.
    Head { path: PathBuf, error: HeadError },
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, doing, error } => write!(
                f,
                "{doing} the journal {}: {error}; is the cluster's directory writable and not full?",
                path.display()
            ),
            Self::Head { path, error } => write!(f, "the journal {} {error}", path.display()),
        }
    }
}

impl std::error::Error for JournalError {}

/// The journal of a running daemon.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_after_rewrite: u64,
    buffer: Vec<u8>,
}

impl Journal {
    /// Opens the journal and reads what it says. `is_new` starts an empty one. A record that was cut by the daemon's
    /// death was told to nobody and is dropped.
    pub(super) fn open(path: &Path, is_new: bool, take: impl FnMut(Record)) -> Result<Self, JournalError> {
        let failed = |doing| {
            move |error| JournalError::File {
                path: path.to_owned(),
                doing,
                error,
            }
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(is_new)
            .open(path)
            .map_err(failed("opening"))?;
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(failed("reading"))?;
        if is_new {
            content = head().into_bytes();
            file.write_all(&content).map_err(failed("writing"))?;
        }
        let refused = |error| JournalError::Head {
            path: path.to_owned(),
            error,
        };
        let begin = head_length(&content).map_err(refused)?;
        let whole = begin + read_records(&content[begin..], take);
        if whole < content.len() {
            tracing::warn!(path = %path.display(), bytes = content.len() - whole, "the end of the journal is cut off");
            file.set_len(whole as u64).map_err(failed("cutting"))?;
        }
        io::Seek::seek(&mut file, io::SeekFrom::Start(whole as u64)).map_err(failed("reading"))?;
        let bytes = whole as u64;
        Ok(Self {
            path: path.to_owned(),
            file,
            bytes,
            bytes_after_rewrite: bytes,
            buffer: Vec::new(),
        })
    }

    /// Appends a record; on return it survives the daemon.
    pub(super) fn write(&mut self, record: &Record) -> Result<(), JournalError> {
        self.buffer.clear();
        let failed = |error| JournalError::File {
            path: self.path.clone(),
            doing: "writing",
            error,
        };
        frame::encode(FrameKind::Message, record, RECORD_BYTES_MAX, &mut self.buffer)
            .map_err(|error| failed(io::Error::other(error.to_string())))?;
        self.file.write_all(&self.buffer).map_err(failed)?;
        self.bytes += self.buffer.len() as u64;
        Ok(())
    }

    /// Whether [`Journal::rewrite`] would pay.
    pub(super) fn is_grown(&self) -> bool {
        self.bytes > REWRITE_BYTES_MIN.max(self.bytes_after_rewrite * REWRITE_GROWTH)
    }

    /// Replaces the journal by these records.
    pub(super) fn rewrite(&mut self, records: impl Iterator<Item = Record>) -> Result<(), JournalError> {
        let path = self.path.with_extension("new");
        let mut fresh = Self::open(&path, true, |_| {})?;
        for record in records {
            fresh.write(&record)?;
        }
        std::fs::rename(&path, &self.path).map_err(|error| JournalError::File {
            path: self.path.clone(),
            doing: "replacing",
            error,
        })?;
        self.file = fresh.file;
        self.bytes = fresh.bytes;
        self.bytes_after_rewrite = fresh.bytes;
        Ok(())
    }
}

/// Reads whole records and returns how many bytes they take.
fn read_records(content: &[u8], mut take: impl FnMut(Record)) -> usize {
    let mut decoder = Decoder::new(RECORD_BYTES_MAX);
    decoder.push(content);
    let mut whole = 0;
    while let Ok(Some(frame)) = decoder.next_frame() {
        let length = frame::HEADER_LENGTH + frame.payload.len();
        let Ok(record) = frame::decode(frame.payload) else {
            break;
        };
        take(record);
        whole += length;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_core::node::record::Past;
    use pcm_core::reconfiguration::limits::Limits;
    use pcm_proto::ids::{JobId, NodeName};

    fn listens(address: &str) -> Record {
        Record::Listens {
            address: address.into(),
        }
    }

    fn open(path: &Path, is_new: bool) -> Result<(Journal, Past), JournalError> {
        let mut past = Past::new(NodeName::new("n0").unwrap(), Limits::default());
        let journal = Journal::open(path, is_new, |record| past.take(record))?;
        Ok((journal, past))
    }

    #[test]
    fn a_record_cut_by_death_is_dropped_and_the_rest_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let (mut journal, _) = open(&path, true).unwrap();
        journal.write(&listens("a:1")).unwrap();
        journal.write(&Record::HighestJob(JobId(7))).unwrap();
        journal.write(&listens("b:2")).unwrap();
        drop(journal);
        let length = std::fs::metadata(&path).unwrap().len();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(length - 1).unwrap();
        let (mut journal, past) = open(&path, false).unwrap();
        assert_eq!(
            (past.address.as_deref(), past.numbers.highest()),
            (Some("a:1"), JobId(7))
        );
        journal.write(&listens("c:3")).unwrap();
        drop(journal);
        let (_, past) = open(&path, false).unwrap();
        assert_eq!(past.address.as_deref(), Some("c:3"));
    }

    #[test]
    fn a_journal_of_another_version_or_without_one_is_refused_and_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        for (content, refused) in [
            ("PCM journal 60000\nrecords", HeadError::Version(60000)),
            ("\x05\0\0\0records", HeadError::Missing),
            ("", HeadError::Missing),
        ] {
            std::fs::write(&path, content).unwrap();
            let error = open(&path, false).unwrap_err();
            assert!(
                matches!(error, JournalError::Head { error, .. } if error == refused),
                "{error}"
            );
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
    }

    #[test]
    fn a_rewritten_journal_says_what_it_was_given_and_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let (mut journal, _) = open(&path, true).unwrap();
        for job in 0..100 {
            journal.write(&Record::HighestJob(JobId(job))).unwrap();
        }
        let before = journal.bytes;
        journal.rewrite([Record::HighestJob(JobId(99))].into_iter()).unwrap();
        assert!(journal.bytes < before);
        journal.write(&listens("a:1")).unwrap();
        let (_, past) = open(&path, false).unwrap();
        assert_eq!(
            (past.address.as_deref(), past.numbers.highest()),
            (Some("a:1"), JobId(99))
        );
    }
}
