//! Stacks of ranks, read by a process of their own: neither a slow disk nor a strange program file holds the daemon.

use super::event::Event;
use pcm_proto::ids::{NodeName, ProcessId, Rank};
use pcm_proto::stack::{ProcessStack, RankStack};
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// What was not read until then is left out; the coordinator waits a second.
const READ_WITHIN: Duration = Duration::from_millis(900);

/// Longest line of one process: 16 threads of 64 frames with long names.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Reads the stacks of these processes of the node `own` and hands them to the loop as the answer to a question.
pub(super) fn read(
    own: &NodeName,
    processes: Vec<(ProcessId, u32)>,
    (node, ask): (NodeName, u64),
    events: mpsc::Sender<Event>,
) {
    let own = own.clone();
    tokio::spawn(async move {
        let pids: Vec<u32> = processes.iter().map(|(_, pid)| *pid).collect();
        let (mut found, reason) = if pids.is_empty() {
            (BTreeMap::new(), String::new())
        } else {
            ask_helper(&pids).await
        };
        let stacks = processes.into_iter().map(|(process, pid)| RankStack {
            // Which rank it is the coordinator knows.
            rank: Rank(0),
            process,
            node: own.clone(),
            stack: found.remove(&pid).unwrap_or_else(|| ProcessStack {
                note: Some(reason.clone()),
                ..ProcessStack::default()
            }),
        });
        let stacks = stacks.collect();
        // A daemon that has ended answers no more.
        _ = events.send(Event::Stacks { node, ask, stacks }).await;
    });
}

/// What the helper found in time, and why there is no more.
async fn ask_helper(pids: &[u32]) -> (BTreeMap<u32, ProcessStack>, String) {
    let until = Instant::now() + READ_WITHIN;
    let mut found = BTreeMap::new();
    let reason = match timeout_at(until, collect(pids, &mut found)).await {
        Ok(Ok(())) => "the reader of stacks ended early".to_owned(),
        Ok(Err(error)) => format!("the reader of stacks failed: {error}"),
        Err(_) => format!("its stack was not read within {} ms", READ_WITHIN.as_millis()),
    };
    (found, reason)
}

async fn collect(pids: &[u32], found: &mut BTreeMap<u32, ProcessStack>) -> std::io::Result<()> {
    let mut helper = Command::new("/proc/self/exe")
        .arg("stacks")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let words: Vec<String> = pids.iter().map(u32::to_string).collect();
    if let Some(mut input) = helper.stdin.take() {
        input.write_all((words.join(" ") + "\n").as_bytes()).await?;
    }
    if let Some(output) = helper.stdout.take() {
        let mut lines = BufReader::new(output).lines();
        while let Some(line) = lines.next_line().await? {
            if line.len() > LINE_BYTES_MAX {
                break;
            }
            let one: pcm_stacks::Found = serde_json::from_str(&line)?;
            found.insert(one.pid, one.stack);
        }
    }
    helper.wait().await?;
    Ok(())
}
