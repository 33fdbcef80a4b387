//! `events`: what happened, as text lines or JSON lines.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::{lookup, output, time};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::event::Event;
use serde_json::{Map, Value};

const EXAMPLE: &str = "\
Example:
  pcmctl events
  pcmctl events 3 --json --follow | jq .kind";

/// Fields at the start of every line, not repeated among the others.
const HEAD: [&str; 5] = ["time", "job", "epoch", "kind", "node"];

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Only events of this job, by number or name [default: all]
    job: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Continue with new events as they come
    #[arg(long, short)]
    follow: bool,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let mut link = Link::open(cluster).await?;
    let job = match &args.job {
        Some(text) => Some(lookup::job(&mut link, text).await?),
        None => None,
    };
    let request = ControlToDaemon::Events {
        job,
        follow: args.follow,
    };
    let mut answer = link.ask(request, ASK_DEADLINE).await?;
    loop {
        match answer {
            DaemonToControl::Events(events) => show(&events, args.json)?,
            other => return Err(Failure::unexpected("Events", &other)),
        }
        if !args.follow {
            return Ok(0);
        }
        answer = link.next().await?;
    }
}

fn show(events: &[Event], json: bool) -> Result<(), Failure> {
    let mut text = String::new();
    for event in events {
        let line = line(event);
        text.push_str(&if json {
            Value::Object(line).to_string()
        } else {
            sentence(&line)
        });
        text.push('\n');
    }
    output::print(&text)
}

/// An event as text.
pub(crate) fn words(event: &Event) -> String {
    sentence(&line(event))
}

/// The public form of an event.
pub(super) fn line(event: &Event) -> Map<String, Value> {
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

/// `12:03:04.123456 job 1 n0 job_started start_ms=12.5`.
fn sentence(line: &Map<String, Value>) -> String {
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
    use pcm_proto::event::{EventKind, Reconfigured};
    use pcm_proto::ids::{Bytes, Epoch, JobId, NodeName};
    use pcm_proto::layout::Mode;
    use pcm_proto::method::Method;

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
        let line = line(&event(EventKind::JobStarted { start_ms: 12.5 }));
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
        let line = line(&event(EventKind::Reconfigured(Box::new(Reconfigured {
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
