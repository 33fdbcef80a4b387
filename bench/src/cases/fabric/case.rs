//! Bench `fabric`: all series of datagrams, links and bulk transfers, and what is compared of them.

use super::{
    bulk, exchange,
    group::{self, LENGTHS, MEMBERS},
    iperf::{IPERF, iperf},
    loss,
    setting::{self, Effort, Problem, in_runtime},
};
use crate::cases::bench::{Bench, Context};
use pcm_bench::{Failure, Ratio, Report, Samples};
use pcm_view::lines::Plot;

pub(in crate::cases) const BENCH: Bench = Bench {
    name: "fabric",
    about: "messages by datagram and by link, groups of 1 to 64, bulk transfers against raw TCP, repetitions under \
            loss",
    run,
};

fn run(context: &Context) -> Result<Report, Failure> {
    let mut series = measure(Effort::new(context.quick)).map_err(setting::of(BENCH.name))?;
    let mut remarks = vec![
        "bulk against raw TCP and iperf3 by processor time of both ends: a busy machine does not distort it".into(),
        "crossover: the fewest bytes at which connections are chosen for a group nobody of which was met before; a \
         datagram's message has at most 57344"
            .into(),
    ];
    match iperf(context.rounds()) {
        Ok(samples) => series.push(samples),
        Err(why) => remarks.push(format!("iperf3 was not measured: {why}")),
    }
    let mut report = Report {
        series,
        remarks,
        ..Report::default()
    };
    report.ratios = ratios(&report);
    report.plots = LENGTHS.iter().map(|length| plot(&report, *length)).collect();
    Ok(report)
}

fn measure(effort: Effort) -> Result<Vec<Samples>, Problem> {
    let mut series = Vec::new();
    in_runtime(exchange::run(effort, &mut series))?;
    in_runtime(group::run(effort, &mut series))?;
    bulk::run(effort, &mut series)?;
    loss::run(&mut series)?;
    Ok(series)
}

/// How long a group takes to be told, both ways, by its size; a mark where connections become the faster way.
fn plot(report: &Report, length: usize) -> Plot {
    let line = |way: &str| {
        let point = |members: &usize| {
            let samples = report.series_named(&group::series_name(*members, length, way))?;
            Some((*members as f64, samples.median() / 1e3))
        };
        MEMBERS.iter().filter_map(point).collect::<Vec<_>>()
    };
    let (datagrams, connections) = (line("datagrams"), line("connections"));
    let crossed = datagrams.iter().zip(&connections).find(|(one, other)| one.1 > other.1);
    Plot {
        name: format!("fabric-groups-{length}"),
        title: format!("Telling a group {length} B each, nobody met before: ms by members"),
        x: "members".into(),
        is_logarithmic: true,
        marks: crossed.map(|(at, _)| (at.0, "crossover".into())).into_iter().collect(),
        lines: vec![("datagrams".into(), datagrams), ("connections".into(), connections)],
    }
}

fn ratios(report: &Report) -> Vec<Ratio> {
    let bulk = |name: &str| format!("bulk, {name}, of both ends' processor time");
    let exchange = |way: &str| format!("exchange, {way}");
    let wanted = [
        (
            "datagram / link, cold",
            exchange("datagram, cold"),
            exchange("link over TCP, cold"),
            None,
        ),
        (
            "datagram / link, warm",
            exchange("datagram, warm"),
            exchange("link over TCP, warm"),
            None,
        ),
        ("bulk plain / raw TCP", bulk("plain"), bulk("raw TCP"), Some(">= 0.9")),
        ("bulk plain / iperf3", bulk("plain"), IPERF.to_owned(), Some(">= 0.9")),
        ("bulk sealed / plain", bulk("sealed"), bulk("plain"), None),
    ];
    let ratio = |(name, above, below, target): (&str, String, String, Option<&str>)| {
        let median = |name: &str| report.series_named(name).map(Samples::median);
        Some(Ratio::new(name, median(&above)? / median(&below)?, target))
    };
    wanted.into_iter().filter_map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(series: &[(&str, &[f64])]) -> Report {
        let series = series
            .iter()
            .map(|(name, values)| Samples::of(*name, "us", values.to_vec()));
        Report {
            series: series.collect(),
            ..Report::default()
        }
    }

    #[test]
    fn a_crossover_is_marked_where_connections_become_faster() {
        let report = report(&[
            ("group, 1 members, 200 B, datagrams", &[1.0]),
            ("group, 1 members, 200 B, connections", &[3.0]),
            ("group, 2 members, 200 B, datagrams", &[5.0]),
            ("group, 2 members, 200 B, connections", &[4.0]),
        ]);
        let plot = plot(&report, 200);
        assert_eq!(plot.marks, [(2.0, "crossover".to_owned())]);
        assert_eq!(plot.lines[0].1, [(1.0, 0.001), (2.0, 0.005)]);
    }

    #[test]
    fn only_what_was_measured_on_both_sides_is_compared() {
        let report = report(&[
            ("exchange, datagram, warm", &[1.0, 3.0, 2.0]),
            ("exchange, link over TCP, warm", &[4.0]),
            ("exchange, datagram, cold", &[1.0]),
        ]);
        let ratios = ratios(&report);
        assert_eq!((ratios.len(), ratios[0].value), (1, 0.5));
    }
}
