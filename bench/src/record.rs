//! The record of a bench as JSON: machine, versions, every raw sample. Must never round.

use crate::{
    failure::{Failure, OnPath},
    samples::Report,
};
use serde_json::{Value, json};
use std::{fs, path::Path, process::Command};

/// Which measurement it was.
#[derive(Debug)]
pub struct Measured<'a> {
    pub bench: &'a str,
    pub is_quick: bool,
    /// The MPI it ran on.
    pub mpi: &'a str,
}

/// Writes one JSON document.
pub fn write(path: &Path, measured: &Measured<'_>, report: &Report) -> Result<(), Failure> {
    fs::write(path, format!("{:#}\n", document(measured, report))).on("write", path)
}

fn document(measured: &Measured<'_>, report: &Report) -> Value {
    let series = report.series.iter().map(
        |series| json!({"name": series.name, "unit": series.unit, "median": series.median(), "samples": series.values}),
    );
    let mut machine = machine();
    machine["load_average"] = json!(line_of("/proc/loadavg"));
    json!({
        "bench": measured.bench,
        "quick": measured.is_quick,
        "machine": machine,
        "versions": {"mpi": measured.mpi, "rustc": answer("rustc", &["--version"]), "cc": answer("cc", &["--version"]),
                     "commit": answer("git", &["describe", "--always", "--dirty"])},
        "series": series.collect::<Vec<_>>(),
        "ratios": report.ratios,
        "remarks": report.remarks,
    })
}

/// This machine, for every record.
pub fn machine() -> Value {
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
        value.map(|value| value.trim().to_owned())
    };
    json!({
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
        "cpu": field("/proc/cpuinfo", "model name"),
        "memory": field("/proc/meminfo", "MemTotal"),
        "kernel": line_of("/proc/sys/kernel/osrelease"),
    })
}

fn line_of(file: &str) -> Option<String> {
    fs::read_to_string(file).map(|text| text.trim().to_owned()).ok()
}

/// The first line a program answers, or null.
fn answer(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .next()
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Samples;

    #[test]
    fn a_record_keeps_every_raw_sample_and_the_machine() {
        let measured = Measured {
            bench: "x",
            is_quick: true,
            mpi: "MPICH",
        };
        let report = Report {
            series: vec![Samples::of("plain", "s", vec![0.1, 0.3, 0.2])],
            ..Report::default()
        };
        let document = document(&measured, &report);
        assert_eq!(document["series"][0]["samples"], json!([0.1, 0.3, 0.2]));
        assert_eq!(document["series"][0]["median"], json!(0.2));
        assert!(document["machine"]["cpus"].as_u64().is_some_and(|cpus| cpus > 0));
    }
}
