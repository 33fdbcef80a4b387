//! `jobs`: one line per job.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::Link;
use crate::lookup;
use crate::output::{self, Align, Table};
use pcm_proto::ids::{Epoch, JobId, NodeName};
use pcm_proto::job::{JobState, JobStatus};
use pcm_view::time;
use serde::Serialize;

const EXAMPLE: &str = "\
Example:
  pcmctl jobs
  pcmctl jobs --all --json";

/// Longest name shown in the table.
const NAME_SHOWN_MAX: usize = 20;

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Include jobs that ended within the last hour
    #[arg(long, short)]
    all: bool,
    /// Print one JSON document: a list of all jobs, including ended ones
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    job: JobId,
    name: &'a str,
    state: &'a JobState,
    epoch: Epoch,
    size: u32,
    nodes: Vec<NodeRanks<'a>>,
    started: String,
    coordinator: &'a NodeName,
    code: Option<i32>,
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct NodeRanks<'a> {
    node: &'a NodeName,
    ranks: u32,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let jobs = lookup::jobs(&mut Link::open(cluster).await?).await?;
    if args.json {
        output::print_json(&jobs.iter().map(line).collect::<Vec<_>>())?;
        return Ok(0);
    }
    output::print(&table(&jobs, args.all))?;
    Ok(0)
}

fn line(job: &JobStatus) -> Line<'_> {
    Line {
        job: job.job,
        name: &job.name,
        state: &job.state,
        epoch: job.epoch,
        size: job.size,
        nodes: job
            .nodes
            .iter()
            .map(|(node, ranks)| NodeRanks { node, ranks: *ranks })
            .collect(),
        started: time::rfc3339(job.started_us),
        coordinator: &job.coordinator,
        code: job.end.as_ref().map(|end| end.code),
        reason: job.end.as_ref().map(|end| end.reason.as_str()),
    }
}

fn table(jobs: &[JobStatus], all: bool) -> String {
    let mut table = Table::new(&[
        ("JOB", Align::Right),
        ("NAME", Align::Left),
        ("STATE", Align::Left),
        ("RANKS", Align::Right),
        ("EPOCH", Align::Right),
        ("AGE", Align::Right),
        ("NODES", Align::Left),
    ]);
    let now = time::now_us();
    for job in jobs.iter().filter(|job| all || job.state != JobState::Ended) {
        let state = match &job.end {
            Some(end) => format!("ended {}", end.code),
            None => state_word(&job.state).to_owned(),
        };
        table.row(vec![
            job.job.to_string(),
            job.name.chars().take(NAME_SHOWN_MAX).collect(),
            state,
            job.size.to_string(),
            job.epoch.to_string(),
            time::span(now.saturating_sub(job.started_us)),
            nodes_short(&job.nodes),
        ]);
    }
    table.render()
}

/// The word of a state, as in its JSON form.
pub(crate) fn state_word(state: &JobState) -> &'static str {
    match state {
        JobState::Starting => "starting",
        JobState::Recovering => "recovering",
        JobState::Running => "running",
        JobState::Reconfiguring => "reconfiguring",
        JobState::Ending => "ending",
        JobState::Ended => "ended",
    }
}

/// `n0:2 n1:1`, cut to what fits beside the other columns.
fn nodes_short(nodes: &[(NodeName, u32)]) -> String {
    const SHOWN_MAX: usize = 3;
    let mut parts: Vec<String> = nodes
        .iter()
        .take(SHOWN_MAX)
        .map(|(node, ranks)| format!("{node}:{ranks}"))
        .collect();
    if nodes.len() > SHOWN_MAX {
        parts.push(format!("+{}", nodes.len() - SHOWN_MAX));
    }
    parts.join(" ")
}
