//! `explain`: why a job was moved or not: the agents' decisions and their results.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::{lookup, output};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::event::{Decision, Event, EventKind, Reconfigured, Recovered};
use pcm_view::sentences::{change_words, public_form, request_refused_words};
use pcm_view::time;
use serde_json::Value;

const EXAMPLE: &str = "\
Gains and costs are seconds of the job's run time, as predicted when the decision was made. 'pcmctl run --policy'
selects the policy; agents.toml in the cluster's directory has its parameters.

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
    /// Show at most the N newest decisions and changes
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
        let lines = told.iter().map(|event| Value::Object(public_form(event)));
        output::print_json(&Value::Array(lines.collect()))?;
    } else {
        output::print(&text_of(told))?;
    }
    Ok(0)
}

/// The paragraphs; that a job was accepted is no decision about it.
fn text_of(told: &[&Event]) -> String {
    let mut text: String = told.iter().filter_map(|event| paragraph(event)).collect();
    if told
        .iter()
        .all(|event| matches!(event.kind, EventKind::JobAccepted { .. }))
    {
        text += NO_DECISIONS;
    }
    text
}

const NO_DECISIONS: &str =
    "no decisions about this job: it has not iterated long enough, or no change would improve it\n";

fn paragraph(event: &Event) -> Option<String> {
    let full = time::rfc3339(event.time_us);
    let clock = full.split_once('T').map_or(full.as_str(), |(_, clock)| clock);
    let clock = clock.get(..8).unwrap_or(clock);
    match &event.kind {
        EventKind::JobAccepted { why, .. } => Some(format!("{clock}  The job was accepted. Ranks: {why}.\n")),
        EventKind::Decision(decision) => Some(decision_text(clock, decision)),
        EventKind::Reconfigured(done) => Some(change_text(clock, done)),
        EventKind::RequestRefused { reason, .. } => {
            Some(format!("{clock}  {}.\n", sentence(&request_refused_words(reason))))
        }
        EventKind::GivenUp {
            phase,
            reason,
            again,
            job_ends,
        } => {
            let then = match (again, job_ends) {
                (true, _) => "It was tried again as a relaunch.",
                (false, true) => "The job ended with the ranks it had.",
                (false, false) => "The job continued unchanged.",
            };
            Some(format!(
                "{clock}  A change was aborted while {phase}: {reason}. {then}\n"
            ))
        }
        EventKind::Crashed { reason, verdict, .. } => Some(crash_text(clock, reason, verdict)),
        EventKind::Recovered(back) => Some(recovery_text(clock, back)),
        _ => None,
    }
}

fn decision_text(clock: &str, decision: &Decision) -> String {
    let policy = &decision.policy;
    let mut text = match &decision.chosen {
        Some(chosen) => format!(
            "{clock}  Policy {policy} chose to {chosen}: predicted to save {:.1} s of run time and to cost {:.2} s.\n",
            decision.predicted_gain_s, decision.cost_s
        ),
        None => format!("{clock}  Policy {policy} did not change the job.\n"),
    };
    text += &format!("          {}.\n", sentence(&decision.reason));
    if let Some(achieved) = decision.achieved_gain_s {
        text += &format!("          The previous change has saved {achieved:.1} s so far.\n");
    }
    let others = decision
        .considered
        .iter()
        .filter(|(words, _)| Some(words) != decision.chosen.as_ref())
        .map(|(words, net_s)| format!("{words} ({net_s:+.1} s net)"));
    let others: Vec<String> = others.collect();
    if !others.is_empty() {
        text += &format!("          It also considered: {}.\n", others.join("; "));
    }
    text
}

/// Begins with a capital letter.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn change_text(clock: &str, done: &Reconfigured) -> String {
    let mut text = format!(
        "{clock}  The job was changed: {}. Cause: {}.\n",
        change_words(done),
        done.cause
    );
    if let (Some(method), Some(reason)) = (done.method, &done.method_reason) {
        text += &format!("          Method {method}: {reason}.\n");
    }
    if let Some(placement) = &done.placement {
        text += &format!("          Ranks: {placement}.\n");
    }
    text
}

fn crash_text(clock: &str, reason: &str, verdict: &str) -> String {
    format!("{clock}  The job crashed: {reason}. {}.\n", sentence(verdict))
}

fn recovery_text(clock: &str, back: &Recovered) -> String {
    let again = format!(
        "{clock}  It runs again on {} ranks, {:.1} s later, from iteration {}; {} iterations are computed twice.",
        back.ranks,
        back.total_ms / 1000.0,
        back.from,
        back.rolled_back
    );
    format!("{again}\n          Ranks: {}.\n", back.placement)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{Epoch, Iteration, NodeName};

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
                "12:00:00  Policy cost did not change the job.",
                "Not done, it saves too little.",
                "The previous change has saved 2.0 s so far.",
                "It also considered: migrate rank 1 from a to b (+0.5 s net)."
            ]
        );
        let chosen = Some("migrate rank 1 from a to b".to_owned());
        let text = decision_text("12:00:00", &Decision { chosen, ..decision });
        let first = "12:00:00  Policy cost chose to migrate rank 1 from a to b: predicted to save 1.0 s of run time \
                     and to cost 0.50 s.\n";
        assert!(text.starts_with(first) && !text.contains("considered"), "{text}");
    }

    #[test]
    fn a_job_that_was_only_accepted_has_no_decisions() {
        let event = |kind| Event {
            time_us: 0,
            job: None,
            epoch: Epoch(0),
            node: NodeName::new("n0").unwrap(),
            kind,
        };
        let accepted = event(EventKind::JobAccepted {
            name: "plate".into(),
            placement: Vec::new(),
            why: "1 rank on n0 (4.0 of 4 CPUs free, 0 ranks there)".into(),
        });
        let refused = event(EventKind::RequestRefused {
            code: "bad_layout".into(),
            reason: "it cannot run on 3 ranks".into(),
        });
        let text = text_of(&[&accepted]);
        assert!(
            text.contains("Ranks: 1 rank on n0") && text.ends_with(NO_DECISIONS),
            "{text}"
        );
        let text = text_of(&[&accepted, &refused]);
        let last = "The program requested another number of ranks and was refused: it cannot run on 3 ranks.\n";
        assert!(text.ends_with(last), "{text}");
    }

    #[test]
    fn a_crash_and_its_end_are_sentences() {
        let crash = crash_text("12:00:00", "rank 1 was ended by signal 9", "it is started again");
        assert_eq!(
            crash,
            "12:00:00  The job crashed: rank 1 was ended by signal 9. It is started again.\n"
        );
        let back = Recovered {
            cause: String::new(),
            restart: 1,
            from: Iteration(40),
            rolled_back: 3,
            ranks: 4,
            placement: "4 ranks on n0 (4.0 of 4 CPUs free, 0 ranks there)".into(),
            total_ms: 512.0,
            phases_ms: Vec::new(),
        };
        let text = recovery_text("12:00:01", &back);
        assert!(
            text.contains("on 4 ranks, 0.5 s later, from iteration 40; 3 iterations"),
            "{text}"
        );
    }
}
