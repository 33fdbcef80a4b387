//! `explain`: why a job was moved, or left where it is: the decisions of the agents and what became of them.

use super::events;
use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::{lookup, output, time};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::event::{Decision, Event, EventKind, Reconfigured};
use serde_json::Value;

const EXAMPLE: &str = "\
Gains and costs are seconds of the job's run time, as predicted when the decision was made. `pcmctl run --policy`
chooses who decides; agents.toml in the cluster's directory holds the numbers.

Example:
  pcmctl explain 3
  pcmctl explain heat --json | jq '.[-1].reason'";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The job, by number or name
    job: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Show at most so many decisions and changes, the newest
    #[arg(long, value_name = "N", default_value_t = 20)]
    last: usize,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let mut link = Link::open(cluster).await?;
    let job = Some(lookup::job(&mut link, &args.job).await?);
    let request = ControlToDaemon::Events { job, follow: false };
    let events = match link.ask(request, ASK_DEADLINE).await? {
        DaemonToControl::Events(events) => events,
        other => return Err(Failure::unexpected("Events", &other)),
    };
    let told: Vec<&Event> = events.iter().filter(|event| paragraph(event).is_some()).collect();
    let told = &told[told.len().saturating_sub(args.last)..];
    if args.json {
        let lines = told.iter().map(|event| Value::Object(events::line(event)));
        output::print_json(&Value::Array(lines.collect()))?;
    } else if told.is_empty() {
        output::print(
            "nothing was decided about this job: it has not iterated long enough, or nothing could be better\n",
        )?;
    } else {
        let text: Vec<String> = told.iter().filter_map(|event| paragraph(event)).collect();
        output::print(&text.join(""))?;
    }
    Ok(0)
}

fn paragraph(event: &Event) -> Option<String> {
    let full = time::rfc3339(event.time_us);
    let clock = full.split_once('T').map_or(full.as_str(), |(_, clock)| clock);
    let clock = clock.get(..8).unwrap_or(clock);
    match &event.kind {
        EventKind::Decision(decision) => Some(decision_text(clock, decision)),
        EventKind::Reconfigured(done) => Some(change_text(clock, done)),
        _ => None,
    }
}

fn decision_text(clock: &str, decision: &Decision) -> String {
    let what = decision.chosen.as_deref().unwrap_or("left as it is");
    let mut text = format!(
        "{clock}  {} decided: {what}\n          {}\n",
        decision.policy, decision.reason
    );
    if let Some(achieved) = decision.achieved_gain_s {
        text.push_str(&format!(
            "          the change before has brought {achieved:.1} s so far\n"
        ));
    }
    let others = decision
        .considered
        .iter()
        .filter(|(words, _)| Some(words) != decision.chosen.as_ref());
    for (words, net_s) in others {
        text.push_str(&format!("          considered: {words} ({net_s:+.1} s)\n"));
    }
    text
}

fn change_text(clock: &str, done: &Reconfigured) -> String {
    format!(
        "{clock}  changed: {} from {} to {} ranks, held {:.0} ms, {} bytes moved\n          because {}\n",
        done.plan, done.ranks_before, done.ranks_after, done.pause_ms, done.bytes_moved, done.cause
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_says_what_was_chosen_why_and_what_else_there_was() {
        let decision = Decision {
            policy: "cost".into(),
            chosen: None,
            predicted_gain_s: 1.0,
            cost_s: 0.5,
            achieved_gain_s: Some(2.0),
            considered: vec![("migrate rank 1 from a to b".into(), 0.5)],
            reason: "not done, it saves too little".into(),
        };
        let text = decision_text("12:00:00", &decision);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "12:00:00  cost decided: left as it is",
                "not done, it saves too little",
                "the change before has brought 2.0 s so far",
                "considered: migrate rank 1 from a to b (+0.5 s)"
            ]
        );
    }
}
