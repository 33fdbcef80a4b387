//! The agent's process and its socket: starts and ends the one, sends over and listens on the other, as
//! [`pcm_core::node::agent`] decides.

use super::event::Event;
use super::files::Files;
use pcm_core::node::agent::AgentEffect;
use pcm_core::node::requester::LinkId;
use pcm_fabric::{Link, LocalEndpoint, RecvError, Sender};
use pcm_proto::agent::{AgentToDaemon, DaemonToAgent, TUNING_FILE, TUNING_VARIABLE};
use pcm_proto::boot::BootSpec;
use pcm_proto::control::LogOf;
use pcm_proto::handshake::{Identity, Role};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};

/// Links of agents are numbered apart from those that are accepted, which never are so many.
const FIRST_LINK: u64 = 1 << 63;

/// The agent answers before it does anything else; a loaded machine takes its time to start a process.
const LINKED_WITHIN: Duration = Duration::from_secs(30);

/// The process, while it runs, and its link, while there is one.
#[derive(Debug, Default)]
pub(super) struct AgentProcess {
    /// Dropping it ends the process.
    process: Option<oneshot::Sender<()>>,
    link: Option<(LinkId, Sender)>,
}

impl AgentProcess {
    /// Carries out an effect; an agent that cannot be started ends at once.
    pub(super) fn carry_out(
        &mut self,
        effect: AgentEffect,
        spec: &BootSpec,
        files: &Files,
        events: &mpsc::Sender<Event>,
    ) {
        match effect {
            AgentEffect::Start { life } => {
                let (process, stop) = oneshot::channel();
                self.process = Some(process);
                tokio::spawn(run(life, spec.clone(), files.clone(), events.clone(), stop));
            }
            AgentEffect::Stop => self.stop(),
            AgentEffect::Send(message) => self.send(&message),
        }
    }

    /// Ends the process and closes its link.
    pub(super) fn stop(&mut self) {
        self.process = None;
        self.link = None;
    }

    fn send(&self, message: &DaemonToAgent) {
        if let Some((_, sender)) = &self.link
            && let Err(error) = sender.try_send(message)
        {
            tracing::debug!(%error, "a message for the agent was not sent");
        }
    }

    pub(super) fn on_linked(&mut self, link: LinkId, sender: Sender) {
        self.link = Some((link, sender));
    }

    pub(super) fn on_lost(&mut self, link: LinkId) {
        self.link.take_if(|(known, _)| *known == link);
    }
}

/// A process of this life until it ends or `stop` is dropped.
async fn run(life: u64, spec: BootSpec, files: Files, events: mpsc::Sender<Event>, mut stop: oneshot::Receiver<()>) {
    let log = tokio::select! {
        log = files.log(LogOf::Agent) => log,
        _ = &mut stop => return,
    };
    let reason = match start(life, &spec, log, &events) {
        Ok(mut child) => {
            let status = tokio::select! {
                status = child.wait() => status,
                _ = stop => return,
            };
            status.map_or_else(|error| error.to_string(), |status| status.to_string())
        }
        Err(error) => format!("it cannot be started: {error}"),
    };
    let _ = events.send(Event::AgentEnded { life, reason }).await;
}

fn start(life: u64, spec: &BootSpec, log: Option<File>, events: &mpsc::Sender<Event>) -> io::Result<Child> {
    // A pair has no name that another user could take, and the agent alone has the other end.
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(std::env::current_exe()?.with_file_name("ios-agent"));
    let node = &spec.node.name;
    command.args([spec.cluster_id.as_str(), node.as_str()]);
    command
        .env("PCM_CLUSTER_ID", &spec.cluster_id)
        .env("PCM_NODE", node.as_str())
        .env(TUNING_VARIABLE, spec.cluster_dir.join(TUNING_FILE));
    command
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(log.map_or_else(Stdio::null, Stdio::from));
    command.kill_on_drop(true);
    let child = command.spawn()?;
    // The command holds the agent's end, and the end of an agent is noticed only when no process does.
    drop(command);
    let identity = Identity::new(Role::Daemon {
        node: spec.node.name.clone(),
    });
    tokio::spawn(serve_agent(ours, identity, life, events.clone()));
    Ok(child)
}

/// Links with the agent of this life and listens to it. One that does not answer as an agent is as good as none.
async fn serve_agent(ours: UnixStream, identity: Identity, life: u64, events: mpsc::Sender<Event>) {
    let link = match LocalEndpoint::new(identity).over(ours.into(), LINKED_WITHIN).await {
        Ok(link) => link,
        Err(error) => return tracing::warn!(%error, "the agent does not answer"),
    };
    if !matches!(link.peer().role, Role::Agent { .. }) {
        return tracing::warn!(role = %link.peer().role, "what was started as the agent is none");
    }
    listen_to_agent(link, LinkId(FIRST_LINK + life), &events).await;
}

/// Passes on what comes in on the agent's link until its end.
async fn listen_to_agent(link: Link, id: LinkId, events: &mpsc::Sender<Event>) {
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
