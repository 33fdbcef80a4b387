//! Every method of reconfiguration on jobs that grow and shrink between pairs of sizes. The daemons' choice runs beside
//! the methods, in the same rounds.

use super::best_map;
use super::cell::{Cell, Metric};
use super::job::Job;
use super::plan::{self, Data, Pair, Plan};
use super::{record, verdict};
use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use crate::output;
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::method::Method;
use serde_json::{Value, json};
use std::path::Path;

/// Rounds after which those that are clearly behind in both directions are measured no more.
const ROUNDS_OF_ALL: u32 = 7;

/// Measures, prints and writes what was found into a directory.
pub(crate) async fn redistribute(cluster: &ClusterDir, plan: &Plan, out: Option<&Path>) -> Result<(), Failure> {
    let nodes = nodes(cluster).await?;
    let mut cells = Vec::new();
    for &data in &plan.data {
        for &pair in &plan.pairs {
            eprintln!("pcmctl: {} and {} ranks, {data}", pair.few, pair.many);
            cells.extend(measure(cluster, plan, pair, data).await?);
        }
    }
    let ratios = verdict::ratios(&cells);
    output::print(&record::table(&cells))?;
    output::print(&record::ratios(&ratios))?;
    let Some(out) = out else {
        return output::print(&(record::remarks(&cells, plan).join("\n") + "\n"));
    };
    let document = format!("{:#}\n", record::document(&cells, plan, &nodes, &ratios));
    let files = [
        ("redistribute.json", document),
        ("redistribute.csv", record::csv(&cells)),
        ("redistribute-pause.svg", best_map::draw(&cells, Metric::Pause)),
        ("redistribute-total.svg", best_map::draw(&cells, Metric::Total)),
    ];
    std::fs::create_dir_all(out).map_err(|error| Failure::file("create", out, &error))?;
    for (name, text) in files {
        let path = out.join(name);
        std::fs::write(&path, text).map_err(|error| Failure::file("write", &path, &error))?;
    }
    output::print(&format!("samples, table and pictures are in {}\n", out.display()))
}

/// One job, there and back by each candidate, in another order each round.
async fn measure(cluster: &ClusterDir, plan: &Plan, pair: Pair, data: Data) -> Result<[Cell; 2], Failure> {
    let Pair { few, many } = pair;
    let mut job = Job::start(cluster, pair, data, plan.mib).await?;
    let mut there = Cell::new(few, many, data);
    let mut back = Cell::new(many, few, data);
    // The first changes bring the programs and what MPI needs into memory.
    job.resize(few, many, Method::all().last()).await?;
    job.resize(many, few, Method::all().next()).await?;
    for round in 0..plan.learn {
        for method in plan::order(round).filter_map(plan::method) {
            job.resize(few, many, Some(method)).await?;
            job.resize(many, few, Some(method)).await?;
        }
    }
    let mut in_the_race = [true; plan::CANDIDATES];
    for round in 0..plan.rounds {
        if round >= ROUNDS_OF_ALL {
            for (candidate, is_in) in in_the_race.iter_mut().enumerate() {
                *is_in &= [&there, &back]
                    .iter()
                    .any(|cell| cell.is_in_the_race(candidate, Metric::Pause));
            }
        }
        for candidate in plan::order(round).filter(|candidate| in_the_race[*candidate]) {
            let method = plan::method(candidate);
            there.push(candidate, &job.resize(few, many, method).await?);
            back.push(candidate, &job.resize(many, few, method).await?);
        }
    }
    job.end().await?;
    Ok([there, back])
}

async fn nodes(cluster: &ClusterDir) -> Result<Value, Failure> {
    let mut link = Link::open(cluster).await?;
    match link.ask(ControlToDaemon::Nodes, ASK_DEADLINE).await? {
        DaemonToControl::Nodes(nodes) => {
            let rows = nodes
                .iter()
                .map(|node| json!({"name": node.name, "cpus": node.cpus, "site": node.site}));
            Ok(rows.collect())
        }
        other => Err(Failure::unexpected("Nodes", &other)),
    }
}
