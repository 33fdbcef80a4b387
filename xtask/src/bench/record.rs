//! The record of a bench as JSON: machine, versions, every raw sample. Must never round.

use super::{registry::Context, samples::Report};
use crate::failure::{Failure, OnPath};
use serde_json::{Value, json};
use std::{fs, path::Path, process::Command};

/// Writes one JSON document.
pub(super) fn write(path: &Path, bench: &str, context: &Context, report: &Report) -> Result<(), Failure> {
    let mut text = format!(
        "{:#}",
        document(bench, context.quick, &context.environment.mpi.version, report)
    );
    text.push('\n');
    fs::write(path, text).on("write", path)
}

fn document(bench: &str, quick: bool, mpi: &str, report: &Report) -> Value {
    let series = report.series.iter().map(
        |series| json!({"name": series.name, "unit": series.unit, "median": series.median(), "samples": series.values}),
    );
    let ratios = report
        .ratios
        .iter()
        .map(|ratio| json!({"name": ratio.name, "value": ratio.value, "target": ratio.target}));
    json!({
        "bench": bench,
        "quick": quick,
        "machine": machine(),
        "versions": {"mpi": mpi, "rustc": answer("rustc", &["--version"]), "cc": answer("cc", &["--version"]),
                     "commit": answer("git", &["describe", "--always", "--dirty"])},
        "series": series.collect::<Vec<_>>(),
        "ratios": ratios.collect::<Vec<_>>(),
        "remarks": report.remarks,
    })
}

fn machine() -> Value {
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
        value.map(|value| value.trim().to_owned())
    };
    json!({
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
        "cpu": field("/proc/cpuinfo", "model name"),
        "memory": field("/proc/meminfo", "MemTotal"),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()).ok(),
        "load_average": fs::read_to_string("/proc/loadavg").map(|text| text.trim().to_owned()).ok(),
    })
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
    use super::super::samples::Samples;
    use super::*;

    #[test]
    fn a_record_keeps_every_raw_sample_and_the_machine() {
        let series = vec![Samples {
            name: "plain".into(),
            unit: "s",
            values: vec![0.1, 0.3, 0.2],
        }];
        let document = document(
            "x",
            true,
            "MPICH",
            &Report {
                series,
                ..Report::default()
            },
        );
        assert_eq!(document["series"][0]["samples"], json!([0.1, 0.3, 0.2]));
        assert_eq!(document["series"][0]["median"], json!(0.2));
        assert!(document["machine"]["cpus"].as_u64().is_some_and(|cpus| cpus > 0));
    }
}
