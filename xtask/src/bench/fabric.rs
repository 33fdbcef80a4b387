//! Bench `fabric`: datagrams, links and bulk transfers on the loopback. Runs the bench of `pcm-fabric` and shows what it
//! measured; must never measure by itself.

use super::{
    registry::{Bench, Context, Report},
    samples::{Ratio, Samples},
};
use crate::failure::Failure;
use pcm_view::lines::Plot;
use serde_json::Value;
use std::{
    net::TcpListener,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

pub(super) const BENCH: Bench = Bench {
    name: "fabric",
    about: "messages by datagram and by link, groups of 1 to 64, bulk transfers against raw TCP, repetitions under loss",
    run,
};

/// With the build of the bench.
const LIMIT: Duration = Duration::from_secs(1800);

/// Seconds of one run of iperf3.
const IPERF_SECONDS: &str = "2";

/// How long its server may take until it listens.
const IPERF_STARTS_WITHIN: Duration = Duration::from_secs(5);

/// Name of its series: bytes for each second of both ends' processor time, which is what one core carries.
const IPERF: &str = "iperf3, of both ends' processor time";

const GROUPS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const LENGTHS: [usize; 3] = [200, 8192, 49152];

const UNITS: [&str; 5] = ["us", "ms", "GB/s", "bytes", "ratio"];

fn run(context: &Context) -> Result<Report, Failure> {
    let mut cargo = context.environment.cargo();
    cargo
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .args(["bench", "--quiet", "--package", "pcm-fabric", "--bench", "fabric", "--"])
        .args(context.quick.then_some("quick"));
    let output = super::run_to_end(BENCH.name, cargo, LIMIT)?;
    let mut series = parse(&output);
    if series.is_empty() {
        return Err(Failure::Bench {
            name: BENCH.name,
            problem: format!("no samples in {output:?}"),
        });
    }
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
    Ok(Report {
        ratios: ratios(&series),
        plots: LENGTHS.iter().map(|length| plot(&series, *length)).collect(),
        series,
        remarks,
        ..Report::default()
    })
}

/// How long a group takes to be told, both ways, by its size; a mark where connections become the faster way.
fn plot(series: &[Samples], length: usize) -> Plot {
    let line = |way: &str| {
        let point = |members: &usize| {
            let name = format!("group, {members} members, {length} B, {way}");
            let samples = series.iter().find(|one| one.name == name)?;
            Some((*members as f64, samples.median() / 1e3))
        };
        GROUPS.iter().filter_map(point).collect::<Vec<_>>()
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

/// What iperf3 moves over the loopback with 128 KiB a call.
fn iperf(rounds: usize) -> Result<Samples, String> {
    let mut samples = Samples::new(IPERF, "GB/s");
    for _ in 0..rounds {
        samples.push(iperf_once()?);
    }
    Ok(samples)
}

fn iperf_once() -> Result<f64, String> {
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let port = port.map_err(|error| error.to_string())?.port().to_string();
    let mut server = Command::new("iperf3")
        .args(["--server", "--one-off", "--bind", "127.0.0.1", "--port", &port])
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("{error}; install it with `apt-get install iperf3`"))?;
    let begun = Instant::now();
    let measured = loop {
        let client = Command::new("iperf3")
            .args([
                "--client",
                "127.0.0.1",
                "--port",
                &port,
                "--time",
                IPERF_SECONDS,
                "--json",
            ])
            .output()
            .map_err(|error| error.to_string());
        let rate = client.and_then(|output| rate(&output.stdout));
        if rate.is_ok() || begun.elapsed() > IPERF_STARTS_WITHIN {
            break rate;
        }
        thread::sleep(Duration::from_millis(20));
    };
    // It ends by itself after one client; one that never came is ended here.
    let _ = server.kill();
    let _ = server.wait();
    measured
}

/// GB for each second of processor time, from what iperf3 says of its rate and of both ends' use.
fn rate(json: &[u8]) -> Result<f64, String> {
    let said: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let number = |pointer: &str| said.pointer(pointer).and_then(Value::as_f64);
    let rate = number("/end/sum_received/bits_per_second");
    let used = number("/end/cpu_utilization_percent/host_total")
        .zip(number("/end/cpu_utilization_percent/remote_total"))
        .map(|(here, there)| (here + there) / 100.0);
    match (rate, used) {
        (Some(rate), Some(used)) if used > 0.0 => Ok(rate / 8e9 / used),
        _ => Err(said["error"].as_str().unwrap_or("it did not say its rate").to_owned()),
    }
}

/// Lines of a name, a unit and samples, separated by tabs.
pub(super) fn parse(output: &str) -> Vec<Samples> {
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
            "bulk plain / iperf3",
            "bulk, plain, of both ends' processor time",
            IPERF,
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
    fn a_crossover_is_marked_where_connections_become_faster() {
        let series = parse(
            "group, 1 members, 200 B, datagrams\tus\t1\ngroup, 1 members, 200 B, connections\tus\t3\n\
             group, 2 members, 200 B, datagrams\tus\t5\ngroup, 2 members, 200 B, connections\tus\t4\n",
        );
        let plot = plot(&series, 200);
        assert_eq!(plot.marks, [(2.0, "crossover".to_owned())]);
        assert_eq!(plot.lines[0].1, [(1.0, 0.001), (2.0, 0.005)]);
    }

    #[test]
    fn what_iperf3_says_is_a_rate_for_one_core() {
        let json = br#"{"end":{"sum_received":{"bits_per_second":16e9},
            "cpu_utilization_percent":{"host_total":60.0,"remote_total":40.0}}}"#;
        assert_eq!(rate(json), Ok(2.0));
        assert!(rate(br#"{"error":"nobody listens"}"#).is_err_and(|why| why.contains("nobody")));
    }

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
