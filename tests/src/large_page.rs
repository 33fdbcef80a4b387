//! A page of the dashboard with more ranks and nodes than a machine of tests can run: drawn as a real one is, served as
//! a real one is, of a cluster that is made up. Must never ask a daemon.

use pcm_proto::{
    control::{NodeState, NodeStatus},
    event::{Event, EventKind, Moved, Reconfigured},
    fabric::FabricReport,
    ids::{Bytes, Epoch, JobId, NodeName, Rank},
    job::{JobState, JobStatus, RankStatus},
    layout::Mode,
    series::{Sample, Series, Traffic},
};
use pcm_view::{
    dashboard::{Drawn, Format, Plan, RunningJob, Server, Shown, Source, cluster},
    report::Recording,
    time::now_us,
};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    sync::mpsc::channel,
    thread,
};
use tokio::runtime::Builder;

/// What `report --recording` writes of a job with so many ranks and nodes that has run for a while and goes on.
///
/// # Panics
/// Never: its names are names.
pub fn recording(ranks: u32, nodes: u32) -> String {
    let node = |number: u32| NodeName::new(format!("n{}", number % nodes)).expect("a name");
    let begin_us = now_us() - 512_000_000;
    let event = |second: u64, kind: EventKind| Event {
        time_us: begin_us + second * 1_000_000,
        job: Some(JobId(1)),
        epoch: Epoch(second),
        node: node(0),
        kind,
    };
    let accepted = EventKind::JobAccepted {
        name: "large".to_owned(),
        placement: (0..ranks).map(node).collect(),
        why: String::new(),
    };
    let changes = (1..100).map(|number| event(u64::from(number) * 5, reconfigured(number, ranks, node)));
    let events: Vec<Event> = std::iter::once(event(0, accepted)).chain(changes).collect();
    let sample = |second: u64| Sample {
        time_us: begin_us + second * 1_000_000,
        iteration: second * 100 + second % 7,
        ranks,
        loads: (0..nodes)
            .map(|number| (node(number), f64::from((number * 7 + second as u32) % 20) / 10.0))
            .collect(),
    };
    let series = Series {
        samples: (0..512).map(sample).collect(),
        thinning: 1,
        taken: 512,
        uses: Vec::new(),
        traffic: (0..ranks)
            .flat_map(|from| [1, 31, ranks - 1].map(|step| (from, (from + step) % ranks)))
            .map(|(from, to)| Traffic {
                from,
                to,
                messages: 9,
                bytes: u64::from(from + to),
            })
            .collect(),
    };
    let status = large(ranks, begin_us);
    serde_json::json!({ "status": status, "series": series, "events": events }).to_string()
}

/// A job of so many ranks that goes on.
fn large(ranks: u32, begin_us: u64) -> JobStatus {
    JobStatus {
        job: JobId(1),
        name: "large".to_owned(),
        state: JobState::Running,
        epoch: Epoch(100),
        size: ranks,
        nodes: Vec::new(),
        started_us: begin_us,
        end: None,
        coordinator: NodeName::new("n0").expect("a name"),
        reign: 0,
        spares: Vec::new(),
    }
}

/// One of many changes, each of which moves four ranks to the next node.
fn reconfigured(number: u32, ranks: u32, node: impl Fn(u32) -> NodeName) -> EventKind {
    let moved = |rank: u32| Moved {
        rank: Rank(rank),
        from: Some(node(rank)),
        to: Some(node(rank + 1)),
    };
    EventKind::Reconfigured(Box::new(Reconfigured {
        plan: "migrate".to_owned(),
        cause: "simulated".to_owned(),
        ranks_before: ranks,
        ranks_after: ranks,
        moved: (0..4).map(|place| moved((number * 4 + place) % ranks)).collect(),
        bytes_moved: Bytes(1 << 20),
        bytes_ahead: Bytes(0),
        pause_ms: 12.5,
        mode: Mode::Live,
        method: None,
        method_reason: None,
        placement: None,
        total_ms: 50.0,
        phases_ms: vec![("preparing".to_owned(), 40.0), ("moving".to_owned(), 10.0)],
    }))
}

/// A cluster of 1,000 ranks on 200 nodes, and what each look shows of it: four other ranks have moved, each rank is in
/// another call than before, and the story has gone on.
pub struct Large {
    looks: Vec<(Drawn, String)>,
    next: AtomicUsize,
}

impl Large {
    /// Ranks of its job.
    pub const RANKS: u32 = 1000;
    /// Nodes of the cluster.
    pub const NODES: u32 = 200;

    /// Draws every look.
    ///
    /// # Panics
    /// When what it made up cannot be read back.
    pub fn drawn() -> Self {
        let story = recording(Self::RANKS, Self::NODES);
        let now_us = now_us();
        let look = |moved: u32| {
            let story: Recording = serde_json::from_str(&story).expect("a recording");
            let html = story.content(now_us + u64::from(moved) * 1_000_000);
            (large_cluster(Self::RANKS, Self::NODES, moved), html)
        };
        Self {
            looks: (0..16).map(look).collect(),
            next: AtomicUsize::new(0),
        }
    }
}

impl Source for Large {
    async fn look(&self, _: Option<JobId>) -> Result<Shown, String> {
        let (cluster, html) = &self.looks[self.next.fetch_add(1, Ordering::Relaxed) % self.looks.len()];
        Ok(Shown {
            job: Some(1),
            nodes: (0..Self::NODES).map(|number| format!("n{number}")).collect(),
            cluster: cluster.clone(),
            html: html.clone(),
        })
    }

    async fn metrics(&self, _: Format) -> Result<String, String> {
        Err("none".to_owned())
    }

    async fn plan(&self, _: &[u8]) -> Result<Plan, String> {
        Err("nothing can be ordered".to_owned())
    }

    async fn carry_out(&self, _: &[u8]) -> Result<String, String> {
        Err("nothing can be ordered".to_owned())
    }
}

/// Serves a page until the tests end; its address.
///
/// # Panics
/// When there is no port for it.
pub fn served(source: impl Source) -> String {
    let (tell, address) = channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let server = Server::bind(0).await.expect("a port");
            tell.send(server.address()).expect("the test waits");
            server.run(source).await;
        });
    });
    address.recv().expect("an address")
}

fn large_cluster(ranks: u32, nodes: u32, moved: u32) -> Drawn {
    let name = |number: u32| NodeName::new(format!("n{}", number % nodes)).expect("a name");
    let node = |number: u32| NodeStatus {
        name: name(number),
        address: String::new(),
        site: String::new(),
        cpus: (0..8).collect(),
        state: NodeState::Up,
        speed: 1.0,
        load_by_others: 0.0,
        ranks: 5,
        free_memory: 1 << 30,
        daemon_pid: 1,
        fabric: FabricReport::default(),
        link: None,
        ends: None,
    };
    let call = if moved.is_multiple_of(2) { "-" } else { "Recv" };
    let rank = |number: u32| {
        let is_moved = number / 4 == moved;
        serde_json::json!({
            "rank": number, "process": number, "node": name(number + u32::from(is_moved)), "pid": 1,
            "iteration": 100, "iterations_here": 100, "useful_ms": 1.0, "wait_ms": 0.1, "memory": 0,
            "iterations_declared": null, "restored": 0, "call": call, "call_since_ms": 0.0, "peer": null, "tag": null,
            "bytes": null, "sent": 0, "received": 0, "registered": 1 << 20, "constant": 0
        })
    };
    let ranks: Vec<RankStatus> = (0..ranks)
        .map(|number| serde_json::from_value(rank(number)).expect("a rank"))
        .collect();
    let nodes: Vec<NodeStatus> = (0..nodes).map(node).collect();
    let status = large(ranks.len() as u32, 0);
    cluster(&nodes, &[RunningJob { status, ranks }], Some(JobId(1)))
}
