//! The agent's life: link to the daemon, calibrate, then sample and tell, until the daemon is gone.

use crate::sampling::{self, Sample};
use crate::{calibration, window};
use pcm_fabric::{Link, LocalAddress, LocalConnectError, LocalEndpoint};
use pcm_proto::agent::{AgentToDaemon, DaemonToAgent, NodeProfile};
use pcm_proto::handshake::{Identity, Role};
use pcm_proto::ids::NodeName;
use pcm_proto::keeper::ProcessKey;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};

/// Time between two looks at the node: ten small files cost about 0.1 ms, which is a thousandth of a core.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A profile covers this many looks: ticks of 10 ms make shorter times too coarse.
const LOOKS_PER_PROFILE: usize = 5;

/// The daemon hears at least so often, whatever happens.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// The daemon listens before it starts its agent.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

const USAGE: &str = "usage: ios-agent CLUSTER NODE   (started by pcm-daemon, nobody else has to)";

/// Runs the agent; the exit code is 0 when the daemon went away, 1 when it cannot be reached, 2 when called wrongly.
pub fn main(arguments: impl Iterator<Item = String>) -> i32 {
    let arguments: Vec<String> = arguments.collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (cluster, node) = match words[..] {
        ["-h" | "--help"] => {
            println!("{USAGE}");
            return 0;
        }
        ["-V" | "--version"] => {
            println!("ios-agent {}", env!("CARGO_PKG_VERSION"));
            return 0;
        }
        [cluster, node] => (cluster, NodeName::new(node)),
        _ => {
            eprintln!("{USAGE}");
            return 2;
        }
    };
    let Ok(node) = node else {
        eprintln!("{USAGE}");
        return 2;
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.map(|runtime| runtime.block_on(serve(cluster, node)));
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

async fn serve(cluster: &str, node: NodeName) -> Result<(), LocalConnectError> {
    let endpoint = LocalEndpoint::new(Identity::new(Role::Agent { node: node.clone() }));
    let address = LocalAddress::Abstract(format!("pcm-{cluster}-{node}"));
    let link = endpoint.connect(&address, CONNECT_WITHIN).await?;
    let mut agent = Agent {
        link,
        cpus: Vec::new(),
        ranks: Vec::new(),
        speed: 0.0,
        told: None,
    };
    agent.run().await;
    Ok(())
}

struct Agent {
    link: Link,
    cpus: Vec<u32>,
    ranks: Vec<(ProcessKey, u32)>,
    speed: f64,
    told: Option<(Instant, NodeProfile)>,
}

impl Agent {
    async fn run(&mut self) {
        // Ours is the least urgent work of the node.
        if let Err(error) = rustix::process::nice(10) {
            tracing::debug!(%error, "the priority stays as it is");
        }
        let ready = AgentToDaemon::Ready {
            pid: std::process::id(),
        };
        if self.link.send(&ready).await.is_err() {
            return;
        }
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut samples: Vec<Sample> = Vec::with_capacity(LOOKS_PER_PROFILE + 1);
        loop {
            tokio::select! {
                message = self.link.recv::<DaemonToAgent>() => match message {
                    Ok(message) => self.on_message(message),
                    Err(error) if error.is_end() => return,
                    Err(error) => tracing::warn!(%error, "the daemon is not understood"),
                },
                _ = ticks.tick(), if !self.cpus.is_empty() => {
                    samples.push(sampling::take(&self.cpus, &self.ranks));
                    if samples.len() > LOOKS_PER_PROFILE {
                        let oldest = samples.remove(0);
                        let newest = &samples[samples.len() - 1];
                        let profile = window::profile(&oldest, newest, self.speed);
                        if !self.tell(profile).await {
                            return;
                        }
                    }
                }
            }
        }
    }

    fn on_message(&mut self, message: DaemonToAgent) {
        match message {
            DaemonToAgent::Welcome { node, cpus, speed } => {
                bind(&cpus);
                self.cpus = cpus;
                self.speed = if speed > 0.0 { speed } else { calibration::speed() };
                tracing::info!(%node, cpus = ?self.cpus, speed = self.speed, "the agent looks after its node");
            }
            DaemonToAgent::Ranks(ranks) => self.ranks = ranks,
        }
    }

    /// Tells the daemon what is due or notable; false when it is gone.
    async fn tell(&mut self, profile: NodeProfile) -> bool {
        if let Some((at, last)) = &self.told
            && at.elapsed() < TELL_EVERY
            && !window::is_notable(last, &profile)
        {
            return true;
        }
        self.told = Some((Instant::now(), profile));
        self.link.send(&AgentToDaemon::Profile(profile)).await.is_ok()
    }
}

/// The agent measures the node's own CPUs, so it runs there.
fn bind(cpus: &[u32]) {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus
        .iter()
        .filter(|cpu| (**cpu as usize) < rustix::thread::CpuSet::MAX_CPU)
    {
        set.set(*cpu as usize);
    }
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::warn!(%error, "the agent is not bound to its node's CPUs");
    }
}
