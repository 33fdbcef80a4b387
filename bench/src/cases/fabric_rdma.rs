//! Bench `fabric-rdma`: the same bytes by unreliable datagrams and over reliable connections, between two processes in
//! an emulated guest with a RoCE device in software. How long they take there says little; how they compare says
//! something.

use super::bench::{Bench, Context};
use pcm_bench::{Failure, OnPath, Ratio, Report, Samples, trial};
use std::{env, ffi::OsString, fs, path::Path, process::Command, time::Duration};

pub(super) const BENCH: Bench = Bench {
    name: "fabric-rdma",
    about: "messages by UD and transfers over RC of as many bytes, on a RoCE device in software; brings qemu",
    run,
};

/// The folder of guests, and the program for them, which `cargo xtask bench` brings and builds.
const GUESTS: &str = "PCM_SOFTROCE_GUESTS";
const TRIAL: &str = "PCM_SOFTROCE_TRIAL";

const UNITS: [&str; 2] = ["us", "ms"];

const LIMIT: Duration = Duration::from_secs(400);

/// The first process answers the second; both are told of failures by how the guest's script ends.
const SCRIPT: &str = r#"/mnt/rdma_trial serve & /mnt/rdma_trial measure 10.9.0.1 ROUNDS && wait $!"#;

/// What a guest says last where its script went well.
const WELL: &str = "ended with 0";

fn run(context: &Context) -> Result<Report, Failure> {
    let (guests, trial) = (set(GUESTS)?, set(TRIAL)?);
    let job = tempfile::tempdir().on("make", env::temp_dir())?;
    let (program, script) = (job.path().join("rdma_trial"), job.path().join("run"));
    fs::copy(&trial, &program).on("copy", &trial)?;
    let rounds = if context.quick { "5" } else { "40" };
    fs::write(&script, SCRIPT.replace("ROUNDS", rounds)).on("write", &script)?;
    let mut guest = Command::new(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .with_file_name("tests")
            .join("softroce/guest"),
    );
    guest.arg(&guests).arg(job.path()).arg("1");
    let said = trial::run(BENCH.name, guest, LIMIT)?;
    let series = parse(&said);
    if series.is_empty() || !said.contains(WELL) {
        return Err(Failure::bench(BENCH.name, format!("the guest said {said:?}")));
    }
    Ok(Report {
        ratios: ratios(&series),
        series,
        remarks: vec![
            "in a guest whose CPUs are emulated; UD: until the message is confirmed, cold from an endpoint that was \
             never heard of; RC: a connection, its keys, one write and the word that it arrived, as each transfer \
             makes its own"
                .into(),
        ],
        ..Report::default()
    })
}

fn set(variable: &'static str) -> Result<OsString, Failure> {
    env::var_os(variable).ok_or(Failure::NotSet { variable })
}

/// Lines of a name, a unit and samples, separated by tabs.
fn parse(output: &str) -> Vec<Samples> {
    let line = |line: &str| {
        let mut parts = line.split('\t');
        let (name, unit, values) = (parts.next()?, parts.next()?, parts.next()?);
        let mut samples = Samples::new(name, UNITS.into_iter().find(|known| *known == unit)?);
        for value in values.split(' ') {
            samples.push(value.parse().ok()?);
        }
        Some(samples)
    };
    output.lines().filter_map(line).collect()
}

/// By length: what a message takes of the time of a transfer.
fn ratios(series: &[Samples]) -> Vec<Ratio> {
    let ratio = |rc: &Samples| {
        let case = rc.name.strip_suffix("RC")?;
        let of = |way: &str| series.iter().find(|one| one.name == format!("{case}{way}"));
        let compared = ["UD, cold", "UD, warm"].into_iter().filter_map(move |way| {
            let value = of(way)?.median() / rc.median();
            let name = format!("{case}{way} / RC");
            Some(Ratio::new(name, value, None))
        });
        Some(compared.collect::<Vec<_>>())
    };
    series.iter().filter_map(ratio).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_compared_with_transfers_of_their_length() {
        let said = "exchange, 200 B, RC\tus\t40.0\r\nexchange, 200 B, UD, cold\tus\t10.0\r\nexchange, 200 B, UD, \
                    warm\tus\t5.0\r\nexchange, 8192 B, UD, warm\tus\t5.0\r\n";
        let told: Vec<(String, f64)> = ratios(&parse(said))
            .into_iter()
            .map(|ratio| (ratio.name, ratio.value))
            .collect();
        let expected = [
            ("exchange, 200 B, UD, cold / RC".to_owned(), 0.25),
            ("exchange, 200 B, UD, warm / RC".to_owned(), 0.125),
        ];
        assert_eq!(told, expected);
    }
}
