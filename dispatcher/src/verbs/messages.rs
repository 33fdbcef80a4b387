//! `messages`: what the ranks of a job have sent each other: the matrix, and what was sent and not asked for.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::lookup;
use crate::output::{self, Align, Table};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::ids::{Epoch, JobId};
use pcm_proto::job::JobStatus;
use pcm_proto::look::RankLook;
use serde::Serialize;
use std::collections::BTreeMap;

const EXAMPLE: &str = "\
Example:
  pcmctl messages 1
  pcmctl messages heat2d --json";

/// Pairs a person is shown; `--json` has all.
const PAIRS_SHOWN_MAX: usize = 40;

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The job, by number or name
    job: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What one rank sent to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Pair {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Receives of `to` that name `from`.
    posted: u64,
    /// Messages that no receive has asked for yet; none where `to` also takes messages from anybody.
    unmatched: Option<u64>,
}

#[derive(Serialize)]
struct Document<'a> {
    job: JobId,
    name: &'a str,
    epoch: Epoch,
    size: u32,
    pairs: &'a [Pair],
    peers_left_out: u32,
}

/// One look at all ranks of a job.
pub(crate) async fn look(link: &mut Link, job: JobId) -> Result<(JobStatus, Vec<RankLook>), Failure> {
    match link.ask(ControlToDaemon::Look { job }, ASK_DEADLINE).await? {
        DaemonToControl::Look { status, ranks } => Ok((status, ranks)),
        other => Err(Failure::unexpected("Look", &other)),
    }
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let mut link = Link::open(cluster).await?;
    let job = lookup::job(&mut link, &args.job).await?;
    let (status, ranks) = look(&mut link, job).await?;
    let pairs = pairs(&ranks);
    let peers_left_out = ranks.iter().map(|rank| rank.peers_left_out).sum();
    if args.json {
        output::print_json(&Document {
            job,
            name: &status.name,
            epoch: status.epoch,
            size: status.size,
            pairs: &pairs,
            peers_left_out,
        })?;
    } else {
        output::print(&text(&pairs, peers_left_out))?;
    }
    Ok(0)
}

/// Every pair with traffic, by sender and receiver.
pub(crate) fn pairs(ranks: &[RankLook]) -> Vec<Pair> {
    let of_rank: BTreeMap<u32, &RankLook> = ranks.iter().map(|look| (look.rank.0, look)).collect();
    let mut pairs = Vec::new();
    for look in ranks {
        for row in look.peers.iter().filter(|row| row.messages_sent > 0) {
            let receiver = of_rank.get(&row.peer);
            let posted = receiver.and_then(|to| to.peers.iter().find(|back| back.peer == look.rank.0));
            let posted = posted.map_or(0, |back| back.receives_posted);
            let is_exact = receiver.is_some_and(|to| to.from_anybody == 0 && to.peers_left_out == 0);
            pairs.push(Pair {
                from: look.rank.0,
                to: row.peer,
                messages: row.messages_sent,
                bytes: row.bytes_sent,
                posted,
                unmatched: is_exact.then(|| row.messages_sent.saturating_sub(posted)),
            });
        }
    }
    pairs
}

fn text(pairs: &[Pair], peers_left_out: u32) -> String {
    if pairs.is_empty() {
        return "no messages between ranks yet; collectives are not counted by pair\n".to_owned();
    }
    let mut table = Table::new(&[
        ("FROM", Align::Right),
        ("TO", Align::Right),
        ("MESSAGES", Align::Right),
        ("BYTES", Align::Right),
        ("NOT RECEIVED", Align::Right),
    ]);
    let mut shown: Vec<&Pair> = pairs.iter().collect();
    shown.sort_by_key(|pair| (std::cmp::Reverse(pair.bytes), pair.from, pair.to));
    for pair in shown.iter().take(PAIRS_SHOWN_MAX) {
        table.row(vec![
            pair.from.to_string(),
            pair.to.to_string(),
            pair.messages.to_string(),
            output::bytes(pair.bytes),
            pair.unmatched.map_or_else(|| "?".to_owned(), |open| open.to_string()),
        ]);
    }
    let mut text = table.render();
    if shown.len() > PAIRS_SHOWN_MAX {
        text += &format!("and {} pairs more: --json shows all\n", shown.len() - PAIRS_SHOWN_MAX);
    }
    if peers_left_out > 0 {
        text += &format!("{peers_left_out} pairs of ranks with very many peers are left out\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{NodeName, ProcessId, Rank};
    use pcm_proto::look::{PeerLook, Stage};

    fn look(rank: u32, from_anybody: u64, peers: &[(u32, u64, u64)]) -> RankLook {
        RankLook {
            rank: Rank(rank),
            process: ProcessId(rank),
            node: NodeName::new("n0").unwrap(),
            stage: Stage::Running,
            calls: 1,
            call: None,
            collectives: Vec::new(),
            sends: Vec::new(),
            communicators: Vec::new(),
            from_anybody,
            peers: peers
                .iter()
                .map(|(peer, messages_sent, receives_posted)| PeerLook {
                    peer: *peer,
                    messages_sent: *messages_sent,
                    bytes_sent: messages_sent * 8,
                    receives_posted: *receives_posted,
                })
                .collect(),
            peers_left_out: 0,
        }
    }

    #[test]
    fn what_was_sent_and_not_asked_for_is_counted_by_pair() {
        let pairs = pairs(&[look(0, 0, &[(1, 5, 0)]), look(1, 0, &[(0, 0, 3)])]);
        assert_eq!(pairs.len(), 1);
        assert_eq!(
            (pairs[0].messages, pairs[0].bytes, pairs[0].unmatched),
            (5, 40, Some(2))
        );
    }

    #[test]
    fn nothing_is_claimed_of_a_rank_that_takes_from_anybody() {
        let pairs = pairs(&[look(0, 0, &[(1, 5, 0)]), look(1, 4, &[])]);
        assert_eq!(pairs[0].unmatched, None);
        assert!(text(&pairs, 0).contains('?'));
    }
}
