//! The trace event format of Chrome, which Perfetto reads too: nodes are its processes, ranks its threads, and process
//! number 1 is the job. Writes as it goes; keeps only what names things and where iterations began.

use pcm_proto::control::NodeStatus;
use pcm_proto::event::{Event, EventKind, Reconfigured};
use pcm_proto::ids::{NodeName, ProcessId, Rank};
use pcm_proto::page::ANY;
use pcm_proto::trace::{HELD, ITERATION, TraceChunk, TraceEntry};
use pcm_view::sentences::event_words;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Number of the job among the processes of the trace.
const JOB: u32 = 1;
/// Its line of reconfigurations, and the one of all other events.
const RECONFIGURATIONS: u32 = 1;
const EVENTS: u32 = 2;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) calls: u64,
    pub(crate) iterations: u64,
    pub(crate) reconfigurations: u64,
    pub(crate) lost: u64,
    pub(crate) ranks: u64,
}

/// See the file head.
pub(super) struct Writer<W> {
    out: W,
    /// Nanoseconds since 1970 of time 0.
    origin_ns: i64,
    has_events: bool,
    nodes: BTreeMap<NodeName, Node>,
    threads: BTreeMap<ProcessId, Rank>,
    /// The iteration each process is in: when it began, its number.
    open: BTreeMap<ProcessId, (i64, u64)>,
    pub(super) counts: Counts,
}

#[derive(Clone, Copy)]
struct Node {
    number: u32,
    /// Taken once, so that entries of two readings keep their order.
    offset_ns: Option<i64>,
}

/// One stretch of time on a line. Name and arguments are JSON already: there are tens of thousands a second.
struct Slice<'a> {
    line: (u32, u32),
    name: &'a str,
    category: &'a str,
    begin_ns: i64,
    ns: i64,
    arguments: String,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W, title: &str, origin_us: u64) -> io::Result<Self> {
        let mut writer = Self {
            out,
            origin_ns: origin_us as i64 * 1000,
            has_events: false,
            nodes: BTreeMap::new(),
            threads: BTreeMap::new(),
            open: BTreeMap::new(),
            counts: Counts::default(),
        };
        writer
            .out
            .write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
        writer.name("process_name", (JOB, 0), title)?;
        writer.name("thread_name", (JOB, RECONFIGURATIONS), "reconfigurations")?;
        writer.name("thread_name", (JOB, EVENTS), "events")?;
        Ok(writer)
    }

    /// What a process recorded.
    pub(super) fn chunk(&mut self, chunk: &TraceChunk) -> io::Result<()> {
        let node = self.node(&chunk.node)?;
        let offset_ns = node.offset_ns.unwrap_or(chunk.epoch_offset_ns);
        if let Some(node) = self.nodes.get_mut(&chunk.node) {
            node.offset_ns = Some(offset_ns);
        }
        let line = (node.number, chunk.process.0);
        if self.threads.insert(chunk.process, chunk.rank) != Some(chunk.rank) {
            self.name(
                "thread_name",
                line,
                &format!("rank {} (process {})", chunk.rank, chunk.process),
            )?;
        }
        if chunk.lost > 0 {
            self.counts.lost += chunk.lost;
            // Where it began is among what was lost.
            self.open.remove(&chunk.process);
        }
        let names: BTreeMap<u16, String> = chunk
            .names
            .iter()
            .map(|(function, name)| (*function, quoted(&format!("MPI_{name}"))))
            .collect();
        for entry in &chunk.entries {
            let begin_ns = entry.begin_ns as i64 + offset_ns - self.origin_ns;
            self.entry(line, chunk.process, begin_ns, entry, &names)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        line: (u32, u32),
        process: ProcessId,
        begin_ns: i64,
        entry: &TraceEntry,
        names: &BTreeMap<u16, String>,
    ) -> io::Result<()> {
        let (name, category, arguments) = match entry.function {
            ITERATION => {
                let Some((began_ns, number)) = self.open.insert(process, (begin_ns, entry.bytes)) else {
                    return Ok(());
                };
                self.counts.iterations += 1;
                return self.slice(&Slice {
                    line,
                    name: "\"iteration\"",
                    category: "iteration",
                    begin_ns: began_ns,
                    ns: begin_ns - began_ns,
                    arguments: format!("{{\"number\":{number}}}"),
                });
            }
            HELD => (
                "\"held by libpcm\"",
                "reconfiguration",
                format!("{{\"iteration\":{}}}", entry.bytes),
            ),
            function => {
                self.counts.calls += 1;
                let name = names.get(&function).map_or("\"MPI call\"", String::as_str);
                (name, "mpi", call_arguments(entry))
            }
        };
        self.slice(&Slice {
            line,
            name,
            category,
            begin_ns,
            ns: entry.ns as i64,
            arguments,
        })
    }

    /// How the nodes are.
    pub(super) fn nodes(&mut self, statuses: &[NodeStatus], now_us: u64) -> io::Result<()> {
        for status in statuses {
            let node = self.node(&status.name)?;
            let load = json!({ "CPUs": status.load_by_others });
            for (name, arguments) in [("load by others", load), ("ranks", json!({ "ranks": status.ranks }))] {
                let at = self.micros(now_us as i64 * 1000 - self.origin_ns);
                self.event(&json!({
                    "ph": "C", "pid": node.number, "name": name, "ts": at, "args": arguments,
                }))?;
            }
        }
        Ok(())
    }

    /// What happened to the job; what happened before the trace began is left out.
    pub(super) fn happened(&mut self, event: &Event) -> io::Result<()> {
        let at_ns = event.time_us as i64 * 1000 - self.origin_ns;
        if at_ns < 0 {
            return Ok(());
        }
        if let EventKind::Reconfigured(done) = &event.kind {
            return self.reconfiguration(at_ns, done);
        }
        let kind = match serde_json::to_value(&event.kind) {
            Ok(fields) => fields["kind"].as_str().unwrap_or("event").to_owned(),
            Err(_) => "event".to_owned(),
        };
        let at = self.micros(at_ns);
        self.event(&json!({
            "ph": "i", "s": "p", "pid": JOB, "tid": EVENTS, "name": kind, "ts": at,
            "args": { "text": event_words(event) },
        }))
    }

    /// It is told when it is over; its phases followed each other.
    fn reconfiguration(&mut self, end_ns: i64, done: &Reconfigured) -> io::Result<()> {
        self.counts.reconfigurations += 1;
        let nanos = |ms: f64| (ms * 1e6) as i64;
        let whole: i64 = done.phases_ms.iter().map(|(_, ms)| nanos(*ms)).sum();
        let mut begin_ns = end_ns - whole;
        let line = (JOB, RECONFIGURATIONS);
        self.slice(&Slice {
            line,
            name: &quoted(&done.plan),
            category: "reconfiguration",
            begin_ns,
            ns: whole,
            arguments: json!({
                "cause": done.cause, "ranks_before": done.ranks_before, "ranks_after": done.ranks_after,
                "moved": done.moved.len(), "bytes_moved": done.bytes_moved.0, "pause_ms": done.pause_ms,
                "total_ms": done.total_ms,
            })
            .to_string(),
        })?;
        for (phase, ms) in &done.phases_ms {
            let ns = nanos(*ms);
            self.slice(&Slice {
                line,
                name: &quoted(phase),
                category: "phase",
                begin_ns,
                ns,
                arguments: "{}".to_owned(),
            })?;
            begin_ns += ns;
        }
        Ok(())
    }

    /// Ends the document.
    pub(super) fn finish(mut self) -> io::Result<Counts> {
        self.counts.ranks = self.threads.len() as u64;
        let lost = json!({ "lost": self.counts.lost, "writer": concat!("pcmctl ", env!("CARGO_PKG_VERSION")) });
        write!(self.out, "\n],\"otherData\":{lost}}}\n")?;
        self.out.flush()?;
        Ok(self.counts)
    }

    fn node(&mut self, name: &NodeName) -> io::Result<Node> {
        if let Some(node) = self.nodes.get(name) {
            return Ok(*node);
        }
        let node = Node {
            number: JOB + 1 + self.nodes.len() as u32,
            offset_ns: None,
        };
        self.nodes.insert(name.clone(), node);
        self.name("process_name", (node.number, 0), &format!("node {name}"))?;
        Ok(node)
    }

    fn name(&mut self, kind: &str, (process, thread): (u32, u32), name: &str) -> io::Result<()> {
        self.event(&json!({ "ph": "M", "pid": process, "tid": thread, "name": kind, "args": { "name": name } }))
    }

    /// What began before the trace is shown from its beginning.
    fn slice(&mut self, slice: &Slice<'_>) -> io::Result<()> {
        let begin_ns = slice.begin_ns.max(0);
        let ns = (slice.begin_ns + slice.ns - begin_ns).max(0);
        self.separate()?;
        write!(
            self.out,
            "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"name\":{},\"cat\":\"{}\",\
             \"ts\":{}.{:03},\"dur\":{}.{:03},\"args\":{}}}",
            slice.line.0,
            slice.line.1,
            slice.name,
            slice.category,
            begin_ns / 1000,
            begin_ns % 1000,
            ns / 1000,
            ns % 1000,
            slice.arguments
        )
    }

    fn micros(&self, ns: i64) -> f64 {
        ns as f64 / 1000.0
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        self.separate()?;
        serde_json::to_writer(&mut self.out, event).map_err(io::Error::from)
    }

    fn separate(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.has_events, true) {
            self.out.write_all(b",\n")?;
        }
        Ok(())
    }
}

/// A text as JSON has it.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn call_arguments(entry: &TraceEntry) -> String {
    let any = |name: &str, number: i32| match number {
        ANY => format!(",\"{name}\":\"any\""),
        number => format!(",\"{name}\":{number}"),
    };
    let peer = entry.peer().map(|peer| any("peer", peer)).unwrap_or_default();
    let tag = entry.tag().map(|tag| any("tag", tag)).unwrap_or_default();
    format!("{{\"bytes\":{}{peer}{tag}}}", entry.bytes)
}
