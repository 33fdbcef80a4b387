//! What ranks record of their calls while somebody traces their job: switched on and read through their shared pages. Keeps
//! nothing: who traces says where to go on.

use super::daemon::Daemon;
use super::ps::monotonic_ns;
use pcm_proto::ids::{JobId, NodeName, ProcessId, Rank};
use pcm_proto::page::Page;
use pcm_proto::trace::{HELD, ITERATION, TraceChunk};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Ranks record for so long after they were asked last: a few rounds of asking, and little to pay for a reader that
/// was killed.
const RECORD_FOR: Duration = Duration::from_secs(3);

impl Daemon {
    /// Lets the processes of the job here record on, or stop, and tells what they recorded.
    pub(super) fn own_traces(
        &self,
        job: JobId,
        after: &[(ProcessId, u64)],
        is_last: bool,
        entries_max: u32,
    ) -> Vec<TraceChunk> {
        let Some(part) = self.parts.get(&job) else {
            return Vec::new();
        };
        let after: BTreeMap<ProcessId, u64> = after.iter().copied().collect();
        let now_ns = monotonic_ns();
        let until_ns = match is_last {
            true => 0,
            false => now_ns + RECORD_FOR.as_nanos() as u64,
        };
        let epoch_offset_ns = (self.out.now().0 * 1000).wrapping_sub(now_ns) as i64;
        let each_max = entries_max as usize / part.locals.len().max(1);
        let chunks = part.locals.iter().map(|(process, local)| {
            let page = local.handle.page().page();
            page.trace_until(until_ns);
            let owner = (*process, self.own.clone(), epoch_offset_ns);
            chunk(page, owner, after.get(process).copied(), each_max)
        });
        chunks.collect()
    }
}

/// The owner is the process, its node, and what makes the node's time that of the world.
fn chunk(page: &Page<'_>, owner: (ProcessId, NodeName, i64), from: Option<u64>, each_max: usize) -> TraceChunk {
    let (process, node, epoch_offset_ns) = owner;
    let ring = &page.head.trace;
    let read = match from {
        Some(from) => ring.read(from, each_max),
        None => ring.read(ring.written(), 0),
    };
    let functions: BTreeSet<u16> = read.entries.iter().map(|entry| entry.function).collect();
    let calls = functions
        .into_iter()
        .filter(|function| !matches!(*function, ITERATION | HELD));
    TraceChunk {
        process,
        rank: Rank(page.head.progress.job_rank.load(Relaxed) as u32),
        node,
        next: read.next,
        lost: read.lost,
        has_more: read.has_more,
        epoch_offset_ns,
        names: calls
            .map(|function| (function, page.function_name(usize::from(function))))
            .collect(),
        entries: read.entries.iter().map(|entry| page.trace_entry(entry)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::{PageFile, PageMap};
    use std::os::fd::AsFd;

    #[test]
    fn who_begins_to_trace_gets_what_is_recorded_from_then_on() {
        let file = PageFile::new(4).unwrap();
        let map = PageMap::new(file.as_fd()).unwrap();
        let page = map.page();
        page.set_function_name(3, "Bcast");
        page.head.progress.scale.store(1 << 32, Relaxed);
        page.trace_until(1_000);
        let call = |begin| {
            page.head.call.enter(3, 2, 1, 8, 1, begin);
            page.head.trace.write(&page.head.call.trace_entry(begin, 5));
            page.head.call.leave(5);
        };
        call(10);
        let owner = || (ProcessId(4), NodeName::new("n0").unwrap(), 0);
        let first = chunk(page, owner(), None, 10);
        assert_eq!((first.entries.len(), first.next, first.lost), (0, 1, 0));
        call(20);
        page.trace_mark(ITERATION, 30, 30, 7);
        let second = chunk(page, owner(), Some(first.next), 10);
        assert_eq!(second.names, [(3, "Bcast".to_owned())]);
        let seen: Vec<_> = second
            .entries
            .iter()
            .map(|entry| (entry.function, entry.begin_ns, entry.bytes))
            .collect();
        assert_eq!(seen, [(3, 20, 8), (ITERATION, 30, 7)]);
        assert!(chunk(page, owner(), Some(second.next), 10).entries.is_empty());
    }
}
