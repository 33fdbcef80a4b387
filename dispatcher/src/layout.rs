//! Asks for another layout of a job, waits, and prints what it did and cost: what `migrate`, `expand`, `shrink` and
//! `rebalance` have in common.

use crate::cluster::ClusterDir;
use crate::commands::DONE_WITHIN;
use crate::failure::Failure;
use crate::link::Link;
use crate::method::{self, MethodWanted};
use crate::{lookup, output};
use pcm_proto::control::{ControlToDaemon, DaemonToControl, LayoutChange};
use pcm_proto::event::Reconfigured;
use pcm_proto::layout::ModeWanted;
use pcm_proto::refusal;
use pcm_view::sentences::change_words;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// So long a job may be starting.
const BEGUN_WITHIN: Duration = Duration::from_secs(10);
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// How to carry out a change.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Mode {
    /// Live, or by relaunch where that is not possible
    Auto,
    /// Live or not at all
    Live,
    /// End all ranks and start new ones from parked data
    Relaunch,
}

/// Options of every verb that changes a layout.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The job, by number or name
    job: String,
    /// How to carry out the change
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Mode::Auto)]
    mode: Mode,
    /// How the change manages processes and moves data (see 'pcmctl run --help'); auto: as the job was started
    #[arg(long, value_name = "METHOD", value_parser = method::parser(), default_value = "auto")]
    method: MethodWanted,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Asks, waits and prints.
pub(crate) async fn change(options: &Options, change: LayoutChange, cluster: &ClusterDir) -> Result<i32, Failure> {
    let mut link = Link::open(cluster).await?;
    let job = lookup::job(&mut link, &options.job).await?;
    let mode = match options.mode {
        Mode::Auto => ModeWanted::Auto,
        Mode::Live => ModeWanted::Live,
        Mode::Relaunch => ModeWanted::Relaunch,
    };
    let request = ControlToDaemon::Reconfigure {
        job,
        change,
        mode,
        cause: "pcmctl".to_owned(),
        method: options.method.0,
    };
    match ask(&mut link, request).await? {
        DaemonToControl::Reconfigured(done) if options.json => output::print_json(&done)?,
        DaemonToControl::Reconfigured(done) => output::print(&text(&done))?,
        other => return Err(Failure::unexpected("Reconfigure", &other)),
    }
    Ok(0)
}

/// Asks again while the ranks of the job are about to iterate: it may have been started a moment before.
async fn ask(link: &mut Link, request: ControlToDaemon) -> Result<DaemonToControl, Failure> {
    let until = Instant::now() + BEGUN_WITHIN;
    loop {
        match link.ask(request.clone(), DONE_WITHIN).await {
            Err(failure) if failure.code == refusal::JOB_STARTING && Instant::now() < until => {
                tokio::time::sleep(TRY_AGAIN).await;
            }
            answer => return answer,
        }
    }
}

fn text(done: &Reconfigured) -> String {
    let mut text = format!("{}\n", change_words(done));
    for moved in &done.moved {
        let place = |node: &Option<_>| node.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        let _ = writeln!(
            text,
            "  rank {}: {} to {}",
            moved.rank,
            place(&moved.from),
            place(&moved.to)
        );
    }
    if let Some(placement) = &done.placement {
        let _ = writeln!(text, "  {placement}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::event::Moved;
    use pcm_proto::ids::{Bytes, NodeName, Rank};
    use pcm_proto::layout;

    #[test]
    fn a_newcomer_comes_from_nowhere_and_a_leaver_goes_there() {
        let node = |name: &str| NodeName::new(name).ok();
        let moved = |rank, from, to| Moved {
            rank: Rank(rank),
            from,
            to,
        };
        let done = Reconfigured {
            plan: "expand".into(),
            cause: "pcmctl".into(),
            ranks_before: 1,
            ranks_after: 2,
            moved: vec![moved(1, None, node("n1")), moved(0, node("n0"), None)],
            bytes_moved: Bytes(2048),
            bytes_ahead: Bytes(0),
            pause_ms: 1.25,
            mode: layout::Mode::Relaunch,
            method: None,
            method_reason: None,
            placement: Some("1 rank on n1 (2.0 of 2 CPUs free, 0 ranks there)".into()),
            total_ms: 40.0,
            phases_ms: Vec::new(),
        };
        let text = text(&done);
        assert!(
            text.starts_with("expand by relaunch: ")
                && text.contains("rank 1: - to n1")
                && text.contains("rank 0: n0 to -")
                && text.ends_with("\n  1 rank on n1 (2.0 of 2 CPUs free, 0 ranks there)\n"),
            "{text}"
        );
    }
}
