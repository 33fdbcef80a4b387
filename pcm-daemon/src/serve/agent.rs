//! The node's agent: started beside the daemon, started again when it ends, listened to while it lives. What it says
//! is advice; no job depends on it.

use super::agent_messages::{Talk, Wish};
use super::daemon::Daemon;
use super::event::Event;
use pcm_core::node::requester::LinkId;
use pcm_core::node::timer::Timer;
use pcm_fabric::{Link, LocalAddress, RecvError, Sender};
use pcm_proto::agent::{AgentToDaemon, DaemonToAgent, TUNING_FILE, TUNING_VARIABLE};
use pcm_proto::control::LogOf;
use pcm_proto::event::EventKind;
use pcm_proto::ids::{Epoch, NodeName};
use pcm_proto::keeper::ProcessKey;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot};

/// Pause before an agent that failed at once is started again; doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// An agent that lived so long had come up.
const HEALTHY_AFTER: Duration = Duration::from_secs(10);

/// An agent says something every second. One that has said nothing for so long is stopped, stuck or kept from the CPU
/// for good; a new one costs nothing.
const SILENT_MAX: Duration = Duration::from_secs(15);

/// The agent as the daemon sees it.
#[derive(Debug, Default)]
pub(super) struct Agent {
    link: Option<(LinkId, Sender)>,
    /// Dropping it ends the process.
    process: Option<oneshot::Sender<()>>,
    began: Option<Instant>,
    heard: Option<Instant>,
    pause: Duration,
    speed: f64,
    pub(super) talk: Talk,
}

impl Agent {
    pub(super) fn sender(&self) -> Option<&Sender> {
        self.link.as_ref().map(|(_, sender)| sender)
    }
}

/// The name of the local socket on which a daemon serves its agent.
pub(super) fn local_address(cluster_id: &str, node: &NodeName) -> LocalAddress {
    LocalAddress::Abstract(format!("pcm-{cluster_id}-{node}"))
}

impl Daemon {
    pub(super) fn start_agent(&mut self) {
        if self.agent.process.is_some() {
            return;
        }
        let Ok(program) = std::env::current_exe().map(|exe| exe.with_file_name("ios-agent")) else {
            return;
        };
        let mut command = Command::new(program);
        let log = super::logs::path(&self.spec.cluster_dir, &self.own, LogOf::Agent);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log);
        command.args([self.spec.cluster_id.as_str(), self.own.as_str()]);
        command
            .env("PCM_CLUSTER_ID", &self.spec.cluster_id)
            .env("PCM_NODE", self.own.as_str())
            .env(TUNING_VARIABLE, self.spec.cluster_dir.join(TUNING_FILE));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.map_or_else(|_| Stdio::null(), Stdio::from));
        command.kill_on_drop(true);
        self.agent.began = Some(Instant::now());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return self.on_agent_ended(&format!("it cannot be started: {error}")),
        };
        let (process, stop) = oneshot::channel::<()>();
        self.agent.process = Some(process);
        self.agent.heard = self.agent.began;
        self.out.arm(SILENT_MAX, Timer::AgentSilent);
        let events = self.events.clone();
        tokio::spawn(async move {
            let status = tokio::select! {
                status = child.wait() => status,
                _ = stop => return,
            };
            let reason = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            let _ = events.send(Event::AgentEnded { reason }).await;
        });
    }

    /// Looks whether the agent still says something.
    pub(super) fn on_agent_silence(&mut self) {
        let Some(heard) = self.agent.heard.filter(|_| self.agent.process.is_some()) else {
            return;
        };
        match SILENT_MAX.checked_sub(heard.elapsed()) {
            Some(left) if !left.is_zero() => self.out.arm(left, Timer::AgentSilent),
            _ => self.on_agent_ended(&format!("it has said nothing for {} s", SILENT_MAX.as_secs())),
        }
    }

    pub(super) fn on_agent_ended(&mut self, reason: &str) {
        self.agent.process = None;
        self.on_agent_unlinked();
        let was_healthy = self.agent.began.is_some_and(|began| began.elapsed() > HEALTHY_AFTER);
        self.agent.pause = if was_healthy {
            PAUSE_MIN
        } else {
            (self.agent.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX)
        };
        self.note(
            None,
            Epoch(0),
            EventKind::AgentRestarted {
                reason: reason.to_owned(),
            },
        );
        self.out.arm(self.agent.pause, Timer::Agent);
    }

    /// Ends the agent; it is not started again.
    pub(super) fn stop_agent(&mut self) {
        self.agent.process = None;
        self.on_agent_unlinked();
    }

    pub(super) fn on_agent_linked(&mut self, link: LinkId, sender: Sender) {
        let welcome = DaemonToAgent::Welcome {
            node: self.own.clone(),
            cpus: self.cpus.clone(),
            speed: self.agent.speed,
        };
        if let Err(error) = sender.try_send(&welcome) {
            tracing::warn!(%error, "the agent was not welcomed");
        }
        self.agent.link = Some((link, sender));
        self.agent.talk = Talk::default();
        self.tell_agent_levels();
        self.tell_agent_ranks();
    }

    pub(super) fn on_agent_said(&mut self, link: LinkId, message: AgentToDaemon) {
        if self.agent.link.as_ref().is_none_or(|(known, _)| *known != link) {
            return;
        }
        self.agent.heard = Some(Instant::now());
        match message {
            AgentToDaemon::Ready { pid } => tracing::info!(pid, "the agent is there"),
            AgentToDaemon::Profile(profile) => {
                self.agent.speed = profile.speed;
                let own = self.nodes.own_mut();
                own.speed = profile.speed;
                own.load_by_others = profile.load_by_others;
                own.free_memory = profile.free_memory;
            }
            AgentToDaemon::Sample { about } => self.on_agent_samples(about),
            AgentToDaemon::Tell { to, message } => self.on_agent_tells(&to, message),
            AgentToDaemon::Propose {
                number,
                job,
                epoch,
                change,
                cause,
            } => self.on_agent_proposes(
                number,
                Wish {
                    job,
                    epoch,
                    change,
                    cause,
                },
            ),
            AgentToDaemon::Decided { job, decision } => self.on_agent_decided(job, decision),
        }
    }

    fn on_agent_unlinked(&mut self) {
        self.agent.link = None;
        self.links.on_agent_gone();
    }

    /// The link is gone. A process that is still there without it is of no use.
    pub(super) fn on_agent_lost(&mut self, link: LinkId, nonsense: Option<String>) {
        if self.agent.link.as_ref().is_none_or(|(known, _)| *known != link) {
            return;
        }
        self.on_agent_unlinked();
        if let Some(nonsense) = nonsense
            && self.agent.process.is_some()
        {
            self.on_agent_ended(&format!("it is not understood: {nonsense}"));
        }
    }

    /// Tells the agent which processes are ours.
    pub(super) fn tell_agent_ranks(&mut self) {
        let Some((_, sender)) = &self.agent.link else { return };
        let ranks = self.parts.iter().flat_map(|(job, part)| {
            let key = |process| ProcessKey { job: *job, process };
            let alive = part.state.alive();
            alive.filter_map(move |process| Some((key(process), part.ranks.pid(process)?)))
        });
        if let Err(error) = sender.try_send(&DaemonToAgent::Ranks(ranks.collect())) {
            tracing::debug!(%error, "the agent was not told of the ranks");
        }
    }
}

/// Passes on what comes in on the agent's link until its end.
pub(super) async fn listen_to_agent(link: Link, id: LinkId, events: &mpsc::Sender<Event>) {
    let (sender, mut receiver) = link.split();
    if events.send(Event::AgentLinked { link: id, sender }).await.is_err() {
        return;
    }
    let nonsense = loop {
        match receiver.recv::<AgentToDaemon>().await {
            Ok(message) => {
                if events.send(Event::AgentSaid { link: id, message }).await.is_err() {
                    return;
                }
            }
            Err(RecvError::Closed | RecvError::Ended(_)) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    let _ = events.send(Event::AgentLost { link: id, nonsense }).await;
}
