//! What must come true once nothing breaks any more: every reconfiguration has ended, the job iterates on or has ended
//! with an error that says why, and nothing is left over.

use super::cluster::{Happening, Simulation};
use super::invariants::Violation;
use super::process::Activity;
use pcm_proto::ids::ProcessId;
use pcm_proto::layout::Layout;
use std::collections::BTreeMap;

const INSPECT_EVERY_US: u64 = 250_000;
/// Looks in a row that must find everything in order.
const CALM_LOOKS: u32 = 4;

/// How long everything has been in order.
#[derive(Debug, Default)]
pub struct Calm {
    looks: u32,
    iterations: BTreeMap<ProcessId, u64>,
}

impl Calm {
    /// Looks around; true when the history may end.
    pub fn inspect(&mut self, simulation: &mut Simulation, until: u64) -> Result<bool, Violation> {
        let disorder = ensure_liveness(simulation, &mut self.iterations);
        match disorder {
            Ok(()) => self.looks += 1,
            Err(text) if simulation.now >= until => {
                return Err(Violation {
                    rule: "ensure_liveness",
                    text,
                });
            }
            Err(_) => self.looks = 0,
        }
        if self.looks < CALM_LOOKS {
            simulation.after(INSPECT_EVERY_US, Happening::Inspect);
            return Ok(false);
        }
        invariant_no_unknown_process(simulation)
            .and_then(|()| invariant_array_is_whole(simulation))
            .map_err(|(rule, text)| Violation { rule, text })?;
        Ok(true)
    }
}

/// Whether every reconfiguration has ended and the job goes on or has come to an end that somebody told of.
fn ensure_liveness(simulation: &mut Simulation, before: &mut BTreeMap<ProcessId, u64>) -> Result<(), String> {
    let layout = simulation.ledger.newest_layout().cloned();
    let Some(layout) = layout else {
        return Err("nobody knows a layout".into());
    };
    let members: Vec<ProcessId> = layout.members.iter().map(|m| m.process).collect();
    let is_alive = |p: &ProcessId| simulation.processes.get(p).is_some_and(|p| p.is_alive);
    if !members.iter().any(is_alive) {
        return ended(simulation, &members);
    }
    if let Some(dead) = members.iter().find(|p| !is_alive(p)) {
        let finished = |p: &ProcessId| {
            simulation
                .processes
                .get(p)
                .is_some_and(|p| p.activity == Activity::Finished)
        };
        let text = format!(
            "process {dead} is dead, others of its layout live (finished: {})",
            finished(dead)
        );
        return Err(text);
    }
    let mut holders = 0;
    for node in simulation.nodes.iter().filter(|n| n.is_up) {
        let Some(daemon) = &node.daemon else { continue };
        let is_voter = layout.voters().contains(&node.name);
        if is_voter && !daemon.is_quiet() {
            let (way, record) = (daemon.under_way(), daemon.record());
            let (engaged, promised) = (record.engaged.as_ref().map(|e| (e.attempt, e.stage)), record.promised);
            return Err(format!(
                "{} is not quiet: {way:?} {engaged:?} promised {promised:?}",
                node.name
            ));
        }
        holders += usize::from(is_voter && daemon.is_holder());
    }
    if holders != 1 {
        return Err(format!("{holders} daemons hold the lease"));
    }
    for process in &members {
        let process = &simulation.processes[process];
        let earlier = before.insert(process.id, process.iteration);
        if earlier.is_none_or(|earlier| process.iteration <= earlier) {
            let text = format!(
                "process {} stays at iteration {} ({:?}, ceiling {}, stuck {})",
                process.id, process.iteration, process.activity, process.ceiling, process.is_stuck
            );
            return Err(text);
        }
    }
    Ok(())
}

fn ended(simulation: &mut Simulation, members: &[ProcessId]) -> Result<(), String> {
    if let Some(left) = simulation.processes.values().find(|p| p.is_alive) {
        return Err(format!("process {} outlives its job", left.id));
    }
    let finished = members
        .iter()
        .filter_map(|p| simulation.processes.get(p))
        .all(|p| p.activity == Activity::Finished);
    // When all voters died with their machines, nobody is left who could say so.
    let newest = simulation.ledger.newest_layout();
    let voters = newest.map(Layout::voters).unwrap_or_default();
    let mut left = simulation.nodes.iter().filter(|n| voters.contains(&n.name));
    let knows = left.any(|n| n.store.as_ref().is_some_and(|r| r.layout.as_ref() == newest));
    if !finished && !simulation.is_loss_reported && knows {
        return Err("the job is gone and nobody has said why".into());
    }
    simulation.tally.finished = u64::from(finished);
    simulation.tally.lost = u64::from(!finished);
    Ok(())
}

/// No process lives that the newest layout does not know.
fn invariant_no_unknown_process(simulation: &Simulation) -> Result<(), (&'static str, String)> {
    let layout = simulation.ledger.newest_layout();
    let mut alive = simulation.processes.values().filter(|p| p.is_alive);
    match alive.find(|p| layout.is_none_or(|l| l.member(p.id).is_none())) {
        Some(process) => Err((
            "invariant_no_unknown_process",
            format!("process {} is left over", process.id),
        )),
        None => Ok(()),
    }
}

/// The ranks of the newest layout hold the whole array.
fn invariant_array_is_whole(simulation: &Simulation) -> Result<(), (&'static str, String)> {
    let rule = "invariant_no_element_lost_or_doubled";
    let Some(layout) = simulation.ledger.newest_layout().filter(|l| is_running(simulation, l)) else {
        return Ok(());
    };
    let mut owners: BTreeMap<u32, ProcessId> = BTreeMap::new();
    for process in layout
        .members
        .iter()
        .filter_map(|m| simulation.processes.get(&m.process))
    {
        for index in process.data.keys() {
            if let Some(other) = owners.insert(*index, process.id) {
                return Err((
                    rule,
                    format!("element {index} belongs to processes {other} and {}", process.id),
                ));
            }
        }
    }
    match owners.len() == simulation.scenario.elements as usize {
        true => Ok(()),
        false => Err((
            rule,
            format!(
                "{} of {} elements are there",
                owners.len(),
                simulation.scenario.elements
            ),
        )),
    }
}

fn is_running(simulation: &Simulation, layout: &Layout) -> bool {
    layout
        .members
        .iter()
        .all(|m| simulation.processes.get(&m.process).is_some_and(|p| p.is_alive))
}
