//! What a daemon must not forget when it is killed: records, appended before anybody is told. They are in memory that
//! the keeper holds, for they have to survive the daemon only: ranks die with their keeper. No disk that is full, slow
//! or away, and no other user, has a part in it. A journal that has grown is written again, with the present state,
//! into the second of two files.
#![allow(unsafe_code, reason = "descriptors that the keeper opened for this process")]

use super::journal_head::{HeadError, head, head_length};
use pcm_core::node::record::Record;
use pcm_proto::frame::{self, Decoder, FrameKind};
use pcm_proto::keeper::JOURNAL_FDS;
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Longest record: all of a job holds the command and environment of its program several times, and each may be as long
/// as a message.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// Below this size a journal is never rewritten: it is read in less than a millisecond.
const REWRITE_BYTES_MIN: u64 = 256 << 10;

/// A journal is rewritten when it is so many times larger than after the last rewriting.
const REWRITE_GROWTH: u64 = 4;

/// Bytes before the head: how many times the journal was rewritten when this file was written; 0 in one that is not
/// whole.
const GENERATION_BYTES: usize = 8;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum JournalError {
    #[error("{doing} the journal, which is in memory: {source}; is memory left on this machine?")]
    File { doing: &'static str, source: io::Error },
    /// Its records are not those of this version; another start changes nothing.
    #[error("the journal {0}")]
    Head(#[from] HeadError),
}

fn failed(doing: &'static str) -> impl Fn(io::Error) -> JournalError {
    move |source| JournalError::File { doing, source }
}

/// The files that the keeper of this daemon holds for its journal.
pub(super) fn inherited_files() -> Result<[File; 2], JournalError> {
    let file = |number| -> Result<File, JournalError> {
        // SAFETY: the number is above the standard streams and only looked at; a closed one is reported.
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        let set = fcntl_setfd(borrowed, FdFlags::CLOEXEC).map_err(io::Error::from);
        set.map_err(failed("taking over"))?;
        // SAFETY: the keeper opened this descriptor for this process, and it is taken over once.
        Ok(File::from(unsafe { OwnedFd::from_raw_fd(number) }))
    };
    Ok([file(JOURNAL_FDS[0])?, file(JOURNAL_FDS[1])?])
}

/// The journal of a running daemon.
#[derive(Debug)]
pub(super) struct Journal {
    /// The one that is written, and the one that is written next.
    files: [File; 2],
    generation: u64,
    bytes: u64,
    bytes_after_rewrite: u64,
    /// Whether it says what its daemon could not take in.
    is_spoiled: bool,
    buffer: Vec<u8>,
}

impl Journal {
    /// Takes over the journal and reads what it says; begins an empty one where nothing was ever written and
    /// `may_begin` allows it. A record that was cut by the daemon's death was told to nobody and is dropped.
    pub(super) fn open(files: [File; 2], may_begin: bool, take: impl FnMut(Record)) -> Result<Self, JournalError> {
        let contents = [read(&files[0])?, read(&files[1])?];
        let [first, second] = &contents;
        let is_second = generation_of(second) > generation_of(first);
        let content = if is_second { second } else { first };
        let [one, other] = files;
        let files = if is_second { [other, one] } else { [one, other] };
        let mut journal = Self {
            files,
            generation: generation_of(content),
            bytes: 0,
            bytes_after_rewrite: 0,
            is_spoiled: false,
            buffer: Vec::new(),
        };
        if journal.generation == 0 && may_begin {
            journal.rewrite(std::iter::empty())?;
            return Ok(journal);
        }
        let begin = GENERATION_BYTES.min(content.len());
        let begin = begin + head_length(&content[begin..])?;
        let whole = begin + read_records(&content[begin..], take);
        if whole < content.len() {
            tracing::warn!(bytes = content.len() - whole, "the end of the journal is cut off");
            journal.files[0].set_len(whole as u64).map_err(failed("cutting"))?;
        }
        journal.bytes = whole as u64;
        journal.bytes_after_rewrite = journal.bytes;
        Ok(journal)
    }

    /// Appends a record; on return it survives the daemon.
    pub(super) fn write(&mut self, record: &Record) -> Result<(), JournalError> {
        self.buffer.clear();
        encode(record, &mut self.buffer)?;
        let written = self.files[0].write_all_at(&self.buffer, self.bytes);
        written.map_err(failed("writing"))?;
        self.bytes += self.buffer.len() as u64;
        Ok(())
    }

    /// It says what its daemon could not take in, and what the next one should not find.
    pub(super) fn spoil(&mut self) {
        self.is_spoiled = true;
    }

    /// Whether [`Journal::rewrite`] would pay.
    pub(super) fn is_grown(&self) -> bool {
        self.is_spoiled || self.bytes > REWRITE_BYTES_MIN.max(self.bytes_after_rewrite * REWRITE_GROWTH)
    }

    /// Replaces the journal by these records. The other file counts from the moment at which it has its generation.
    pub(super) fn rewrite(&mut self, records: impl Iterator<Item = Record>) -> Result<(), JournalError> {
        let mut content = vec![0; GENERATION_BYTES];
        content.extend(head().into_bytes());
        for record in records {
            encode(&record, &mut content)?;
        }
        let next = &self.files[1];
        let replaced = next.set_len(0).and_then(|()| next.write_all_at(&content, 0));
        let replaced = replaced.and_then(|()| next.write_all_at(&(self.generation + 1).to_le_bytes(), 0));
        replaced.map_err(failed("replacing"))?;
        self.files.swap(0, 1);
        self.generation += 1;
        self.bytes = content.len() as u64;
        self.bytes_after_rewrite = self.bytes;
        self.is_spoiled = false;
        // Only memory is lost if this fails.
        let _ = self.files[1].set_len(0);
        Ok(())
    }
}

fn encode(record: &Record, out: &mut Vec<u8>) -> Result<(), JournalError> {
    let encoded = frame::encode(FrameKind::Message, record, RECORD_BYTES_MAX, out);
    encoded
        .map(|_| ())
        .map_err(|error| failed("writing")(io::Error::other(error.to_string())))
}

fn read(file: &File) -> Result<Vec<u8>, JournalError> {
    let length = file.metadata().map_err(failed("reading"))?.len();
    let mut content = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut content, 0).map_err(failed("reading"))?;
    Ok(content)
}

fn generation_of(content: &[u8]) -> u64 {
    content.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
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
    use pcm_core::moment::Moment;
    use pcm_core::node::record::Past;
    use pcm_core::reconfiguration::limits::Limits;
    use pcm_proto::ids::{JobId, NodeName};
    use pcm_proto::random::Random;
    use wire_samples::Samples;

    fn listens(address: &str) -> Record {
        Record::Listens {
            address: address.into(),
        }
    }

    /// Two files as a keeper holds them.
    fn files() -> [File; 2] {
        [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()]
    }

    /// The journal as a daemon finds it, which may be the first.
    fn open(files: &[File; 2], may_begin: bool) -> Result<(Journal, Past), JournalError> {
        let mut past = Past::new(NodeName::new("n0").unwrap(), Limits::default());
        let journal = Journal::open(inherited(files), may_begin, |record| past.take(record))?;
        Ok((journal, past))
    }

    fn inherited(files: &[File; 2]) -> [File; 2] {
        files.each_ref().map(|file| file.try_clone().unwrap())
    }

    #[test]
    fn a_record_cut_by_death_is_dropped_and_the_rest_stays() {
        let files = files();
        let (mut journal, _) = open(&files, true).unwrap();
        journal.write(&listens("a:1")).unwrap();
        journal.write(&Record::HighestJob(JobId(7))).unwrap();
        journal.write(&listens("b:2")).unwrap();
        journal.files[0].set_len(journal.bytes - 1).unwrap();
        drop(journal);
        let (mut journal, past) = open(&files, false).unwrap();
        assert_eq!(
            (past.address.as_deref(), past.numbers.highest()),
            (Some("a:1"), JobId(7))
        );
        journal.write(&listens("c:3")).unwrap();
        drop(journal);
        let (_, past) = open(&files, true).unwrap();
        assert_eq!(past.address.as_deref(), Some("c:3"));
    }

    #[test]
    fn a_journal_of_another_version_or_without_one_is_refused_and_left_as_it_is() {
        for (content, refused) in [
            (
                "\x01\0\0\0\0\0\0\0PCM journal 60000\nrecords",
                HeadError::Version(60000),
            ),
            ("\x01\0\0\0\0\0\0\0\x05\0\0\0records", HeadError::Missing),
            ("", HeadError::Missing),
        ] {
            let files = files();
            files[1].write_all_at(content.as_bytes(), 0).unwrap();
            let error = open(&files, false).unwrap_err();
            assert!(
                matches!(error, JournalError::Head(error) if error == refused),
                "{error}"
            );
            assert_eq!(read(&files[1]).unwrap(), content.as_bytes());
        }
    }

    #[test]
    fn a_rewritten_journal_says_the_same_with_fewer_records() {
        let files = files();
        let (mut journal, _) = open(&files, true).unwrap();
        for job in 0..100 {
            journal.write(&Record::HighestJob(JobId(job))).unwrap();
        }
        let before = journal.bytes;
        journal.rewrite([Record::HighestJob(JobId(99))].into_iter()).unwrap();
        assert!(journal.bytes < before && !journal.is_grown());
        journal.spoil();
        assert!(journal.is_grown(), "what cannot be read is not kept");
        journal.rewrite([Record::HighestJob(JobId(99))].into_iter()).unwrap();
        assert!(!journal.is_grown());
        journal.write(&listens("a:1")).unwrap();
        let (_, past) = open(&files, false).unwrap();
        assert_eq!(
            (past.address.as_deref(), past.numbers.highest()),
            (Some("a:1"), JobId(99))
        );
    }

    #[test]
    fn a_daemon_that_dies_while_it_rewrites_leaves_the_journal_as_it_was() {
        let files = files();
        let (mut journal, _) = open(&files, true).unwrap();
        journal.write(&Record::HighestJob(JobId(7))).unwrap();
        // All but the generation is there.
        let mut content = vec![0; GENERATION_BYTES];
        content.extend(head().into_bytes());
        encode(&Record::HighestJob(JobId(8)), &mut content).unwrap();
        journal.files[1].write_all_at(&content, 0).unwrap();
        let (_, past) = open(&files, false).unwrap();
        assert_eq!(past.numbers.highest(), JobId(7));
    }
    #[test]
    fn the_number_of_a_boot_is_above_all_in_the_journal_whatever_the_clock_says() {
        let files = files();
        let (mut journal, past) = open(&files, true).unwrap();
        assert_eq!(past.next_boot(Moment(5)), Moment(5));
        journal.write(&Record::Boot(900)).unwrap();
        journal.write(&Record::Boot(40)).unwrap();
        let (mut journal, past) = open(&files, false).unwrap();
        for (clock, number) in [(0, 901), (900, 901), (2000, 2000)] {
            assert_eq!(past.next_boot(Moment(clock)), Moment(number), "{clock}");
        }
        journal.write(&Record::Boot(u64::MAX)).unwrap();
        let (_, past) = open(&files, false).unwrap();
        assert_eq!(past.next_boot(Moment(5)), Moment(u64::MAX));
    }

    fn damage(content: &mut Vec<u8>, random: &mut Random) {
        let at = random.index(content.len());
        match random.below(4) {
            _ if content.is_empty() => {}
            0 => content.truncate(at),
            1 => content[at] ^= 1 << random.below(8),
            2 => content[at..].iter_mut().for_each(|byte| *byte = random.number() as u8),
            _ => {
                let foreign: Vec<u8> = (0..random.below(40)).map(|_| random.number() as u8).collect();
                content.splice(at..at, foreign);
            }
        }
    }

    #[test]
    fn whatever_befell_a_journal_what_is_read_of_it_is_read_again_with_what_is_written_after() {
        // Names of methods are checked when they are read.
        let samples = Samples::trying(&["merge-p2p-sync"]).of::<Record>();
        let records: Vec<Record> = samples.into_iter().map(|sample| sample.value).collect();
        let mut random = Random::new(22);
        let mut opened = 0;
        for round in 0..500 {
            let files = files();
            let mut journal = Journal::open(inherited(&files), true, |_| ()).unwrap();
            for _ in 0..random.below(9) {
                if random.one_in(6) {
                    journal.rewrite(records.iter().take(3).cloned()).unwrap();
                }
                journal.write(&random.pick(&records).unwrap()).unwrap();
            }
            for file in &files {
                let mut content = read(file).unwrap();
                damage(&mut content, &mut random);
                file.set_len(0).unwrap();
                file.write_all_at(&content, 0).unwrap();
            }
            let mut known = Vec::new();
            let Ok(mut journal) = Journal::open(inherited(&files), false, |record| known.push(record)) else {
                continue;
            };
            opened += 1;
            journal.write(&listens("a:1")).unwrap();
            known.push(listens("a:1"));
            let mut again = Vec::new();
            Journal::open(inherited(&files), false, |record| again.push(record)).unwrap();
            // Numbers that are none are not equal to themselves.
            assert_eq!(format!("{again:?}"), format!("{known:?}"), "round {round}");
        }
        assert!(opened > 100, "{opened}");
    }
}
