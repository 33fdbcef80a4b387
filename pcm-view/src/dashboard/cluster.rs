//! The cluster on the page: each node a box, each rank a tile in the colour of its job. The script of the page makes
//! tiles and boxes movable; what is drawn here says of each what it is. All names are escaped.

use crate::svg::escape;
use crate::table::bytes;
use crate::time;
use pcm_proto::control::{NodeState, NodeStatus};
use pcm_proto::ids::{Iteration, JobId, NodeName};
use pcm_proto::job::{JobStatus, RankStatus};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Colours of jobs, which the style sheet has as `k0` and so on; they are told apart by people who see few colours.
const COLOURS: u64 = 7;

/// Light and dark, on a narrow screen, and for a finger as for a mouse.
pub(super) const STYLE: &str = "\
:root{--k0:#e69f00;--k1:#56b4e9;--k2:#009e73;--k3:#f0e442;--k4:#9966ff;--k5:#d55e00;--k6:#cc79a7}\
header{position:sticky;top:0;z-index:5;background:var(--back)}\
.jobs{display:flex;flex-wrap:wrap;gap:6px 18px;margin:.4em 0}\
.job{display:flex;flex-wrap:wrap;gap:6px;align-items:center}.job [data-act=show]{color:#14181d;max-width:none}\
.job [aria-pressed=true]{outline:2px solid var(--strong);outline-offset:1px}\
.boxes{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,165px),1fr));gap:10px}\
.box{border:1px solid var(--line);border-radius:8px;padding:6px 8px;min-height:7em}\
.box.over{outline:3px solid var(--strong)}.box.draining{border-style:dashed}.box.suspect,.box.gone{opacity:.6}\
.box h3{font-size:1rem;margin:0;display:flex;justify-content:space-between;align-items:center;cursor:grab;\
touch-action:none}.box p{font-size:.8rem;margin:.1em 0}.box button{max-width:none}\
.bar{display:flex;height:8px;border-radius:4px;overflow:hidden;background:var(--line);margin:3px 0}\
.bar .ours{background:var(--strong)}.bar .others{background:var(--mark)}\
.tiles{display:flex;flex-wrap:wrap;gap:3px;margin-top:5px}\
.tile{min-width:2em;padding:2px 4px;text-align:center;color:#14181d;border:1px solid #14181d80;cursor:grab;\
touch-action:none;user-select:none}.tile[aria-pressed=true]{outline:3px solid var(--strong)}\
.tile.dragged,.box.dragged{opacity:.85;position:relative;z-index:9;pointer-events:none}\
.k0{background:var(--k0)}.k1{background:var(--k1)}.k2{background:var(--k2)}.k3{background:var(--k3)}\
.k4{background:var(--k4)}.k5{background:var(--k5)}.k6{background:var(--k6)}\
#story .plots section{content-visibility:auto;contain-intrinsic-size:auto 300px}\
dialog{color:var(--text);background:var(--back);border:1px solid var(--soft);border-radius:8px;max-width:30em}\
dialog div{display:flex;gap:10px;justify-content:flex-end}[hidden]{display:none}";

/// A job that runs, with its ranks where they are known.
#[derive(Clone, Debug)]
pub struct RunningJob {
    pub status: JobStatus,
    pub ranks: Vec<RankStatus>,
}

/// The cluster in pieces of HTML: the page parses only those that have changed since it was told last.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Drawn {
    jobs: String,
    boxes: Vec<NodeBox>,
    /// What each rank does, by the key of its tile. It changes with every look, and is read when a tile is pointed at.
    calls: BTreeMap<String, String>,
}

/// Each part is compared by itself: heads change with the load, tiles when ranks move.
#[derive(Clone, Debug, Serialize)]
struct NodeBox {
    node: NodeName,
    /// A class of the style sheet.
    state: &'static str,
    head: String,
    tiles: String,
}

/// Draws the cluster; `shown` is the job that the rest of the page is about.
pub fn cluster(nodes: &[NodeStatus], jobs: &[RunningJob], shown: Option<JobId>) -> Drawn {
    let (mut tiles, calls) = tiles(jobs);
    let there = nodes.iter().filter(|node| node.state != NodeState::Gone);
    Drawn {
        jobs: jobs.iter().map(|job| job_row(job, shown)).collect(),
        boxes: there
            .map(|node| node_box(node, tiles.remove(&node.name).unwrap_or_default()))
            .collect(),
        calls,
    }
}

fn job_row(RunningJob { status, ranks }: &RunningJob, shown: Option<JobId>) -> String {
    let (job, size) = (status.job, status.size);
    let order = |act: &str, to: u32, sign: &str, label: &str| {
        format!(
            "<button data-act=\"{act}\" data-job=\"{job}\" data-to=\"{to}\" aria-label=\"{label} of job {job}\">\
             {sign}</button>"
        )
    };
    let mut html = format!(
        "<div class=\"job\"><button class=\"{}\" data-act=\"show\" data-job=\"{job}\" aria-pressed=\"{}\">Job {job} \
         {}</button><span>{size} {}{}</span>",
        colour(job),
        shown == Some(job),
        escape(&status.name),
        if size == 1 { "rank" } else { "ranks" },
        progress(ranks),
    );
    if size > 1 {
        html += &order("shrink", size - 1, "−", "one rank less");
    }
    html += &order("expand", size + 1, "+", "one rank more");
    html + "</div>"
}

/// How far the slowest rank is, and how long the rest takes at its pace.
fn progress(ranks: &[RankStatus]) -> String {
    let Some(slowest) = ranks.iter().min_by_key(|rank| rank.iteration) else {
        return String::new();
    };
    let at = slowest.iteration;
    match slowest.iterations_declared {
        Some(Iteration(end)) if end > at.0 => {
            let left_ms = (end - at.0) as f64 * (slowest.useful_ms + slowest.wait_ms);
            let part = 100.0 * at.0 as f64 / end as f64;
            let left = time::span((left_ms * 1e3) as u64);
            format!(", {part:.0} % of {end} iterations, {left} left")
        }
        _ if at.0 > 0 => format!(", iteration {at}"),
        _ => String::new(),
    }
}

/// The tiles of each node. Jobs whose ranks are not known have one tile a node, with their number.
fn tiles(jobs: &[RunningJob]) -> (BTreeMap<NodeName, String>, BTreeMap<String, String>) {
    let (mut tiles, mut calls) = (BTreeMap::<NodeName, String>::new(), BTreeMap::new());
    for RunningJob { status, ranks } in jobs {
        let (job, class, name) = (status.job, colour(status.job), escape(&status.name));
        if ranks.is_empty() {
            for (node, count) in &status.nodes {
                let title = format!("{count} ranks of job {job} {name}");
                let tile = format!("<span class=\"tile {class}\" title=\"{title}\">{count}×</span>");
                tiles.entry(node.clone()).or_default().push_str(&tile);
            }
        }
        for rank in ranks {
            let number = rank.rank;
            if rank.call != "-" {
                calls.insert(format!("{job}.{number}"), rank.call.clone());
            }
            _ = write!(
                tiles.entry(rank.node.clone()).or_default(),
                "<button class=\"tile {class}\" data-key=\"{job}.{number}\" data-job=\"{job}\" data-rank=\"{number}\" \
                 aria-pressed=\"false\" aria-label=\"rank {number} of job {job} {name}, {}\">{number}</button>",
                bytes(rank.registered.0),
            );
        }
    }
    (tiles, calls)
}

fn node_box(node: &NodeStatus, tiles: String) -> NodeBox {
    let (name, cpus) = (escape(node.name.as_str()), node.cpus.len().max(1));
    let state = match node.state {
        NodeState::Up => "",
        NodeState::Suspect => "suspect",
        NodeState::Draining => "draining",
        NodeState::Gone => "gone",
    };
    let part = |busy: f64| (100.0 * busy / cpus as f64).clamp(0.0, 100.0);
    let (ours, others) = (part(f64::from(node.ranks)), part(node.load_by_others));
    let mut facts = vec![format!("{cpus} CPU{}", if cpus == 1 { "" } else { "s" })];
    if node.load_by_others >= 0.05 {
        facts.push(format!("{:.1} taken by others", node.load_by_others));
    }
    if node.free_memory > 0 {
        facts.push(format!("{} free", bytes(node.free_memory)));
    }
    if let Some(latency_us) = node.link.as_ref().and_then(|link| link.latency_us) {
        facts.push(format!("{:.2} ms away", latency_us / 1e3));
    }
    if let Some(end) = node.ends {
        facts.push(format!("{} left", time::span(end.left_ms.saturating_mul(1000))));
    }
    facts.extend((!state.is_empty()).then(|| state.to_owned()));
    let drain = match node.state {
        NodeState::Up => format!("<button data-act=\"drain\" data-node=\"{name}\">Drain</button>"),
        _ => String::new(),
    };
    let head = format!(
        "<h3><span>{name}</span>{drain}</h3><div class=\"bar\"><span class=\"ours\" style=\"width:{ours:.0}%\"></span>\
         <span class=\"others\" style=\"width:{others:.0}%\"></span></div><p class=\"soft\">{}</p>",
        facts.join(", ")
    );
    let node = node.name.clone();
    NodeBox {
        node,
        state,
        head,
        tiles,
    }
}

fn colour(job: JobId) -> String {
    format!("k{}", job.0 % COLOURS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{Bytes, Epoch, ProcessId, Rank};
    use pcm_proto::job::JobState;

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn status(name: &str, nodes: Vec<(NodeName, u32)>) -> JobStatus {
        JobStatus {
            job: JobId(8),
            name: name.to_owned(),
            state: JobState::Running,
            epoch: Epoch(0),
            size: 2,
            nodes,
            started_us: 0,
            end: None,
            coordinator: node("n0"),
            reign: 0,
            spares: Vec::new(),
        }
    }

    fn rank(number: u32, call: &str) -> RankStatus {
        RankStatus {
            rank: Rank(number),
            process: ProcessId(number),
            node: node("n0"),
            pid: 1,
            iteration: Iteration(25),
            iterations_here: 5,
            useful_ms: 90.0,
            wait_ms: 10.0,
            memory: Bytes(0),
            iterations_declared: Some(Iteration(100)),
            restored: Bytes(0),
            call: call.to_owned(),
            call_since_ms: 0.0,
            peer: None,
            tag: None,
            bytes: None,
            sent: Bytes(0),
            received: Bytes(0),
            registered: Bytes(1 << 20),
            constant: Bytes(0),
        }
    }

    fn node_status(name: &str, state: NodeState) -> NodeStatus {
        NodeStatus {
            name: node(name),
            address: "h:1".to_owned(),
            site: "here".to_owned(),
            cpus: vec![0, 1],
            state,
            speed: 1.0,
            load_by_others: 0.5,
            ranks: 1,
            free_memory: 3 << 30,
            daemon_pid: 1,
            fabric: Default::default(),
            link: None,
            ends: None,
        }
    }

    #[test]
    fn a_box_has_the_facts_of_its_node_and_tiles_of_its_ranks() {
        let (status, ranks) = (status("heat<b>", Vec::new()), vec![rank(0, "-"), rank(1, "MPI_Wait")]);
        let nodes = [node_status("n0", NodeState::Up), node_status("n1", NodeState::Gone)];
        let drawn = cluster(&nodes, &[RunningJob { status, ranks }], Some(JobId(8)));
        assert_eq!(drawn.boxes.len(), 1);
        let html = format!("{}{}{}", drawn.jobs, drawn.boxes[0].head, drawn.boxes[0].tiles);
        for part in [
            "Job 8 heat&lt;b&gt;",
            "2 ranks, 25 % of 100 iterations, 7.5 s left",
            "data-act=\"shrink\" data-job=\"8\" data-to=\"1\"",
            "data-act=\"expand\" data-job=\"8\" data-to=\"3\"",
            "class=\"tile k1\" data-key=\"8.1\"",
            "rank 1 of job 8 heat&lt;b&gt;, 1.0 MiB",
            "2 CPUs, 0.5 taken by others, 3.0 GiB free",
            "data-act=\"drain\" data-node=\"n0\"",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("data-node=\"n1\"") && !html.contains("<b>"), "{html}");
        assert_eq!(drawn.calls, BTreeMap::from([("8.1".to_owned(), "MPI_Wait".to_owned())]));
    }

    type Light = [f64; 3];

    /// How much of red, green and blue there is for a person with full sight, and for those without one of them, after
    /// Machado, Oliveira and Fernandes.
    const SIGHTS: [[Light; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
        [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
        [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
    ];

    fn light(colour: &str) -> Light {
        [0, 2, 4].map(|at| {
            let part = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            ((part + 0.055) / 1.055).powf(2.4)
        })
    }

    fn sum([a, b, c]: Light, [x, y, z]: Light) -> f64 {
        a * x + b * y + c * z
    }

    const BRIGHTNESS: Light = [0.2126, 0.7152, 0.0722];

    /// Its place in CIELAB, where distances are about as large as they look.
    fn seen(colour: &str, sight: &[Light; 3]) -> Light {
        let light = sight.map(|row| sum(row, light(colour)).clamp(0.0, 1.0));
        let parts = [[0.4339, 0.3762, 0.1899], BRIGHTNESS, [0.0177, 0.1095, 0.8730]];
        let [x, y, z] = parts.map(|part| sum(part, light).cbrt());
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    #[test]
    fn jobs_are_told_apart_without_a_kind_of_sight_and_their_numbers_are_read() {
        let colour = |number: u64| {
            let at = STYLE.find(&format!("--k{number}:#")).unwrap() + "--k0:#".len();
            &STYLE[at..at + 6]
        };
        let colours: Vec<&str> = (0..COLOURS).map(colour).collect();
        for (at, one) in colours.iter().enumerate() {
            let contrast = (sum(BRIGHTNESS, light(one)) + 0.05) / (sum(BRIGHTNESS, light("14181d")) + 0.05);
            assert!(contrast >= 4.5, "{one}: {contrast}");
            for (other, sight) in colours[..at]
                .iter()
                .flat_map(|other| SIGHTS.iter().map(move |sight| (other, sight)))
            {
                let (one, other) = (seen(one, sight), seen(other, sight));
                let apart = [0, 1, 2].map(|part| one[part] - other[part]);
                // Two that differ by 2.3 can just be told apart side by side.
                assert!(sum(apart, apart).sqrt() >= 12.0, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn of_a_job_whose_ranks_are_not_known_each_node_shows_how_many_it_has() {
        let (status, ranks) = (status("large", vec![(node("n0"), 500)]), Vec::new());
        let drawn = cluster(
            &[node_status("n0", NodeState::Draining)],
            &[RunningJob { status, ranks }],
            None,
        );
        let NodeBox { state, head, tiles, .. } = &drawn.boxes[0];
        assert!(tiles.contains("title=\"500 ranks of job 8 large\">500×"), "{tiles}");
        assert!(*state == "draining" && !head.contains("data-act=\"drain\""), "{head}");
    }
}
