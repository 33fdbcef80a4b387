//! Bench `fabric`: datagrams, links and bulk transfers on the loopback. Runs the bench of `pcm-fabric` and shows what it
//! measured; must never measure by itself.

use super::{
    registry::{Bench, Context, Report},
    samples::{Ratio, Samples},
};
use crate::failure::Failure;
use std::time::Duration;

pub(super) const BENCH: Bench = Bench {
    name: "fabric",
    about: "messages by datagram and by link, groups of 1 to 64, bulk transfers against raw TCP, repetitions under loss",
    run,
};

/// With the build of the bench.
const LIMIT: Duration = Duration::from_secs(1800);

const UNITS: [&str; 5] = ["us", "ms", "GB/s", "bytes", "ratio"];

fn run(context: &Context) -> Result<Report, Failure> {
    let mut cargo = context.environment.cargo();
    cargo
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .args(["bench", "--quiet", "--package", "pcm-fabric", "--bench", "fabric", "--"])
        .args(context.quick.then_some("quick"));
    let output = super::run_to_end(BENCH.name, cargo, LIMIT)?;
    let series = parse(&output);
    if series.is_empty() {
        return Err(Failure::Bench {
            name: BENCH.name,
            problem: format!("no samples in {output:?}"),
        });
    }
    Ok(Report {
        ratios: ratios(&series),
        series,
        remarks: vec![
            "bulk against raw TCP by processor time of both ends: a busy machine does not distort it".into(),
            "crossover: the fewest bytes at which connections are chosen for a group nobody of which was met before"
                .into(),
        ],
        ..Report::default()
    })
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

fn ratios(series: &[Samples]) -> Vec<Ratio> {
    let median = |name: &str| series.iter().find(|one| one.name == name).map(Samples::median);
    let wanted = [
        (
            "datagram / link, cold",
            "exchange, datagram, cold",
            "exchange, link over TCP, cold",
            None,
        ),
        (
            "datagram / link, warm",
            "exchange, datagram, warm",
            "exchange, link over TCP, warm",
            None,
        ),
        (
            "bulk plain / raw TCP",
            "bulk, plain, of both ends' processor time",
            "bulk, raw TCP, of both ends' processor time",
            Some(">= 0.9"),
        ),
        (
            "bulk sealed / plain",
            "bulk, sealed, of both ends' processor time",
            "bulk, plain, of both ends' processor time",
            None,
        ),
    ];
    let ratio = |(name, above, below, target): (&str, &str, &str, Option<&'static str>)| {
        Some(Ratio {
            name: name.into(),
            value: median(above)? / median(below)?,
            target,
        })
    };
    wanted.into_iter().filter_map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_series_and_ratios() {
        let series = parse(
            "noise\nexchange, datagram, warm\tus\t1.0 3.0 2.0\nexchange, link over TCP, warm\tus\t4.0\nx\tparsecs\t1\n",
        );
        assert_eq!(series.len(), 2);
        assert_eq!(series[0].values, [1.0, 3.0, 2.0]);
        let ratios = ratios(&series);
        assert_eq!((ratios.len(), ratios[0].value), (1, 0.5));
    }
}
