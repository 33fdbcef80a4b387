//! The processes that serve PMIx to ranks of Open MPI: starts and ends them, passes orders and reports, as
//! [`pcm_core::node::pmix`] decides. Looks into neither. They outlive a daemon that is killed: the next one connects to
//! the socket in their folder.

use super::event::Event;
use pcm_core::node::pmix::effect::{HelperId, PmixEffect, PmixNews};
use pcm_core::node::pmix::folder;
use pcm_proto::boot::BootSpec;
use pcm_proto::frame::{Decoder, FrameKind, PAYLOAD_LENGTH_MAX, decode, encode};
use pcm_proto::ids::NodeName;
use pcm_proto::pmix::{Order, Report};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Orders that wait at most for a helper that does not read: one that is so far behind is ended.
const ORDERS_MAX: usize = 65_536;

/// How long a helper may take to end after its orders have.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// The socket in a helper's folder.
const SOCKET: &str = "link";

#[derive(Debug)]
struct Helper {
    /// Dropping it ends the process, which gets `Stop` before if it still takes orders.
    orders: mpsc::Sender<Vec<u8>>,
    task: JoinHandle<()>,
}

impl Helper {
    fn tell(&self, order: &Order) -> Result<(), String> {
        let mut frame = Vec::new();
        encode(FrameKind::Message, order, PAYLOAD_LENGTH_MAX, &mut frame).map_err(|error| error.to_string())?;
        self.orders.try_send(frame).map_err(|error| error.to_string())
    }
}

/// All of them. Must be used inside a tokio runtime.
#[derive(Debug, Default)]
pub(super) struct PmixHelpers {
    helpers: BTreeMap<HelperId, Helper>,
    ending: Vec<JoinHandle<()>>,
}

impl PmixHelpers {
    pub(super) fn carry_out(&mut self, effect: PmixEffect, spec: &BootSpec, events: &mpsc::Sender<Event>) {
        self.ending.retain(|task| !task.is_finished());
        match effect {
            PmixEffect::Start {
                helper,
                serve,
                is_counted_on,
            } => {
                let folder = PathBuf::from(OsStr::from_bytes(&serve.folder));
                let (orders, waiting) = mpsc::channel(ORDERS_MAX);
                let task = run(helper, (folder, is_counted_on), spec.clone(), waiting, events.clone());
                let task = tokio::spawn(task);
                self.helpers.insert(helper, Helper { orders, task });
                self.tell(helper, &Order::Serve(*serve));
            }
            PmixEffect::Tell { helper, order } => self.tell(helper, &order),
            PmixEffect::Stop { helper } => self.stop(helper),
        }
    }

    fn tell(&mut self, helper: HelperId, order: &Order) {
        let told = self.helpers.get(&helper).map(|known| known.tell(order));
        if let Some(Err(error)) = told {
            tracing::warn!(job = %helper.job, error, "what serves PMIx cannot be given an order and is ended");
            self.stop(helper);
        }
    }

    fn stop(&mut self, helper: HelperId) {
        if let Some(known) = self.helpers.remove(&helper) {
            // One that does not take it is killed.
            _ = known.tell(&Order::Stop);
            self.ending.push(known.task);
        }
    }

    /// Ends all and waits until nothing is left of them.
    pub(super) async fn stop_all(&mut self) {
        for helper in self.helpers.keys().copied().collect::<Vec<_>>() {
            self.stop(helper);
        }
        for task in std::mem::take(&mut self.ending) {
            // It has nothing to say any more.
            _ = task.await;
        }
    }
}

/// Removes folders of dead helpers of this node. For the first daemon of a keeper: nothing counts on these.
pub(super) fn clear_folders(cluster_id: &str, node: &NodeName) {
    let prefix = folder::prefix_of_node(cluster_id, node);
    let entries = fs::read_dir(folder::PARENT).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().as_bytes().starts_with(prefix.as_bytes())) {
        // One of an earlier keeper that lives ends, and removes its own, when no daemon comes for it.
        if std::os::unix::net::UnixStream::connect(entry.path().join(SOCKET)).is_err() {
            remove(&entry.path());
        }
    }
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %folder.display(), %error, "the folder of what served PMIx is left");
    }
}

/// A helper from its start, or from where an earlier daemon left it, to its end.
async fn run(
    helper: HelperId,
    (folder, is_counted_on): (PathBuf, bool),
    spec: BootSpec,
    orders: mpsc::Receiver<Vec<u8>>,
    events: mpsc::Sender<Event>,
) {
    let reason = match begin(helper, (&folder, is_counted_on), &spec).await {
        Ok(process) => attend(helper, process, orders, &events).await,
        Err(reason) => reason,
    };
    let removed = tokio::task::spawn_blocking(move || remove(&folder)).await;
    if let Err(error) = removed {
        tracing::warn!(%error, "the folder of what served PMIx may be left");
    }
    let news = PmixNews::Ended { reason };
    // A daemon that has ended hears no more.
    _ = events.send(Event::Pmix { helper, news }).await;
}

/// A helper that runs.
struct Running {
    link: UnixStream,
    /// Unless an earlier daemon started it.
    child: Option<Child>,
}

async fn begin(helper: HelperId, (folder, is_counted_on): (&Path, bool), spec: &BootSpec) -> Result<Running, String> {
    let socket = folder.join(SOCKET);
    if let Ok(link) = UnixStream::connect(&socket).await {
        return Ok(Running { link, child: None });
    }
    if is_counted_on && folder.exists() {
        return Err("it ended while the daemon was away".to_owned());
    }
    remove(folder);
    let started = start(helper, folder, spec).map_err(|error| format!("it cannot be started: {error}"))?;
    let link = UnixStream::connect(&socket).await;
    let link = link.map_err(|error| format!("{} cannot be opened: {error}", socket.display()))?;
    let child = Some(started);
    Ok(Running { link, child })
}

/// Starts it with its socket, which takes connections before the process does.
fn start(helper: HelperId, folder: &Path, spec: &BootSpec) -> io::Result<Child> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(folder)?;
    let socket = OwnedFd::from(UnixListener::bind(folder.join(SOCKET))?);
    let (node, job) = (spec.node.name.as_str(), helper.job.to_string());
    let program = std::env::current_exe()?.with_file_name("pcm-pmix");
    let mut command = Command::new(&program);
    // For lists of processes.
    command.args([spec.cluster_id.as_str(), node, &job]);
    command.env("PCM_CLUSTER_ID", &spec.cluster_id).env("PCM_NODE", node);
    command.env("TMPDIR", folder).current_dir(folder);
    // What it has to say goes to the log, also while there is no daemon. The keeper kills the daemon's own group.
    let log = rustix::io::dup(rustix::stdio::stderr())?;
    command.stdin(socket).stdout(Stdio::from(log)).process_group(0);
    command
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))
}

/// Passes orders and reports until both have ended; why the process ended.
async fn attend(
    helper: HelperId,
    process: Running,
    orders: mpsc::Receiver<Vec<u8>>,
    events: &mpsc::Sender<Event>,
) -> String {
    let Running { link, mut child } = process;
    let peer = link.peer_cred().ok().and_then(|peer| peer.pid());
    let (reports, to_helper) = link.into_split();
    let (no_more, stopped) = oneshot::channel();
    let writer = tokio::spawn(write_orders(to_helper, orders, no_more));
    let too_long = async {
        // A writer that failed says so, too: then the process is dying.
        _ = stopped.await;
        tokio::time::sleep(ENDS_WITHIN).await;
    };
    let nonsense = tokio::select! {
        nonsense = read_reports(helper, reports, events) => nonsense,
        () = too_long => Some("it did not end when it should".to_owned()),
    };
    if nonsense.is_some() {
        kill(child.as_mut(), peer);
    }
    writer.abort();
    let Some(child) = &mut child else {
        return nonsense.unwrap_or_else(|| "it closed its link".to_owned());
    };
    let status = match tokio::time::timeout(ENDS_WITHIN, child.wait()).await {
        Ok(status) => status.map_or_else(|error| error.to_string(), |status| status.to_string()),
        // It has closed its link and stays.
        Err(_) => {
            kill(Some(child), None);
            "it does not end".to_owned()
        }
    };
    nonsense.unwrap_or(status)
}

/// One that ended by itself meanwhile is all right.
fn kill(child: Option<&mut Child>, peer: Option<i32>) {
    if let Some(child) = child {
        _ = child.start_kill();
    } else if let Some(pid) = peer.and_then(Pid::from_raw) {
        // It is no child of this process, and its link was open a moment ago.
        _ = kill_process(pid, Signal::KILL);
    }
}

/// Keeps the link open after the last order: the process closes it when it ends.
async fn write_orders(mut link: OwnedWriteHalf, mut orders: mpsc::Receiver<Vec<u8>>, no_more: oneshot::Sender<()>) {
    while let Some(frame) = orders.recv().await {
        if link.write_all(&frame).await.is_err() {
            break;
        }
    }
    // The other side may have seen the end before.
    _ = no_more.send(());
    std::future::pending::<()>().await;
}

/// Until the link closes; a reason where what it says is not understood.
async fn read_reports(helper: HelperId, mut link: OwnedReadHalf, events: &mpsc::Sender<Event>) -> Option<String> {
    let mut decoder = Decoder::new(PAYLOAD_LENGTH_MAX);
    let mut piece = vec![0; 16 << 10];
    loop {
        let length = match link.read(&mut piece).await {
            Ok(0) | Err(_) => return None,
            Ok(length) => length,
        };
        decoder.push(&piece[..length]);
        loop {
            let report: Report = match decoder.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) => match decode(frame.payload) {
                    Ok(report) => report,
                    Err(error) => return Some(format!("its report cannot be read: {error}")),
                },
                Err(error) => return Some(format!("its reports cannot be read: {error}")),
            };
            let news = PmixNews::Said(Box::new(report));
            if events.send(Event::Pmix { helper, news }).await.is_err() {
                return Some("the daemon has ended".to_owned());
            }
        }
    }
}
