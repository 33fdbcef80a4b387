//! `events`: what happened, as text lines or JSON lines.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::{lookup, output};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::event::Event;
use pcm_view::sentences::{public_form, sentence};
use serde_json::Value;

const EXAMPLE: &str = "\
Example:
  pcmctl events
  pcmctl events 3 --json --follow | jq .kind";

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
        let line = public_form(event);
        text.push_str(&if json {
            Value::Object(line).to_string()
        } else {
            sentence(&line)
        });
        text.push('\n');
    }
    output::print(&text)
}
