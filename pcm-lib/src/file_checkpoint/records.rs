//! How rank 0 learns what the others wrote, without MPI, which belongs to the program meanwhile: each rank leaves a
//! record in the directory of the draft, which they share anyway. They are gone before the checkpoint is published.

use pcm_checkpoint::{PartRecord, Progress};
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// What a rank wrote, by region, or why it could not.
pub(super) type Outcome = Result<Vec<(u32, PartRecord)>, String>;

/// How often rank 0 looks for records: each look is one open of a file that is likely not there.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Looks between two at what the others have written so far.
const LOOKS_AT_SIZES: u32 = 25;

/// What an empty record says.
const UNSAID: &str = "it had no room for its part, nor for a word why: is the file system full?";

/// Leaves the record of one rank: an empty one where the file system has no room for its bytes.
pub(super) fn leave(directory: &Path, rank: u32, outcome: &Outcome) -> io::Result<()> {
    let text = rmp_serde::to_vec(outcome).map_err(io::Error::other)?;
    let (path, begun) = (path(directory, rank), directory.join(format!(".begun{rank:05}")));
    // It appears whole.
    let left = fs::write(&begun, text).and_then(|()| fs::rename(&begun, &path));
    left.or_else(|_| {
        _ = fs::remove_file(&begun);
        fs::write(&path, [])
    })
}

/// Waits for everybody's record and removes it. Fails with the first failure, when nobody writes any more; and when
/// nobody has written anything for `stall_max`. The outcome of rank 0 is its own.
pub(super) fn collect(
    directory: &Path,
    ranks: u32,
    own: Outcome,
    progress: &Progress,
    stall_max: Duration,
) -> Result<Vec<Vec<(u32, PartRecord)>>, String> {
    let mut all = vec![own.map_err(|problem| format!("rank 0: {problem}"))];
    let (mut seen, mut since, mut looks) = (0, Instant::now(), 0_u32);
    for rank in 1..ranks {
        loop {
            if let Some(outcome) = take(directory, rank) {
                all.push(outcome.map_err(|problem| format!("rank {rank}: {problem}")));
                since = Instant::now();
                break;
            }
            looks += 1;
            if looks.is_multiple_of(LOOKS_AT_SIZES) {
                let written = bytes_in(directory);
                if written > seen {
                    progress.add(written - seen);
                    (seen, since) = (written, Instant::now());
                }
            }
            if progress.is_called_off() {
                return Err("it was aborted".to_owned());
            }
            if since.elapsed() > stall_max {
                return Err(format!(
                    "rank {rank} has written nothing for {} s: do all ranks share the directory?",
                    stall_max.as_secs()
                ));
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
    all.into_iter().collect()
}

fn take(directory: &Path, rank: u32) -> Option<Outcome> {
    let path = path(directory, rank);
    let bytes = fs::read(&path).ok()?;
    let outcome = if bytes.is_empty() {
        Err(UNSAID.to_owned())
    } else {
        pcm_proto::unpack::from_slice(&bytes).unwrap_or_else(|error| Err(format!("its record is unreadable: {error}")))
    };
    // One that stays is removed with the draft, or is a file more in the checkpoint.
    _ = fs::remove_file(&path);
    Some(outcome)
}

fn path(directory: &Path, rank: u32) -> PathBuf {
    directory.join(format!(".written{rank:05}"))
}

fn bytes_in(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let lengths = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
    lengths.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_millis(200);

    #[test]
    fn rank_0_has_what_everybody_left_and_nothing_of_it_stays() {
        let folder = tempfile::tempdir().unwrap();
        leave(folder.path(), 2, &Ok(Vec::new())).unwrap();
        leave(folder.path(), 1, &Ok(Vec::new())).unwrap();
        let all = collect(folder.path(), 3, Ok(Vec::new()), &Progress::default(), STALL).unwrap();
        assert_eq!((all.len(), fs::read_dir(folder.path()).unwrap().count()), (3, 0));
    }

    #[test]
    fn a_failure_names_its_rank_and_a_rank_that_leaves_nothing_is_not_waited_for_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let collected = || collect(folder.path(), 3, Ok(Vec::new()), &Progress::default(), STALL).unwrap_err();
        leave(folder.path(), 1, &Err("no room".to_owned())).unwrap();
        leave(folder.path(), 2, &Err("no room either".to_owned())).unwrap();
        assert_eq!(collected(), "rank 1: no room");
        leave(folder.path(), 1, &Ok(Vec::new())).unwrap();
        assert!(collected().contains("rank 2 has written nothing"));
    }

    #[test]
    fn a_rank_without_room_for_its_record_leaves_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        // No file of this name can be written, as on a full file system.
        fs::create_dir(folder.path().join(".begun00001")).unwrap();
        leave(folder.path(), 1, &Ok(Vec::new())).unwrap();
        let collected = collect(folder.path(), 2, Ok(Vec::new()), &Progress::default(), STALL);
        assert_eq!(collected.unwrap_err(), format!("rank 1: {UNSAID}"));
    }

    #[test]
    fn who_still_writes_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=8_usize {
                    thread::sleep(STALL * 2);
                    fs::write(folder.path().join("part"), vec![0; round * 100]).unwrap();
                }
                leave(folder.path(), 1, &Ok(Vec::new())).unwrap();
            });
            let progress = Progress::default();
            let all = collect(folder.path(), 2, Ok(Vec::new()), &progress, STALL * 6);
            assert_eq!(all.unwrap().len(), 2);
            assert!(progress.written() > 0);
        });
    }
}
