//! The loop that records: asks for what ranks recorded a few times a second, for the nodes once a second, for events at
//! the end. Stops at its limits, on a signal, or with the job; the file is whole in each case.

use super::writer::{Counts, Writer};
use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::progress::ProgressLine;
use crate::{courtesy, lookup};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::ids::{JobId, ProcessId};
use pcm_proto::refusal::{JOB_ENDED, UNKNOWN_JOB};
use pcm_view::time;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// A rank keeps 8,192 entries, so 30,000 calls a second lose none.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// Load does not change faster.
const NODES_EVERY: Duration = Duration::from_secs(1);

/// What to record.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) job: String,
    pub(crate) out: PathBuf,
    pub(crate) limit: Duration,
    /// Calls and iterations after which it ends.
    pub(crate) entries_max: u64,
}

/// What was recorded.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) job: JobId,
    pub(crate) counts: Counts,
    pub(crate) seconds: f64,
}

/// Records until a limit, a signal or the job's end.
pub(crate) async fn record(cluster: &ClusterDir, wanted: &Wanted) -> Result<Summary, Failure> {
    courtesy::give_way();
    let mut link = Link::open(cluster).await?;
    let job = lookup::job(&mut link, &wanted.job).await?;
    let cannot = |error: std::io::Error| Failure::file("write", &wanted.out, &error);
    let catch = |kind| signal(kind).map_err(|error| Failure::system(format!("cannot catch signals: {error}")));
    let (mut interrupt, mut terminate) = (catch(SignalKind::interrupt())?, catch(SignalKind::terminate())?);
    let mut after = BTreeMap::new();
    // The first asking only switches recording on, and refuses a job that is not there before there is a file.
    ask(&mut link, job, &mut after, false).await?;
    let (since, origin_us) = (Instant::now(), time::now_us());
    let file = File::create(&wanted.out).map_err(cannot)?;
    let mut writer =
        Writer::new(BufWriter::new(file), &format!("job {job} {}", wanted.job), origin_us).map_err(cannot)?;
    let line = ProgressLine::new();
    let mut nodes_due = Duration::ZERO;
    let mut is_last = false;
    while !is_last {
        tokio::select! {
            () = tokio::time::sleep(ASK_EVERY.min(wanted.limit.saturating_sub(since.elapsed()))) => {}
            _ = interrupt.recv() => is_last = true,
            _ = terminate.recv() => is_last = true,
        }
        let entries = writer.counts.calls + writer.counts.iterations;
        is_last |= since.elapsed() >= wanted.limit || entries >= wanted.entries_max;
        let mut has_more = true;
        while has_more {
            match ask(&mut link, job, &mut after, is_last).await {
                Ok(chunks) => {
                    for chunk in &chunks {
                        writer.chunk(chunk).map_err(cannot)?;
                    }
                    // The last is not repeated: what ranks record then is behind the limit.
                    has_more = !is_last && chunks.iter().any(|chunk| chunk.has_more);
                }
                Err(failure) if [JOB_ENDED, UNKNOWN_JOB].contains(&failure.code.as_str()) => {
                    (has_more, is_last) = (false, true)
                }
                Err(failure) => return Err(failure),
            }
        }
        if since.elapsed() >= nodes_due {
            nodes_due = since.elapsed() + NODES_EVERY;
            if let DaemonToControl::Nodes(nodes) = link.ask(ControlToDaemon::Nodes, ASK_DEADLINE).await? {
                writer.nodes(&nodes, time::now_us()).map_err(cannot)?;
            }
            line.show(&recording(since.elapsed(), writer.counts));
        }
    }
    let seconds = since.elapsed().as_secs_f64();
    let events = ControlToDaemon::Events {
        job: Some(job),
        follow: false,
    };
    match link.ask(events, ASK_DEADLINE).await? {
        DaemonToControl::Events(events) => {
            for event in &events {
                writer.happened(event).map_err(cannot)?;
            }
        }
        other => return Err(Failure::unexpected("Events", &other)),
    }
    let counts = writer.finish().map_err(cannot)?;
    line.close();
    Ok(Summary { job, counts, seconds })
}

async fn ask(
    link: &mut Link,
    job: JobId,
    after: &mut BTreeMap<ProcessId, u64>,
    is_last: bool,
) -> Result<Vec<pcm_proto::trace::TraceChunk>, Failure> {
    let request = ControlToDaemon::Trace {
        job,
        after: after.iter().map(|(process, next)| (*process, *next)).collect(),
        is_last,
    };
    match link.ask(request, ASK_DEADLINE).await? {
        DaemonToControl::Trace(chunks) => {
            // A node that did not answer is asked from where it was; a process that ended costs one number.
            after.extend(chunks.iter().map(|chunk| (chunk.process, chunk.next)));
            Ok(chunks)
        }
        other => Err(Failure::unexpected("Trace", &other)),
    }
}

fn recording(elapsed: Duration, counts: Counts) -> String {
    format!("recording: {} s, {} calls", elapsed.as_secs(), counts.calls)
}
