//! Events, changes and checkpoints in words, one line each. An event without a sentence of its own is shown with its
//! fields.

use crate::table::bytes;
use crate::time;
use pcm_proto::event::{Decision, Event, EventKind, Reconfigured};
use pcm_proto::ids::{Bytes, Iteration, NodeName};
use pcm_proto::layout::Mode;
use pcm_proto::method::Method;
use serde_json::{Map, Value};

/// Fields that every line begins with, so they are not repeated among the others.
const HEAD: [&str; 5] = ["time", "job", "epoch", "kind", "node"];

/// Nodes of a placement that are named.
const NODES_NAMED_MAX: usize = 16;

/// An event as a report tells it.
pub fn event_words(event: &Event) -> String {
    let said = match &event.kind {
        EventKind::JobAccepted { placement, .. } => format!("accepted: {}", placement_words(placement)),
        EventKind::JobStarted { start_ms } => format!("all ranks run, {start_ms:.0} ms after the job was accepted"),
        EventKind::JobEnded { code: 0, .. } => "the job ended well".to_owned(),
        EventKind::JobEnded { code, reason } => format!("the job ended with code {code}: {reason}"),
        EventKind::Reconfigured(done) => reconfigured(done),
        EventKind::Decision(decision) => decided(decision),
        EventKind::CheckpointComplete {
            iteration,
            ranks,
            bytes: size,
            held_ms,
        } => checkpoint_words(*iteration, *ranks, *size, *held_ms),
        EventKind::Spawned {
            placement,
            spare,
            spawn_ms,
            ..
        } => {
            let how = if *spare { "taken from the spares" } else { "started" };
            let placed = placement_words(placement).replace(" ranks ", " children ");
            format!("spawned by the program: {placed}, {how}, {spawn_ms:.1} ms until they could meet their parent")
        }
        EventKind::Hangs { silent_s, ranks, lines } => {
            let said = lines.join("; ");
            format!("no progress for {silent_s} s: {ranks} cannot continue: {said}")
        }
        EventKind::SpawnRefused { process, reason } => {
            format!("MPI_Comm_spawn of process {process} was refused: {reason}")
        }
        EventKind::SpareLost { name, reason } => format!("a spare on {name} is lost: {reason}"),
        EventKind::RequestRefused { reason, .. } => request_refused_words(reason),
        EventKind::GivenUp {
            phase,
            reason,
            again,
            job_ends,
        } => {
            let then = match (again, job_ends) {
                (true, _) => "it is begun again as a relaunch",
                (false, true) => "the job ends with the ranks it has",
                (false, false) => "the job goes on as before",
            };
            format!("a change was given up while {phase}: {reason}; {then}")
        }
        EventKind::CopyWayChanged { name, way, reason } => {
            format!("data of {name} come by way of {way}: {reason}")
        }
        EventKind::Crashed { reason, verdict, .. } => format!("crashed: {reason}; {verdict}"),
        EventKind::Recovered(back) => format!(
            "{} ranks run again after {:.0} ms, from iteration {}; {} iterations are done twice",
            back.ranks, back.total_ms, back.from, back.rolled_back
        ),
        _ => return sentence(&public_form(event)),
    };
    let at = time::rfc3339(event.time_us);
    format!("{} {}: {said}", at.get(11..23).unwrap_or_default(), event.node)
}

/// A refused `pcm_request`.
pub fn request_refused_words(reason: &str) -> String {
    format!("the program requested another number of ranks and was refused: {reason}")
}

fn placement_words(placement: &[NodeName]) -> String {
    let named: Vec<&str> = placement.iter().take(NODES_NAMED_MAX).map(NodeName::as_str).collect();
    let more = match placement.len().saturating_sub(NODES_NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{} ranks on {}{more}", placement.len(), named.join(", "))
}

fn reconfigured(done: &Reconfigured) -> String {
    let phases = done.phases_ms.iter().map(|(phase, ms)| format!("{phase} {ms:.1}"));
    let phases = phases.collect::<Vec<_>>().join(", ");
    format!("{} ({phases}), asked by {}", change_words(done), done.cause)
}

fn decided(decision: &Decision) -> String {
    match &decision.chosen {
        Some(chosen) => format!(
            "decided by {}: {chosen}, to gain {:.1} s for {:.1} s; {}",
            decision.policy, decision.predicted_gain_s, decision.cost_s, decision.reason
        ),
        None => format!("left as it is: {}", decision.reason),
    }
}

/// What a checkpoint is and cost, in one line.
pub fn checkpoint_words(iteration: Iteration, ranks: u32, size: Bytes, held_ms: f64) -> String {
    format!(
        "checkpoint at iteration {iteration}, {ranks} ranks, {}, the program stopped for {held_ms:.1} ms",
        bytes(size.0)
    )
}

/// What a change of layout did and cost, in one line.
pub fn change_words(done: &Reconfigured) -> String {
    let how = match (done.mode, done.method) {
        (Mode::Relaunch, _) => " by relaunch".to_owned(),
        (Mode::Live, Some(method)) if method != Method::default() => format!(" by {method}"),
        (Mode::Live, _) => String::new(),
    };
    format!(
        "{}{how}: {} to {} ranks, {} moved, {} of data, pause {:.1} ms, {:.1} ms in all",
        done.plan,
        done.ranks_before,
        done.ranks_after,
        done.moved.len(),
        bytes(done.bytes_moved.0),
        done.pause_ms,
        done.total_ms
    )
}

/// The public form of an event.
pub fn public_form(event: &Event) -> Map<String, Value> {
    let mut line = Map::new();
    line.insert("time".into(), time::rfc3339(event.time_us).into());
    line.insert("job".into(), event.job.map_or(Value::Null, |job| job.0.into()));
    line.insert("epoch".into(), event.epoch.0.into());
    // An enum whose variants are structs always becomes an object; anything else shows as it is.
    match serde_json::to_value(&event.kind) {
        Ok(Value::Object(fields)) => line.extend(fields),
        Ok(other) => drop(line.insert("kind".into(), other)),
        Err(error) => drop(line.insert("kind".into(), error.to_string().into())),
    }
    line.insert("node".into(), event.node.as_str().into());
    line
}

/// The public form as a person reads it: `12:03:04.123456 job 1 n0 job_started start_ms=12.5`.
pub fn sentence(line: &Map<String, Value>) -> String {
    let text = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default();
    let clock = text("time")
        .split_once('T')
        .map_or("", |(_, clock)| clock.trim_end_matches('Z'));
    let job = line
        .get("job")
        .and_then(Value::as_u64)
        .map(|job| format!("  job {job}"))
        .unwrap_or_default();
    let mut sentence = format!("{clock}  {}{job}  {}", text("node"), text("kind"));
    for (name, value) in line.iter().filter(|(name, _)| !HEAD.contains(&name.as_str())) {
        let shown = match value {
            Value::String(text) if text.contains(' ') || text.is_empty() => format!("{text:?}"),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        sentence.push_str(&format!("  {name}={shown}"));
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{Epoch, JobId};

    fn event(kind: EventKind) -> Event {
        Event {
            time_us: 1_700_000_000_123_456,
            job: Some(JobId(3)),
            epoch: Epoch(2),
            node: NodeName::new("n0").unwrap(),
            kind,
        }
    }

    #[test]
    fn every_line_has_the_promised_fields() {
        let line = public_form(&event(EventKind::JobStarted { start_ms: 12.5 }));
        assert_eq!(line["time"], "2023-11-14T22:13:20.123456Z");
        assert_eq!(line["job"], 3);
        assert_eq!(line["epoch"], 2);
        assert_eq!(line["kind"], "job_started");
        assert_eq!(
            sentence(&line),
            "22:13:20.123456  n0  job 3  job_started  start_ms=12.5"
        );
    }

    #[test]
    fn phases_of_a_reconfiguration_stand_by_name() {
        let line = public_form(&event(EventKind::Reconfigured(Box::new(Reconfigured {
            plan: "migrate".into(),
            cause: "user".into(),
            ranks_before: 4,
            ranks_after: 4,
            moved: Vec::new(),
            bytes_moved: Bytes(8),
            bytes_ahead: Bytes(0),
            pause_ms: 1.0,
            mode: Mode::Live,
            method: Some(Method::default()),
            method_reason: Some("the request names it".into()),
            placement: None,
            total_ms: 2.0,
            phases_ms: vec![("preparing".into(), 0.5)],
        }))));
        assert_eq!(line["kind"], "reconfigured");
        assert_eq!(line["mode"], "live");
        assert_eq!(line["method"], "merge-p2p-async");
        assert_eq!(line["method_reason"], "the request names it");
        assert_eq!(line["plan"], "migrate");
        assert_eq!(line["phases_ms"]["preparing"], 0.5);
        assert_eq!(line["bytes_moved"], 8);
    }
}
