//! The sentences that name a culprit's line: who waits where, for whom, and where that one is.

use super::place::{place, state_words};
use crate::stuck::{Report, rank_list};
use pcm_proto::rank_snapshot::{RankLook, Stage};
use pcm_proto::stack::{ProcessStack, RankStack};
use std::collections::BTreeMap;

/// Most sentences; a job with more groups has one that matters.
const SENTENCES_MAX: usize = 16;

/// What is known of the ranks, by rank.
struct Scene<'a> {
    looks: BTreeMap<u32, &'a RankLook>,
    first: BTreeMap<u32, &'a ProcessStack>,
    second: BTreeMap<u32, &'a ProcessStack>,
}

/// Sentences about a judged job; the stacks belong to the two looks.
pub fn verdict(report: &Report, looks: &[RankLook], first: &[RankStack], second: &[RankStack]) -> Vec<String> {
    let scene = Scene {
        looks: looks.iter().map(|look| (look.rank.0, look)).collect(),
        first: by_rank(first),
        second: by_rank(second),
    };
    let mut sentences = scene.of_findings(report);
    sentences.extend(scene.of_waits(report));
    sentences.truncate(SENTENCES_MAX);
    sentences
}

fn by_rank(stacks: &[RankStack]) -> BTreeMap<u32, &ProcessStack> {
    let read = stacks.iter().filter(|one| one.stack.is_read());
    read.map(|one| (one.rank.0, &one.stack)).collect()
}

impl Scene<'_> {
    /// Where the ranks are that have part in what is wrong.
    fn of_findings(&self, report: &Report) -> Vec<String> {
        let sentence = |ranks: &[u32]| {
            let groups = self.groups(ranks);
            let parts: Vec<String> = groups
                .iter()
                .map(|(words, ranks)| format!("{} {} {words}", rank_list(ranks), is(ranks)))
                .collect();
            parts.join("; ")
        };
        let said = report.findings.iter().map(|finding| sentence(&finding.ranks));
        said.filter(|sentence| !sentence.is_empty()).collect()
    }

    /// Who waits for ranks that compute or cannot be judged, and where those are.
    fn of_waits(&self, report: &Report) -> Vec<String> {
        let mut groups: BTreeMap<(String, &[u32]), Vec<u32>> = BTreeMap::new();
        for (rank, culprits) in report.held_by.iter().filter(|(_, culprits)| !culprits.is_empty()) {
            let Some(words) = self.words(*rank) else { continue };
            groups.entry((words, culprits.as_slice())).or_default().push(*rank);
        }
        let sentence = |((words, culprits), ranks): (&(String, &[u32]), &Vec<u32>)| {
            let wait = if ranks.len() == 1 { "waits" } else { "wait" };
            let since = ranks.iter().filter_map(|rank| self.looks.get(rank)?.call.as_ref());
            let since = since.map(|call| call.since_ms).fold(f64::INFINITY, f64::min);
            let since = if since.is_finite() {
                format!("for {:.0} s ", (since / 1000.0).floor())
            } else {
                String::new()
            };
            let held = self.groups(culprits);
            let held: Vec<String> = held
                .iter()
                .map(|(words, ranks)| format!("{}, which {} {words}", rank_list(ranks), is(ranks)))
                .collect();
            let who = if held.is_empty() {
                rank_list(culprits)
            } else {
                held.join(", and ")
            };
            format!("{} {wait} {since}{words} for {who}", rank_list(ranks))
        };
        groups.iter().map(sentence).collect()
    }

    /// Ranks by what is to be said of them.
    fn groups(&self, ranks: &[u32]) -> Vec<(String, Vec<u32>)> {
        let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
        for rank in ranks {
            let Some(words) = self.words(*rank) else { continue };
            match groups.iter_mut().find(|(group, _)| *group == words) {
                Some((_, ranks)) => ranks.push(*rank),
                None => groups.push((words, vec![*rank])),
            }
        }
        groups
    }

    /// Where a rank is: `in exchange() heat2d.c:88 (Recv)`.
    fn words(&self, rank: u32) -> Option<String> {
        let look = self.looks.get(&rank)?;
        let call = look.call.as_ref().map(|call| format!(" ({})", call.function));
        let Some(second) = self.second.get(&rank) else {
            return call.map(|call| format!("in a place that was not read{call}"));
        };
        let is_in_call = look.call.is_some() || look.stage == Stage::Finished;
        let first = self.first.get(&rank).copied();
        let place = place(first, second, look.call.is_some());
        let state = state_words(second)
            .map(|state| format!(", {state}"))
            .unwrap_or_default();
        let call = call.unwrap_or_default();
        Some(match place {
            Some(place) => format!("in {place}{call}{state}"),
            None if is_in_call || !state.is_empty() => format!("in a place that cannot be told{call}{state}"),
            None => "outside of MPI, in a place that cannot be told".to_owned(),
        })
    }
}

fn is(ranks: &[u32]) -> &'static str {
    if ranks.len() == 1 { "is" } else { "are" }
}
