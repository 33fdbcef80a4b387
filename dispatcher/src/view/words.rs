//! Events as a person reads them, one line each. What has no sentence here is shown as `pcmctl events` shows it.

use crate::steer::{change_words, checkpoint_words};
use crate::time;
use crate::verbs::events;
use pcm_proto::event::{Decision, Event, EventKind, Reconfigured};
use pcm_proto::ids::NodeName;

/// Nodes of a placement that are named.
const NODES_NAMED_MAX: usize = 16;

/// See the file head.
pub(crate) fn event_words(event: &Event) -> String {
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
        EventKind::SpareLost { name, reason } => format!("a spare on {name} is lost: {reason}"),
        EventKind::GivenUp { phase, reason, again } => {
            let then = if *again {
                "it is begun again as a relaunch"
            } else {
                "the job goes on as before"
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
        _ => return events::words(event),
    };
    let at = time::rfc3339(event.time_us);
    format!("{} {}: {said}", at.get(11..23).unwrap_or_default(), event.node)
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
