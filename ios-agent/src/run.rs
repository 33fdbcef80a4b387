//! The executable's life: read its arguments and its tuning, link to the daemon, work until the daemon is gone.

use crate::decide::tuning::Tuning;
use crate::shell::Shell;
use pcm_fabric::{LocalConnectError, LocalEndpoint};
use pcm_proto::agent::TUNING_VARIABLE;
use pcm_proto::handshake::{Identity, Role};
use pcm_proto::ids::NodeName;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The daemon holds the other end when it starts its agent.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

const USAGE: &str = "usage: ios-agent CLUSTER NODE   (pcm-daemon starts it)";

/// Runs the agent; the exit code is 0 when the daemon went away, 1 when it cannot be reached, 2 when called wrongly.
pub fn main(arguments: impl Iterator<Item = String>) -> i32 {
    let arguments: Vec<String> = arguments.collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let node = match words[..] {
        ["-h" | "--help"] => {
            println!("{USAGE}");
            return 0;
        }
        ["-V" | "--version"] => {
            println!("ios-agent {}", env!("CARGO_PKG_VERSION"));
            return 0;
        }
        [_cluster, node] => NodeName::new(node),
        _ => {
            eprintln!("{USAGE}");
            return 2;
        }
    };
    let Ok(node) = node else {
        eprintln!("{USAGE}");
        return 2;
    };
    node_log::begin();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.map(|runtime| runtime.block_on(serve(node)));
    match outcome {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            tracing::error!(%error, "no link to the daemon");
            1
        }
        Err(error) => {
            tracing::error!(%error, "the agent cannot start");
            1
        }
    }
}

async fn serve(node: NodeName) -> Result<(), LocalConnectError> {
    let endpoint = LocalEndpoint::new(Identity::new(Role::Agent { node: node.clone() }));
    let given = given_socket().map_err(LocalConnectError::not_given)?;
    let link = endpoint.over(given, CONNECT_WITHIN).await?;
    Shell::new(link, node, tuning()).run().await;
    Ok(())
}

/// The end of a pair of sockets that the daemon gave us as standard input.
fn given_socket() -> io::Result<OwnedFd> {
    io::stdin().as_fd().try_clone_to_owned()
}

/// The numbers of the cluster's file, where there is one that makes sense; else the defaults.
fn tuning() -> Tuning {
    let Some(path) = std::env::var_os(TUNING_VARIABLE) else {
        return Tuning::default();
    };
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Tuning::default();
    };
    Tuning::parse(&text).unwrap_or_else(|error| {
        tracing::warn!(path = %path.to_string_lossy(), %error);
        Tuning::default()
    })
}
