//! Says in words why ranks are stuck: what was called differently, what was never sent, who waits in a circle.

use super::view::{Turn, View};
use super::waits::{Difference, Wait, Why};
use pcm_proto::page::ANY;
use pcm_proto::rank_snapshot::{CallLook, CollectiveLook};
use pcm_proto::record::JOB;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Most findings of one report; a program with more errors has one that matters.
const FINDINGS_MAX: usize = 16;
/// Unmatched messages named in one finding.
const MESSAGES_NAMED_MAX: usize = 3;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Ranks called different functions as the same collective.
    DifferentCollectives,
    /// Ranks named different roots.
    WrongRoot,
    /// Ranks gave different sizes.
    MismatchedSize,
    /// A message is waited for that is not sent.
    ReceiveWithoutSend,
    /// Ranks wait for each other in a circle.
    Cycle,
    /// A rank that is waited for has finished.
    Finished,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub kind: Kind,
    /// The ranks that have part in it.
    pub ranks: Vec<u32>,
    /// What happened, to whom, in sentences.
    pub text: String,
}

/// The judgement on a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What is wrong, causes first.
    pub findings: Vec<Finding>,
    /// Ranks that nobody can release.
    pub stuck: Vec<u32>,
    /// Ranks that wait for ranks that may go on.
    pub waiting: Vec<u32>,
    /// Of each of these, the ranks at the end of its waiting: nothing is known that they wait for.
    pub held_by: BTreeMap<u32, Vec<u32>>,
    /// Ranks looked at.
    pub ranks: u32,
}

pub(super) fn explain(view: &View<'_>, stuck: &[&(u32, Wait)]) -> Vec<Finding> {
    let waits: BTreeMap<u32, &Wait> = stuck.iter().map(|(rank, wait)| (*rank, wait)).collect();
    let mut findings = mismatches(view, &waits);
    findings.extend(lone_waits(view, &waits));
    let explained: BTreeSet<u32> = findings.iter().flat_map(|finding| finding.ranks.clone()).collect();
    let cycles = cycles(&waits).into_iter();
    // A circle through a rank whose error is known is only its consequence.
    let cycles = cycles.filter(|cycle| !cycle.iter().any(|rank| explained.contains(rank)));
    findings.extend(cycles.map(|cycle| cycle_finding(view, &waits, &cycle)));
    findings.truncate(FINDINGS_MAX);
    findings
}

fn mismatches(view: &View<'_>, waits: &BTreeMap<u32, &Wait>) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for (rank, wait) in waits {
        let Why::Mismatch {
            sequence, difference, ..
        } = wait.why
        else {
            continue;
        };
        let communicator = view.collective(*rank).map_or(0, |own| own.communicator);
        if !seen.insert((communicator, sequence)) {
            continue;
        }
        let members = view.members(communicator).iter();
        let turns = members.filter_map(|member| match view.turn(*member, communicator, sequence) {
            Turn::Begun(theirs) => Some((*member, theirs)),
            _ => None,
        });
        let turns: Vec<(u32, &CollectiveLook)> = turns.collect();
        let mut groups: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (member, theirs) in &turns {
            groups
                .entry(collective_words(theirs, difference))
                .or_default()
                .push(*member);
        }
        let said = groups
            .iter()
            .map(|(words, ranks)| format!("{} called {words}", rank_list(ranks)));
        findings.push(Finding {
            kind: match difference {
                Difference::Function => Kind::DifferentCollectives,
                Difference::Root => Kind::WrongRoot,
                Difference::Size => Kind::MismatchedSize,
            },
            ranks: turns.iter().map(|(member, _)| *member).collect(),
            text: format!(
                "as collective number {sequence} on {}, {}: all its ranks must make the same call",
                communicator_words(view, communicator),
                said.collect::<Vec<_>>().join(", ")
            ),
        });
    }
    findings
}

fn collective_words(one: &CollectiveLook, difference: Difference) -> String {
    match (difference, one.root) {
        (Difference::Function, _) | (Difference::Root, None) => one.function.clone(),
        (Difference::Root, Some(root)) => format!("{} with root {root}", one.function),
        (Difference::Size, _) => format!("{} with {} bytes", one.function, one.bytes.0),
    }
}

/// Waits for messages of ranks that have finished, or that were sent otherwise.
fn lone_waits(view: &View<'_>, waits: &BTreeMap<u32, &Wait>) -> Vec<Finding> {
    let found = waits.iter().filter_map(|(rank, wait)| {
        if matches!(wait.why, Why::Mismatch { .. }) {
            return None;
        }
        let words = wait_words(view, *rank, wait);
        if let Some(peer) = wait.of.iter().find(|peer| view.is_finished(**peer)) {
            return Some(Finding {
                kind: Kind::Finished,
                ranks: vec![*rank, *peer],
                text: format!("{words}, but rank {peer} has called Finalize"),
            });
        }
        let [peer] = wait.of.as_slice() else { return None };
        if wait.why != Why::Message {
            return None;
        }
        let otherwise = sent_otherwise(view, *peer, *rank)?;
        Some(Finding {
            kind: Kind::ReceiveWithoutSend,
            ranks: vec![*rank, *peer],
            text: format!("{words}; rank {peer} {otherwise}, which no receive takes"),
        })
    });
    found.collect()
}

/// Messages `from` sent to `to` that its receive does not match.
fn sent_otherwise(view: &View<'_>, from: u32, to: u32) -> Option<String> {
    let (sent, posted) = view.traffic(from, to)?;
    let call = view.call(to)?;
    // The receive in progress is among those posted, a probe is not.
    let taken = if call.function.contains("robe") {
        posted
    } else {
        posted.saturating_sub(1)
    };
    let open = sent.checked_sub(taken).filter(|open| *open > 0)?;
    let sends = view.look(from)?.sends.iter().rev();
    let to_me = sends.filter(|send| u32::try_from(send.peer) == Ok(to));
    let differs = |send: &&pcm_proto::rank_snapshot::SendLook| {
        (call.tag != Some(ANY) && call.tag != Some(send.tag)) || send.communicator != call.communicator
    };
    let named: Vec<String> = to_me
        .take(
            usize::try_from(open)
                .unwrap_or(MESSAGES_NAMED_MAX)
                .min(MESSAGES_NAMED_MAX),
        )
        .filter(differs)
        .map(|send| {
            let communicator = communicator_words(view, send.communicator);
            let on = if send.communicator == call.communicator {
                String::new()
            } else {
                format!(" on {communicator}")
            };
            format!("one of tag {}{on} ({} bytes)", send.tag, send.bytes.0)
        })
        .collect();
    (!named.is_empty()).then(|| format!("sent it {}", named.join(", ")))
}

/// Circles among the stuck, each once, from its lowest rank.
fn cycles(waits: &BTreeMap<u32, &Wait>) -> Vec<Vec<u32>> {
    let mut done = BTreeSet::new();
    let mut cycles = Vec::new();
    for start in waits.keys() {
        let mut path: Vec<u32> = Vec::new();
        let mut rank = *start;
        // A path visits no rank twice, so it ends after as many steps as there are ranks.
        while !done.contains(&rank) {
            done.insert(rank);
            path.push(rank);
            let next = waits
                .get(&rank)
                .and_then(|wait| wait.of.iter().find(|of| waits.contains_key(of)));
            let Some(next) = next else { break };
            if let Some(place) = path.iter().position(|passed| passed == next) {
                let mut cycle = path.split_off(place);
                let lowest = (0..cycle.len()).min_by_key(|place| cycle[*place]).unwrap_or(0);
                cycle.rotate_left(lowest);
                cycles.push(cycle);
                break;
            }
            rank = *next;
        }
    }
    cycles
}

fn cycle_finding(view: &View<'_>, waits: &BTreeMap<u32, &Wait>, cycle: &[u32]) -> Finding {
    let of_cycle = || {
        cycle
            .iter()
            .filter_map(|rank| waits.get(rank).map(|wait| (*rank, *wait)))
    };
    let said: Vec<String> = of_cycle().map(|(rank, wait)| wait_words(view, rank, wait)).collect();
    let has = |is: fn(&Why) -> bool| of_cycle().any(|(_, wait)| is(&wait.why));
    let is_message = has(|why| *why == Why::Message);
    let is_collective = has(|why| matches!(why, Why::Collective { .. }));
    let kind = if is_message && is_collective {
        Kind::ReceiveWithoutSend
    } else {
        Kind::Cycle
    };
    let end = match kind {
        Kind::ReceiveWithoutSend => "the message is never sent",
        _ => "each waits for the next, the last for the first",
    };
    Finding {
        kind,
        ranks: cycle.to_vec(),
        text: format!("{}: {end}", said.join("; ")),
    }
}

fn wait_words(view: &View<'_>, rank: u32, wait: &Wait) -> String {
    let Some(call) = view.call(rank) else {
        return format!("rank {rank} waits");
    };
    let what = match &wait.why {
        Why::Message => format!("a message{} from {}", tag_words(call), whom(call, wait)),
        Why::Taken => format!(
            "{} to take a message{} of {} bytes",
            rank_list(&wait.of),
            tag_words(call),
            call.bytes.0
        ),
        Why::Requests => format!("messages to or from {}", rank_list(&wait.of)),
        Why::Collective { sequence } | Why::Mismatch { sequence, .. } => format!(
            "{} to begin collective number {sequence} on {}",
            rank_list(&wait.of),
            communicator_words(view, call.communicator)
        ),
    };
    format!(
        "rank {rank} waits in {} for {what}, since {:.1} s",
        call.function,
        call.since_ms / 1000.0
    )
}

fn whom(call: &CallLook, wait: &Wait) -> String {
    if call.peer == Some(ANY) {
        "anybody".to_owned()
    } else {
        rank_list(&wait.of)
    }
}

fn tag_words(call: &CallLook) -> String {
    match call.tag {
        None | Some(ANY) => String::new(),
        Some(tag) => format!(" of tag {tag}"),
    }
}

fn communicator_words(view: &View<'_>, communicator: u64) -> String {
    match (communicator, view.members(communicator)) {
        (JOB, _) => "MPI_COMM_WORLD".to_owned(),
        (_, []) => "another communicator".to_owned(),
        (_, ranks) => format!("the communicator of {}", rank_list(ranks)),
    }
}

/// `rank 3`, `ranks 0, 4-7`.
pub fn rank_list(ranks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *rank => *last = *rank,
            _ => runs.push((*rank, *rank)),
        }
    }
    let words: Vec<String> = runs
        .iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first}, {last}"),
            _ => format!("{first}-{last}"),
        })
        .collect();
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", words.join(", "))
}
