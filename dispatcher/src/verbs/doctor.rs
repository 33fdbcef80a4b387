//! `doctor`: tests this machine and reports for each check whether it is ok, and what to do.

use crate::chosen_mpi;
use crate::cluster::ClusterDir;
use crate::doctor::finding::{Finding, Verdict};
use crate::doctor::patient::Patient;
use crate::doctor::{fabric, machine, messages};
use crate::failure::Failure;
use crate::output;
use pcm_core::mpi_settings::{Circumstances, Setting, settings};
use serde::Serialize;
use std::os::unix::ffi::OsStringExt;
use tokio::signal::unix::{SignalKind, signal};

const EXAMPLE: &str = "\
Runs small programs on the running cluster, or on one of its own for some seconds.
The exit code is 8 when a check fails.

Example:
  pcmctl doctor
  pcmctl doctor --tune               also measure messages and keep the result
  pcmctl doctor --json";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Measure the cost of messages; daemons use it to choose between datagrams and connections
    #[arg(long)]
    tune: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    verdict: Verdict,
    checks: Vec<Finding>,
    settings: Vec<Setting>,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let mut shown = Shown {
        json: args.json,
        checks: Vec::new(),
    };
    shown.add(machine::check())?;
    let refused = |error| Failure::system(format!("cannot watch for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(refused)?;
    match Patient::admit(cluster).await {
        Ok(patient) => {
            let found = tokio::select! {
                found = examine(&patient, args.tune.then_some(cluster)) => found,
                _ = interrupt.recv() => {
                    patient.discharge().await;
                    return Err(Failure::system("interrupted; everything that was started is ended"));
                }
            };
            let kind = if patient.is_own() {
                "one of two nodes for this examination"
            } else {
                "the one that is up"
            };
            shown.add(vec![Finding::ok("cluster", kind)])?;
            shown.add(found)?;
            patient.discharge().await;
        }
        Err(failure) => shown.add(vec![Finding::broken(
            "cluster",
            failure.message,
            "fix the named problem, then try again",
        )])?,
    }
    let environment: Vec<(Vec<u8>, Vec<u8>)> = std::env::vars_os()
        .map(|(name, value)| (name.into_vec(), value.into_vec()))
        .collect();
    let crowded = Circumstances {
        is_oversubscribed: true,
        ..Circumstances::default()
    };
    conclude(shown, settings(crowded, &environment, &[]))
}

/// The checks that need a cluster; tuning if a place to keep it is given.
async fn examine(patient: &Patient, tuned: Option<&ClusterDir>) -> Vec<Finding> {
    let mut found = fabric::check(patient).await;
    if let Some(cluster) = tuned {
        found.extend(fabric::tune(patient, cluster).await);
    }
    found.extend(messages::check(patient).await);
    found
}

/// Findings, printed one by one unless one document is asked for.
struct Shown {
    json: bool,
    checks: Vec<Finding>,
}

impl Shown {
    fn add(&mut self, findings: Vec<Finding>) -> Result<(), Failure> {
        if !self.json {
            output::print(&findings.iter().map(Finding::render).collect::<String>())?;
        }
        self.checks.extend(findings);
        Ok(())
    }
}

fn conclude(shown: Shown, settings: Vec<Setting>) -> Result<i32, Failure> {
    let Shown { json, checks } = shown;
    let broken = checks
        .iter()
        .filter(|finding| finding.verdict == Verdict::Broken)
        .count();
    let all = checks.len();
    let verdict = checks
        .iter()
        .map(|finding| finding.verdict)
        .max()
        .unwrap_or(Verdict::Ok);
    if json {
        output::print_json(&Report {
            verdict,
            checks,
            settings,
        })?;
    } else {
        output::print(&format!(
            "\nMPI settings of a job (change one with 'run --mpi NAME=VALUE' or in the environment):\n{}",
            chosen_mpi::settings_text(&settings)
        ))?;
    }
    if broken > 0 {
        return Err(Failure::broken(format!(
            "{broken} of {all} checks are broken: their lines say how to fix it"
        )));
    }
    Ok(0)
}
