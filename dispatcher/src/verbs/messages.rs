//! `messages`: the messages between a job's ranks: the matrix, and messages sent but not yet received, on each
//! communicator.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::lookup;
use crate::output::{self, Align, Table};
use crate::traffic::{self, OnCommunicator, Pair};
use pcm_core::stuck::rank_list;
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::ids::{Epoch, JobId};
use pcm_proto::job::JobStatus;
use pcm_proto::rank_snapshot::RankLook;
use serde::Serialize;

const EXAMPLE: &str = "\
Example:
  pcmctl messages 1
  pcmctl messages heat2d --json";

/// Pairs shown as text; `--json` has all.
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

#[derive(Serialize)]
struct Document<'a> {
    job: JobId,
    name: &'a str,
    epoch: Epoch,
    size: u32,
    pairs: &'a [Pair],
    communicators: &'a [OnCommunicator],
    peers_left_out: u32,
    /// Messages and receives counted under the job's own communicator because there are too many others.
    messages_left_out: u64,
}

/// Reads all ranks of a job once.
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
    let pairs = traffic::pairs(&ranks);
    let communicators = traffic::by_communicator(&ranks);
    let peers_left_out = ranks.iter().map(|rank| rank.peers_left_out).sum();
    let messages_left_out = ranks.iter().map(|rank| rank.apart_left_out).sum();
    if args.json {
        output::print_json(&Document {
            job,
            name: &status.name,
            epoch: status.epoch,
            size: status.size,
            pairs: &pairs,
            communicators: &communicators,
            peers_left_out,
            messages_left_out,
        })?;
    } else {
        output::print(&text(&pairs, &communicators, (peers_left_out, messages_left_out)))?;
    }
    Ok(0)
}

fn text(pairs: &[Pair], communicators: &[OnCommunicator], left_out: (u32, u64)) -> String {
    if pairs.is_empty() {
        return "no messages between ranks yet; collectives are not counted by pair\n".to_owned();
    }
    let has_others = communicators.len() > 1;
    // By communicator where there are several, so that what was not received can be found.
    let mut shown: Vec<(usize, &Pair)> = if has_others {
        let numbered = communicators.iter().enumerate();
        numbered
            .flat_map(|(number, of)| of.pairs.iter().map(move |pair| (number, pair)))
            .collect()
    } else {
        pairs.iter().map(|pair| (0, pair)).collect()
    };
    shown.sort_by_key(|(number, pair)| (std::cmp::Reverse(pair.bytes), pair.from, pair.to, *number));
    let mut heads = vec![
        ("FROM", Align::Right),
        ("TO", Align::Right),
        ("MESSAGES", Align::Right),
        ("BYTES", Align::Right),
        ("NOT RECEIVED", Align::Right),
    ];
    if has_others {
        heads.insert(0, ("COMM", Align::Right));
    }
    let mut table = Table::new(&heads);
    for (number, pair) in shown.iter().take(PAIRS_SHOWN_MAX) {
        let mut row = vec![
            pair.from.to_string(),
            pair.to.to_string(),
            pair.messages.to_string(),
            output::bytes(pair.bytes),
            open(pair.unmatched),
        ];
        if has_others {
            row.insert(0, number.to_string());
        }
        table.row(row);
    }
    let mut text = table.render();
    if shown.len() > PAIRS_SHOWN_MAX {
        text += &format!("and {} pairs more: --json shows all\n", shown.len() - PAIRS_SHOWN_MAX);
    }
    text += "\n";
    text += &communicator_table(communicators);
    let (peers, messages) = left_out;
    if peers > 0 {
        text += &format!("{peers} pairs of ranks with too many peers are left out\n");
    }
    if messages > 0 {
        text += &format!(
            "{messages} messages and receives beyond the limit of communicators are counted under MPI_COMM_WORLD\n"
        );
    }
    text
}

fn communicator_table(communicators: &[OnCommunicator]) -> String {
    let mut table = Table::new(&[
        ("COMM", Align::Right),
        ("MESSAGES", Align::Right),
        ("BYTES", Align::Right),
        ("RECEIVES", Align::Right),
        ("NOT RECEIVED", Align::Right),
        ("WHAT", Align::Left),
    ]);
    for (number, row) in communicators.iter().enumerate() {
        let of = if row.ranks.is_empty() {
            String::new()
        } else {
            format!(" of {}", rank_list(&row.ranks))
        };
        table.row(vec![
            number.to_string(),
            row.messages.to_string(),
            output::bytes(row.bytes),
            row.posted.to_string(),
            open(row.unmatched),
            format!("{}{of}", row.name),
        ]);
    }
    table.render()
}

fn open(unmatched: Option<u64>) -> String {
    unmatched.map_or_else(|| "?".to_owned(), |open| open.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(unmatched: Option<u64>) -> Pair {
        Pair {
            from: 0,
            to: 1,
            messages: 5,
            bytes: 40,
            posted: 3,
            unmatched,
        }
    }

    fn on(name: &str, unmatched: Option<u64>) -> OnCommunicator {
        OnCommunicator {
            name: name.into(),
            ranks: vec![0, 1],
            messages: 5,
            bytes: 40,
            posted: 3,
            unmatched,
            pairs: vec![pair(unmatched)],
        }
    }

    #[test]
    fn communicators_are_told_apart_where_there_are_several() {
        let whole = text(&[pair(None)], &[on("MPI_COMM_WORLD", None)], (0, 0));
        assert!(whole.starts_with("FROM") && whole.contains('?'), "{whole}");
        let several = [on("MPI_COMM_WORLD", Some(0)), on("communicator", Some(2))];
        let text = text(&[pair(None)], &several, (0, 7));
        for part in [
            "COMM  FROM",
            "communicator of ranks 0, 1",
            "7 messages and receives beyond the limit",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert_eq!(text.matches("40 B").count(), 4, "{text}");
    }
}
