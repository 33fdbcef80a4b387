//! CPU time that a cluster's own programs take: daemon, agent, and every `pcmctl` that looks. Must never count ranks.

use std::{collections::BTreeMap, fs, path::Path};

/// All of them.
pub(super) const PROGRAMS: [&str; 3] = ["pcm-daemon", "ios-agent", "pcmctl"];

/// CPU nanoseconds so far of each process of these programs of the cluster, by process id. `marks` are its id and its
/// folder, one of which each of them bears in its environment or its arguments.
pub(super) fn so_far(programs: &[&str], marks: &[String]) -> BTreeMap<u32, u64> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = entries.filter_map(|entry| {
        let process = entry.file_name().to_str()?.parse().ok()?;
        let folder = entry.path();
        is_own(&folder, programs, marks).then(|| (process, nanoseconds(&folder)))
    });
    own.collect()
}

/// What was taken between two looks; a process that came between them counts as a whole.
pub(super) fn between(first: &BTreeMap<u32, u64>, second: &BTreeMap<u32, u64>) -> u64 {
    let taken = second
        .iter()
        .map(|(process, now)| now.saturating_sub(first.get(process).copied().unwrap_or(0)));
    taken.sum()
}

fn is_own(process: &Path, programs: &[&str], marks: &[String]) -> bool {
    let read = |name: &str| fs::read(process.join(name)).unwrap_or_default();
    let command = read("comm");
    if !programs
        .iter()
        .any(|program| command.trim_ascii_end() == program.as_bytes())
    {
        return false;
    }
    let said = [read("environ"), read("cmdline")].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    marks.iter().any(|mark| said.iter().any(|text| text.contains(mark)))
}

/// Of all threads; a process that has just ended has taken none.
fn nanoseconds(process: &Path) -> u64 {
    let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let taken = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    taken.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_from_when_it_was_first_seen() {
        let first = BTreeMap::from([(1, 100), (2, 50)]);
        let second = BTreeMap::from([(1, 130), (3, 7)]);
        assert_eq!(between(&first, &second), 37);
    }

    #[test]
    fn time_of_this_process_is_seen_and_others_are_not_its_cluster_s() {
        let own = Path::new("/proc/self");
        let begin = nanoseconds(own);
        while nanoseconds(own) == begin {
            std::hint::spin_loop();
        }
        assert!(so_far(&PROGRAMS, &["no cluster bears this".to_owned()]).is_empty());
    }
}
