//! How much memory this process may still take, so that an array that is too large is an error where the kernel would
//! hand out pages on credit and later end a process. Reads /proc and the control groups; never allocates for the
//! array itself.

use super::MemoryError;
use proc_files::OwnGroups;
use std::{fs, path::Path};

/// What is left, and what says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Available {
    pub bytes: u64,
    /// What sets the limit.
    pub limit: &'static str,
}

/// Accounts for the pages promised to arrays, which the kernel counts only when they are first touched.
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    /// What was available before the first promise, if anything says so.
    at_first: Option<Available>,
    promised: u64,
    /// Bytes that are taken already and not yet promised.
    taken: u64,
    /// Ranks on this host, which will take as much each.
    sharers: u64,
}

impl Capacity {
    /// For a process beside which `sharers - 1` others on the same host take as much.
    pub fn shared_by(sharers: u32) -> Self {
        Self {
            sharers: u64::from(sharers.max(1)),
            ..Self::default()
        }
    }

    /// Looks afresh: what was promised before has been touched, and shows in what the system says.
    pub fn renew(&mut self) {
        (self.at_first, self.promised, self.taken) = (None, 0, 0);
    }

    /// So many bytes of what will be promised are taken already, and missing in what the system says.
    pub fn has_taken(&mut self, bytes: u64) {
        self.taken = self.taken.saturating_add(bytes);
    }

    /// Promises bytes, or says why they cannot be had.
    pub fn promise(&mut self, bytes: u64) -> Result<(), MemoryError> {
        self.promise_of(bytes, available())
    }

    /// Takes a promise back, after the memory was given back or never taken.
    pub fn release(&mut self, bytes: u64) {
        self.promised = self.promised.saturating_sub(bytes);
    }

    fn promise_of(&mut self, bytes: u64, now: Option<Available>) -> Result<(), MemoryError> {
        let taken = self.taken.min(bytes);
        let bytes = bytes - taken;
        let at_first = *self.at_first.get_or_insert(now.unwrap_or(Available {
            bytes: u64::MAX,
            limit: "no limit known",
        }));
        let promised = self.promised.saturating_add(bytes);
        let views = [(promised, Some(at_first)), (bytes, now)];
        for (wanted, available) in views {
            let Some(Available {
                bytes: available,
                limit,
            }) = available
            else {
                continue;
            };
            if wanted.saturating_mul(self.sharers.max(1)) > available {
                return Err(MemoryError::NotAvailable {
                    wanted,
                    available: available / self.sharers.max(1),
                    limit,
                });
            }
        }
        self.promised = promised;
        self.taken -= taken;
        Ok(())
    }
}

/// The tightest of: memory the host has free, and what each control group of this process has left. None where the
/// system says nothing.
fn available() -> Option<Available> {
    let host = proc_files::available_bytes().map(|bytes| bytes + proc_files::free_swap_bytes().unwrap_or(0));
    let own = OwnGroups::read();
    let groups = [
        (own.unified(), GroupVersion::Two),
        (own.of_controller("memory"), GroupVersion::One),
    ];
    let limits = groups
        .iter()
        .filter_map(|(group, version)| Some((group.as_ref()?, *version)));
    let groups = limits.flat_map(|(group, version)| {
        group
            .and_above()
            .filter_map(move |folder| group_free(folder, version))
            .collect::<Vec<_>>()
    });
    host.map(|bytes| Available {
        bytes,
        limit: "free memory of this host",
    })
    .into_iter()
    .chain(groups.map(|bytes| Available {
        bytes,
        limit: "memory limit of this control group",
    }))
    .min_by_key(|available| available.bytes)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupVersion {
    One,
    Two,
}

/// What a group has left; file pages it holds can be taken back. None where it sets no limit.
fn group_free(directory: &Path, version: GroupVersion) -> Option<u64> {
    let (limit, usage) = match version {
        GroupVersion::Two => ("memory.max", "memory.current"),
        GroupVersion::One => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    };
    let number = |name: &str| {
        fs::read_to_string(directory.join(name))
            .ok()?
            .trim()
            .parse::<u64>()
            .ok()
    };
    let (limit, usage) = (number(limit)?, number(usage)?);
    let statistics = fs::read_to_string(directory.join("memory.stat")).unwrap_or_default();
    let file_pages: u64 = statistics
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| matches!(*name, "inactive_file" | "active_file"))
        .filter_map(|(_, bytes)| bytes.parse::<u64>().ok())
        .sum();
    Some(limit.saturating_sub(usage.saturating_sub(file_pages)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Option<Available> = Some(Available {
        bytes: 1000,
        limit: "a test",
    });

    #[test]
    fn memory_promised_but_not_yet_touched_is_not_promised_again() {
        let mut capacity = Capacity::shared_by(1);
        capacity.promise_of(700, NOW).expect("it is there");
        let refused = capacity.promise_of(400, NOW).expect_err("1100 of 1000");
        assert!(matches!(refused, MemoryError::NotAvailable { wanted: 1100, .. }));
        capacity.release(700);
        capacity.promise_of(400, NOW).expect("it is free again");
    }

    #[test]
    fn memory_that_was_taken_before_is_promised_without_being_there_once_more() {
        let mut capacity = Capacity::shared_by(1);
        capacity.has_taken(600);
        capacity.promise_of(700, NOW).expect("600 are taken, 100 are there");
        capacity.promise_of(900, NOW).expect("all of 1000");
        assert!(capacity.promise_of(1, NOW).is_err());
        capacity.renew();
        assert!(capacity.promise_of(1001, NOW).is_err());
    }

    #[test]
    fn ranks_of_one_host_share_what_it_has() {
        let mut capacity = Capacity::shared_by(4);
        capacity.promise_of(250, NOW).expect("a quarter each");
        assert!(Capacity::shared_by(4).promise_of(251, NOW).is_err());
    }

    #[test]
    fn a_system_that_says_nothing_sets_no_limit() {
        Capacity::shared_by(1)
            .promise_of(1 << 60, None)
            .expect("nothing forbids it");
    }

    #[test]
    fn free_memory_of_this_host_is_found() {
        assert!(available().is_some_and(|available| available.bytes > 0));
    }

    #[test]
    fn a_group_gives_its_limit_less_what_it_cannot_take_back() {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in [
            ("memory.max", "1000\n"),
            ("memory.current", "600\n"),
            ("memory.stat", "anon 500\ninactive_file 60\nactive_file 40\n"),
        ] {
            fs::write(directory.path().join(name), text).expect("a file");
        }
        assert_eq!(group_free(directory.path(), GroupVersion::Two), Some(500));
        fs::write(directory.path().join("memory.max"), "max\n").expect("a file");
        assert_eq!(group_free(directory.path(), GroupVersion::Two), None);
    }
}
