//! `stacks`: where the ranks of a job are in their programs, as a tree of ranks that share frames, and what each waits
//! for.

use super::{messages, ps};
use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::rank_words::number;
use crate::{lookup, output};
use pcm_core::stacks::{Branch, frame_words, tree};
use pcm_core::stuck::rank_list;
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::ids::{JobId, Rank};
use pcm_proto::job::JobStatus;
use pcm_proto::rank_snapshot::{CallLook, RankLook};
use pcm_proto::stack::{RankStack, ThreadStack};
use serde::Serialize;
use std::collections::BTreeMap;

const EXAMPLE: &str = "\
Each rank is stopped for less than a millisecond, as a rule. Frames of MPI and of libpcm are left out. Lines need a
program that was compiled with -g, or Python 3.11 to 3.13. 'pcmctl ps JOB --stuck' looks twice and says who waits for
whom.

Example:
  pcmctl stacks 1
  pcmctl stacks heat2d --rank 3 --json";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The job, by number or name
    job: String,
    /// Only this rank
    #[arg(long, value_name = "R")]
    rank: Option<u32>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    stack: &'a RankStack,
    call: Option<&'a CallLook>,
}

#[derive(Serialize)]
struct Document<'a> {
    job: JobId,
    name: &'a str,
    ranks: Vec<Row<'a>>,
    tree: &'a [Branch],
}

/// Reads the stacks of a job's ranks once.
pub(super) async fn read(
    link: &mut Link,
    job: JobId,
    rank: Option<Rank>,
) -> Result<(JobStatus, Vec<RankStack>), Failure> {
    match link.ask(ControlToDaemon::Stacks { job, rank }, ASK_DEADLINE).await? {
        DaemonToControl::Stacks { status, ranks } => Ok((status, ranks)),
        other => Err(Failure::unexpected("Stacks", &other)),
    }
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let mut link = Link::open(cluster).await?;
    let job = lookup::job(&mut link, &args.job).await?;
    let (status, stacks) = read(&mut link, job, args.rank.map(Rank)).await?;
    if let Some(rank) = args.rank.filter(|_| stacks.is_empty()) {
        let message = format!("job {job} has no rank {rank}: 'pcmctl ps {job}' lists its ranks");
        return Err(Failure::usage(message));
    }
    let (_, looks) = messages::look(&mut link, job).await?;
    let calls: BTreeMap<u32, &CallLook> = looks.iter().filter_map(call_of).collect();
    let tree = tree(&stacks);
    if args.json {
        let rows = stacks.iter().map(|stack| Row {
            call: calls.get(&stack.rank.0).copied(),
            stack,
        });
        let rows = rows.collect();
        output::print_json(&Document {
            job,
            name: &status.name,
            ranks: rows,
            tree: &tree,
        })?;
    } else {
        output::print(&format!("{}{}", ps::head(&status), text(&stacks, &tree, &calls)))?;
    }
    Ok(0)
}

fn call_of(look: &RankLook) -> Option<(u32, &CallLook)> {
    Some((look.rank.0, look.call.as_ref()?))
}

fn text(stacks: &[RankStack], tree: &[Branch], calls: &BTreeMap<u32, &CallLook>) -> String {
    let mut text = String::new();
    for branch in tree {
        add_branch(&mut text, branch, 0, calls);
    }
    for rank in stacks {
        let others = rank.stack.threads.iter().filter(|thread| !thread.is_main);
        for thread in others.filter(|thread| !thread.frames.is_empty()) {
            text += &thread_line(rank.rank.0, thread);
        }
    }
    let mut notes: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for rank in stacks {
        let of_threads = rank.stack.threads.iter().filter(|thread| thread.is_main);
        let of_threads = of_threads.filter_map(|thread| thread.note.as_deref());
        for note in rank.stack.note.as_deref().into_iter().chain(of_threads) {
            notes.entry(note).or_default().push(rank.rank.0);
        }
    }
    for (note, ranks) in notes {
        text += &format!("{}: {note}\n", rank_list(&ranks));
    }
    let longest = stacks.iter().map(|rank| rank.stack.stopped_us).max().unwrap_or(0);
    text + &format!("each rank was stopped for at most {longest} us\n")
}

/// A frame, its ranks, and behind the innermost one what they wait for. A frame that all ranks share and that calls one
/// other does not indent further, so that a deep stack stays readable.
fn add_branch(text: &mut String, branch: &Branch, depth: usize, calls: &BTreeMap<u32, &CallLook>) {
    let indent = "  ".repeat(depth);
    *text += &format!("{indent}{}  [{}]\n", branch.frame, rank_list(&branch.ranks));
    let goes_on = |rank: &&u32| branch.called.iter().any(|one| one.ranks.contains(rank));
    let mut waits: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for rank in branch.ranks.iter().filter(|rank| !goes_on(rank)) {
        if let Some(call) = calls.get(rank) {
            waits.entry(call_words(call)).or_default().push(*rank);
        }
    }
    for (words, ranks) in waits {
        *text += &format!("{indent}  {}: {words}\n", rank_list(&ranks));
    }
    for one in &branch.called {
        add_branch(text, one, depth + 1, calls);
    }
}

/// `Recv from 3, tag 7, 8 bytes, for 12 s`.
fn call_words(call: &CallLook) -> String {
    let mut words = format!("in {}", call.function);
    if let Some(peer) = call.peer {
        words += &format!(", rank {}", number(peer));
    }
    if let Some(tag) = call.tag {
        words += &format!(", tag {}", number(tag));
    }
    if call.bytes.0 > 0 {
        words += &format!(", {} bytes", call.bytes.0);
    }
    if call.communicator > 1 {
        words += &format!(", communicator {:x}", call.communicator);
    }
    words + &format!(", for {:.1} s", call.since_ms / 1000.0)
}

fn thread_line(rank: u32, thread: &ThreadStack) -> String {
    let frames: Vec<String> = thread.frames.iter().map(frame_words).collect();
    format!("rank {rank}, thread {}: {}\n", thread.thread, frames.join(" < "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{Bytes, NodeName, ProcessId};
    use pcm_proto::stack::{ProcessStack, StackFrame};

    fn frame(function: &str, line: u32) -> StackFrame {
        StackFrame {
            function: Some(function.to_owned()),
            file: Some("/src/heat2d.c".to_owned()),
            line: Some(line),
            module: "heat2d".to_owned(),
        }
    }

    fn rank(number: u32, frames: Vec<StackFrame>) -> RankStack {
        RankStack {
            rank: Rank(number),
            process: ProcessId(number),
            node: NodeName::new("n1").unwrap(),
            stack: ProcessStack {
                threads: vec![ThreadStack {
                    is_main: true,
                    frames,
                    ..ThreadStack::default()
                }],
                ..ProcessStack::default()
            },
        }
    }

    #[test]
    fn ranks_that_share_frames_share_lines_and_waits_stand_below() {
        let waits = |number| rank(number, vec![frame("exchange", 88), frame("main", 12)]);
        let stacks = [waits(0), rank(1, vec![frame("write", 4), frame("main", 12)]), waits(2)];
        let call = CallLook {
            function: "Recv".to_owned(),
            peer: Some(1),
            tag: Some(-1),
            bytes: Bytes(8),
            communicator: 0,
            since_ms: 12_000.0,
        };
        let calls = BTreeMap::from([(0, &call), (2, &call)]);
        let text = text(&stacks, &tree(&stacks), &calls);
        let expected = "main() heat2d.c:12  [ranks 0-2]\n  exchange() heat2d.c:88  [ranks 0, 2]\n    \
                        ranks 0, 2: in Recv, rank 1, tag any, 8 bytes, for 12.0 s\n  write() heat2d.c:4  [rank 1]\n";
        assert!(text.starts_with(expected), "{text}");
    }
}
