//! `ps`: the ranks of a job and their current calls, and with `--stuck` why they hang.

use super::jobs::state_word;
use super::{messages, stacks};
use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::output::{self, Align, Table};
use crate::{lookup, rank_words};
use pcm_core::stacks::verdict;
use pcm_core::stuck::{self, Report, rank_list};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::ids::{Epoch, JobId};
use pcm_proto::job::{JobState, JobStatus, RankStatus, SpareStatus};
use serde::Serialize;
use std::time::Duration;

const EXAMPLE: &str = "\
USE and MPI are milliseconds outside and inside MPI per iteration. 'pcmctl messages' shows messages, 'pcmctl top'
their rate.

Example:
  pcmctl ps 1
  pcmctl ps heat2d --json
  pcmctl ps 1 --stuck";

/// Time between two readings of a job's ranks: in that time a rank that makes progress begins or ends a call, or
/// another rank that computes excuses it.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1000);

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The job, by number or name
    job: String,
    /// Explain which ranks wait for each other without end, and why
    #[arg(long)]
    stuck: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Judgement<'a> {
    job: JobId,
    name: &'a str,
    #[serde(flatten)]
    report: &'a Report,
    /// Where the ranks are that matter, in sentences.
    places: &'a [String],
}

#[derive(Serialize)]
struct Document<'a> {
    job: JobId,
    name: &'a str,
    state: &'a JobState,
    epoch: Epoch,
    size: u32,
    ranks: &'a [RankStatus],
    spares: &'a [SpareStatus],
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let mut link = Link::open(cluster).await?;
    let job = lookup::job(&mut link, &args.job).await?;
    if args.stuck {
        return stuck(&mut link, job, args.json).await;
    }
    let (status, ranks) = match link.ask(ControlToDaemon::Ps { job }, ASK_DEADLINE).await? {
        DaemonToControl::Ps { status, ranks } => (status, ranks),
        other => return Err(Failure::unexpected("Ps", &other)),
    };
    if args.json {
        output::print_json(&Document {
            job: status.job,
            name: &status.name,
            state: &status.state,
            epoch: status.epoch,
            size: status.size,
            ranks: &ranks,
            spares: &status.spares,
        })?;
    } else {
        let spares = spare_lines(&status.spares);
        output::print(&format!("{}{}{spares}", head(&status), table(&ranks)))?;
    }
    Ok(0)
}

async fn stuck(link: &mut Link, job: JobId, json: bool) -> Result<i32, Failure> {
    let (_, first) = messages::look(link, job).await?;
    let next = tokio::time::Instant::now() + BETWEEN_LOOKS;
    let (_, first_stacks) = stacks::read(link, job, None).await?;
    tokio::time::sleep_until(next).await;
    let (_, second_stacks) = stacks::read(link, job, None).await?;
    let (status, second) = messages::look(link, job).await?;
    let report = stuck::judge(&first, &second);
    let places = verdict(&report, &second, &first_stacks, &second_stacks);
    if json {
        output::print_json(&Judgement {
            job,
            name: &status.name,
            report: &report,
            places: &places,
        })?;
    } else {
        output::print(&format!("{}{}", head(&status), judgement(&report, &places)))?;
    }
    Ok(0)
}

fn judgement(report: &Report, places: &[String]) -> String {
    let lines: String = places.iter().map(|place| format!("- {place}\n")).collect();
    if report.stuck.is_empty() {
        let Report { waiting, ranks, .. } = report;
        let moving = *ranks as usize - waiting.len().min(*ranks as usize);
        let rest = if waiting.is_empty() {
            String::new()
        } else {
            format!("; waiting for them: {}", rank_list(waiting))
        };
        return format!("not stuck: {moving} of {ranks} ranks compute or made progress within a second{rest}\n{lines}");
    }
    let mut text = format!("stuck: {} cannot continue\n", rank_list(&report.stuck));
    for finding in &report.findings {
        text += &format!("- {}\n", finding.text);
    }
    let named = |rank: &&u32| report.findings.iter().any(|finding| finding.ranks.contains(rank));
    let behind: Vec<u32> = report.stuck.iter().filter(|rank| !named(rank)).copied().collect();
    if !behind.is_empty() {
        text += &format!("- waiting behind them: {}\n", rank_list(&behind));
    }
    text += &lines;
    text += "'pcmctl kill JOB' ends it; 'pcmctl messages JOB' shows its messages\n";
    text
}

pub(super) fn head(status: &JobStatus) -> String {
    let ranks = if status.size == 1 { "rank" } else { "ranks" };
    let end = status
        .end
        .as_ref()
        .map(|end| format!(" with code {} {}", end.code, end.reason))
        .unwrap_or_default();
    format!(
        "job {} {}: {}{}, {} {ranks}, epoch {}\n",
        status.job,
        status.name,
        state_word(&status.state),
        end.trim_end(),
        status.size,
        status.epoch
    )
}

/// Processes that wait until they are needed, node by node.
fn spare_lines(spares: &[SpareStatus]) -> String {
    let line = |spare: &SpareStatus| {
        let state = if spare.ready { "ready" } else { "starting" };
        let SpareStatus {
            process,
            node,
            pid,
            program,
            ..
        } = spare;
        let what = if process.is_some() { "spare" } else { "spare for growth" };
        format!("{what} on {node}, process {pid}, {state}: {program}\n")
    };
    spares.iter().map(line).collect()
}

pub(crate) fn table(ranks: &[RankStatus]) -> String {
    let mut table = Table::new(&[
        ("RANK", Align::Right),
        ("NODE", Align::Left),
        ("PID", Align::Right),
        ("ITER", Align::Right),
        ("USE ms", Align::Right),
        ("MPI ms", Align::Right),
        ("MEMORY", Align::Right),
        (rank_words::CALL_HEAD, Align::Left),
        ("SINCE", Align::Right),
    ]);
    for rank in ranks {
        table.row(vec![
            rank.rank.to_string(),
            rank.node.to_string(),
            rank.pid.to_string(),
            rank.iteration.to_string(),
            rank_words::milliseconds(rank.useful_ms),
            rank_words::milliseconds(rank.wait_ms),
            rank_words::memory(rank),
            rank_words::call(rank),
            rank_words::since(rank),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank_words::tests::rank;
    use pcm_proto::ids::Bytes;

    #[test]
    fn the_widest_line_fits_in_100_columns_and_a_usual_one_in_80() {
        let long = table(&[RankStatus {
            pid: 4_194_304,
            call: "MPI_Neighbor_alltoallw".into(),
            peer: Some(1000),
            tag: Some(32_767),
            bytes: Some(Bytes(1 << 30)),
            ..rank()
        }]);
        assert!(long.lines().all(|line| line.chars().count() <= 100), "{long}");
        let usual = table(&[RankStatus {
            peer: Some(2),
            ..rank()
        }]);
        assert!(usual.lines().all(|line| line.chars().count() <= 80), "{usual}");
    }

    #[test]
    fn the_document_has_the_promised_fields() {
        let ranks = [rank()];
        let document = Document {
            job: JobId(1),
            name: "x",
            state: &JobState::Running,
            epoch: Epoch(0),
            size: 1,
            ranks: &ranks,
            spares: &[],
        };
        let value = serde_json::to_value(&document).unwrap();
        for field in ["job", "name", "state", "epoch", "size", "spares"] {
            assert!(value.get(field).is_some(), "{field}");
        }
        for field in [
            "rank",
            "node",
            "pid",
            "iteration",
            "useful_ms",
            "call",
            "call_since_ms",
            "peer",
            "wait_ms",
            "memory",
        ] {
            assert!(value["ranks"][0].get(field).is_some(), "{field}");
        }
        assert_eq!(value["state"], "running");
        assert_eq!(value["ranks"][0]["iteration"], 123_456);
    }
}
