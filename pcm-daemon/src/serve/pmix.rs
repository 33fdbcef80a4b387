//! The processes that serve PMIx to ranks of Open MPI: starts and ends them, passes orders and reports, as
//! [`pcm_core::node::pmix`] decides. Looks into neither.

use super::event::Event;
use pcm_core::node::pmix::effect::{HelperId, PmixEffect, PmixNews};
use pcm_core::node::pmix::folder;
use pcm_proto::boot::BootSpec;
use pcm_proto::frame::{Decoder, FrameKind, PAYLOAD_LENGTH_MAX, decode, encode};
use pcm_proto::ids::NodeName;
use pcm_proto::pmix::{Order, Report};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Orders that wait at most for a helper that does not read: one that is so far behind is ended.
const ORDERS_MAX: usize = 65_536;

/// How long a helper may take to end after its orders have.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// Longest line of a helper that goes to the log.
const LINE_BYTES_MAX: usize = 4096;

#[derive(Debug)]
struct Helper {
    /// Dropping it ends the process.
    orders: mpsc::Sender<Vec<u8>>,
    task: JoinHandle<()>,
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
            PmixEffect::Start { helper, serve } => {
                let folder = PathBuf::from(OsStr::from_bytes(&serve.folder));
                let (orders, waiting) = mpsc::channel(ORDERS_MAX);
                let task = tokio::spawn(run(helper, folder, spec.clone(), waiting, events.clone()));
                self.helpers.insert(helper, Helper { orders, task });
                self.tell(helper, &Order::Serve(*serve));
            }
            PmixEffect::Tell { helper, order } => self.tell(helper, &order),
            PmixEffect::Stop { helper } => self.stop(helper),
        }
    }

    fn tell(&mut self, helper: HelperId, order: &Order) {
        let Some(known) = self.helpers.get(&helper) else { return };
        let mut frame = Vec::new();
        let framed = encode(FrameKind::Message, order, PAYLOAD_LENGTH_MAX, &mut frame);
        let told = framed
            .map_err(|error| error.to_string())
            .and_then(|_| known.orders.try_send(frame).map_err(|error| error.to_string()));
        if let Err(error) = told {
            tracing::warn!(job = %helper.job, error, "what serves PMIx cannot be given an order and is ended");
            self.stop(helper);
        }
    }

    fn stop(&mut self, helper: HelperId) {
        if let Some(Helper { orders, task }) = self.helpers.remove(&helper) {
            drop(orders);
            self.ending.push(task);
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

/// Removes folders that an earlier daemon of this node left when it was killed.
pub(super) fn clear_folders(cluster_id: &str, node: &NodeName) {
    let prefix = folder::prefix_of_node(cluster_id, node);
    let entries = fs::read_dir(folder::PARENT).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().as_bytes().starts_with(prefix.as_bytes())) {
        remove(&entry.path());
    }
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %folder.display(), %error, "the folder of what served PMIx is left");
    }
}

/// A helper from its start to its end.
async fn run(
    helper: HelperId,
    folder: PathBuf,
    spec: BootSpec,
    orders: mpsc::Receiver<Vec<u8>>,
    events: mpsc::Sender<Event>,
) {
    let reason = match start(helper, &folder, &spec) {
        Ok(child) => attend(helper, child, orders, &events).await,
        Err(error) => format!("it cannot be started: {error}"),
    };
    let removed = tokio::task::spawn_blocking(move || remove(&folder)).await;
    if let Err(error) = removed {
        tracing::warn!(%error, "the folder of what served PMIx may be left");
    }
    let news = PmixNews::Ended { reason };
    // A daemon that has ended hears no more.
    _ = events.send(Event::Pmix { helper, news }).await;
}

fn start(helper: HelperId, folder: &Path, spec: &BootSpec) -> io::Result<Child> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(folder)?;
    let (node, job) = (spec.node.name.as_str(), helper.job.to_string());
    let program = std::env::current_exe()?.with_file_name("pcm-pmix");
    let mut command = Command::new(&program);
    // For lists of processes.
    command.args([spec.cluster_id.as_str(), node, &job]);
    command.env("PCM_CLUSTER_ID", &spec.cluster_id).env("PCM_NODE", node);
    command.env("TMPDIR", folder).current_dir(folder);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.kill_on_drop(true);
    command
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))
}

/// Passes orders and reports until both have ended; why the process ended.
async fn attend(
    helper: HelperId,
    mut child: Child,
    orders: mpsc::Receiver<Vec<u8>>,
    events: &mpsc::Sender<Event>,
) -> String {
    let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return "it has no pipes".to_owned();
    };
    let (no_more, stopped) = oneshot::channel();
    let writer = tokio::spawn(write_orders(stdin, orders, no_more));
    let logger = tokio::spawn(log_lines(helper, stderr));
    let too_long = async {
        // A writer that failed says so, too: then the process is dying.
        _ = stopped.await;
        tokio::time::sleep(ENDS_WITHIN).await;
    };
    let nonsense = tokio::select! {
        nonsense = read_reports(helper, stdout, events) => nonsense,
        () = too_long => Some("it did not end when it should".to_owned()),
    };
    if nonsense.is_some() {
        // One that ended by itself meanwhile is all right.
        _ = child.start_kill();
    }
    let status = match tokio::time::timeout(ENDS_WITHIN, child.wait()).await {
        Ok(status) => status.map_or_else(|error| error.to_string(), |status| status.to_string()),
        // It has closed its output and stays.
        Err(_) => {
            _ = child.start_kill();
            "it does not end".to_owned()
        }
    };
    writer.abort();
    logger.abort();
    nonsense.unwrap_or(status)
}

async fn write_orders(mut stdin: ChildStdin, mut orders: mpsc::Receiver<Vec<u8>>, no_more: oneshot::Sender<()>) {
    while let Some(frame) = orders.recv().await {
        if stdin.write_all(&frame).await.is_err() {
            break;
        }
    }
    // The other side may have seen the end before.
    _ = no_more.send(());
}

/// Until its output ends; a reason where what it says is not understood.
async fn read_reports(helper: HelperId, mut stdout: ChildStdout, events: &mpsc::Sender<Event>) -> Option<String> {
    let mut decoder = Decoder::new(PAYLOAD_LENGTH_MAX);
    let mut piece = vec![0; 16 << 10];
    loop {
        let length = match stdout.read(&mut piece).await {
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

async fn log_lines(helper: HelperId, stderr: ChildStderr) {
    let mut lines = BufReader::new(stderr).split(b'\n');
    while let Ok(Some(mut line)) = lines.next_segment().await {
        line.truncate(LINE_BYTES_MAX);
        tracing::info!(job = %helper.job, said = %String::from_utf8_lossy(&line), "what serves PMIx");
    }
}
