//! `ping`: checks that daemons answer, and how fast.

use super::nodes;
use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::output::{self, Align, Table};
use pcm_proto::control::{ControlToDaemon, DaemonToControl, NodeState};
use pcm_proto::ids::NodeName;
use serde::Serialize;
use std::time::Instant;

const EXAMPLE: &str = "\
Example:
  pcmctl ping          every node
  pcmctl ping n2";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The node [default: every node that is not gone]
    node: Option<String>,
    /// Print one JSON document: a list of answers
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    node: String,
    answers: bool,
    /// From this command to the node and back.
    round_trip_us: u64,
    /// From the daemon that was asked to the node and back.
    between_daemons_us: u64,
    version: Option<String>,
    reason: Option<String>,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let named = args.node.as_deref().map(NodeName::new).transpose();
    let named = named.map_err(|error| Failure::usage(format!("node name: {error}")))?;
    let mut link = Link::open(cluster).await?;
    let asked = match named {
        Some(node) => vec![node],
        None => {
            let known = nodes::list(&mut link).await?;
            known
                .into_iter()
                .filter(|node| node.state != NodeState::Gone)
                .map(|node| node.name)
                .collect()
        }
    };
    let mut answers = Vec::new();
    let mut failure = None;
    for node in asked {
        match ping(&mut link, &node).await {
            Ok(answer) => answers.push(answer),
            Err(refused) => {
                answers.push(Answer {
                    node: node.to_string(),
                    answers: false,
                    round_trip_us: 0,
                    between_daemons_us: 0,
                    version: None,
                    reason: Some(refused.message.clone()),
                });
                failure = Some(refused);
            }
        }
    }
    if args.json {
        output::print_json(&answers)?;
    } else {
        output::print(&table(&answers))?;
    }
    failure.map_or(Ok(0), Err)
}

async fn ping(link: &mut Link, node: &NodeName) -> Result<Answer, Failure> {
    let begun = Instant::now();
    match link
        .ask(
            ControlToDaemon::Ping {
                node: Some(node.clone()),
            },
            ASK_DEADLINE,
        )
        .await?
    {
        DaemonToControl::Pong {
            node,
            round_trip_us,
            version,
        } => Ok(Answer {
            node: node.to_string(),
            answers: true,
            round_trip_us: u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX),
            between_daemons_us: round_trip_us,
            version: Some(version),
            reason: None,
        }),
        other => Err(Failure::unexpected("Ping", &other)),
    }
}

fn table(answers: &[Answer]) -> String {
    let mut table = Table::new(&[
        ("NODE", Align::Left),
        ("ROUND TRIP", Align::Right),
        ("BETWEEN DAEMONS", Align::Right),
        ("VERSION", Align::Left),
    ]);
    for answer in answers {
        let span = |us: u64| {
            if answer.answers {
                format!("{:.2} ms", us as f64 / 1000.0)
            } else {
                "-".to_owned()
            }
        };
        table.row(vec![
            answer.node.clone(),
            span(answer.round_trip_us),
            span(answer.between_daemons_us),
            answer.version.clone().unwrap_or_else(|| "no answer".to_owned()),
        ]);
    }
    table.render()
}
