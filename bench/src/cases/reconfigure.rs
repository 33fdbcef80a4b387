//! Bench `reconfigure`: what a migration, a growth and the start of newcomers cost a running job.

use super::{
    bench::{Bench, Context},
    watched::{Change, Wanted, Watched},
};
use pcm_bench::{Failure, OwnCluster, Report, Samples, statistics::median};
use std::collections::BTreeMap;

pub(super) const BENCH: Bench = Bench {
    name: "reconfigure",
    about: "pause, phases and bytes of migrating one of four ranks and of growing 2 to 4; what starting newcomers \
            costs",
    run,
};

/// What a migration may take beside the bytes.
const FIXED_MS: f64 = 30.0;

/// What moving the bytes may take, in times of the measured bandwidth.
const BANDWIDTH_SHARE: f64 = 1.2;

/// Data of one rank in the large case.
const LARGE_MIB: u64 = 256;

/// How long before a change its undisturbed iterations are looked at.
const BEFORE_US: u64 = 400_000;

/// Steps that take about a millisecond.
const WORK_OF_A_MILLISECOND: u64 = 500_000;

fn run(context: &Context) -> Result<Report, Failure> {
    let mut report = Report::default();
    let cluster = OwnCluster::up(&context.environment, 4)?;
    for mib_per_rank in [0, if context.quick { 16 } else { LARGE_MIB }] {
        migrations(context, &cluster, mib_per_rank, &mut report)?;
    }
    growth(context, &cluster, &mut report)?;
    cluster.down()?;
    newcomers(context, &mut report)?;
    report.remarks = vec![
        "pause: the longest time the application code of any rank was held".into(),
        "bandwidth: MPI messages between the first rank and the one that moved, after each move".into(),
    ];
    Ok(report)
}

fn start<'a>(context: &Context, cluster: &'a OwnCluster<'a>, wanted: &Wanted<'_>) -> Result<Watched<'a>, Failure> {
    Watched::start(BENCH.name, cluster, &context.program("pcm-moving"), wanted)
}

/// The last of four ranks goes from node to node.
fn migrations(
    context: &Context,
    cluster: &OwnCluster<'_>,
    mib_per_rank: u64,
    report: &mut Report,
) -> Result<(), Failure> {
    let wanted = Wanted {
        ranks: 4,
        mib: 4 * mib_per_rank,
        sleep_us: 2000,
        ..Wanted::default()
    };
    let job = start(context, cluster, &wanted)?;
    let case = format!("migrate, {mib_per_rank} MiB a rank");
    let [mut pauses, mut totals] = ["pause", "in all"].map(|what| Samples::new(format!("{case}: {what}"), "ms"));
    let mut speeds = Samples::new(format!("{case}: bandwidth"), "GB/s");
    let mut shares = Vec::new();
    let mut phases = Phases::default();
    for round in 0..=context.rounds() {
        let to = format!("n{}", round % 3);
        let change = job.change("migrate", &["--rank", "3", "--to", &to])?;
        // The first one also brings the programs and the libraries into memory.
        if round == 0 {
            continue;
        }
        let (pause, bytes) = (change.number("pause_ms")?, change.number("bytes_moved")?);
        let moving_ms = if mib_per_rank > 0 {
            bytes / change.bytes_per_second * 1e3
        } else {
            0.0
        };
        pauses.push(pause);
        totals.push(change.number("total_ms")?);
        shares.push(pause / (BANDWIDTH_SHARE * moving_ms + FIXED_MS));
        speeds.push(change.bytes_per_second / 1e9);
        phases.push(&change);
    }
    report.ratio(
        format!("{case}: pause / ({BANDWIDTH_SHARE} x bytes / bandwidth + {FIXED_MS} ms)"),
        median(&shares),
        "<= 1.0",
    );
    report.series.extend([pauses, totals]);
    if mib_per_rank > 0 {
        report.series.push(speeds);
    }
    report.series.extend(phases.series(&case));
    Ok(())
}

/// Two ranks become four, and two again.
fn growth(context: &Context, cluster: &OwnCluster<'_>, report: &mut Report) -> Result<(), Failure> {
    let mib = if context.quick { 16 } else { LARGE_MIB };
    let wanted = Wanted {
        ranks: 2,
        mib,
        sleep_us: 2000,
        ..Wanted::default()
    };
    let job = start(context, cluster, &wanted)?;
    let mut pauses = Samples::new(format!("grow 2 to 4, {mib} MiB: pause"), "ms");
    let mut shares = Samples::new(format!("grow 2 to 4, {mib} MiB: share of the data that moves"), "");
    for _ in 0..context.rounds() {
        let change = job.change("expand", &["--to", "4"])?;
        pauses.push(change.number("pause_ms")?);
        shares.push(change.number("bytes_moved")? / (mib * 1024 * 1024) as f64);
        job.change("shrink", &["--to", "2"])?;
    }
    report.ratio(
        format!("grow 2 to 4, {mib} MiB: bytes moved / all bytes"),
        shares.median(),
        "0.5",
    );
    report.series.extend([pauses, shares]);
    Ok(())
}

/// A rank that works alone on its CPU, while another is started on a free one.
fn newcomers(context: &Context, report: &mut Report) -> Result<(), Failure> {
    let cluster = OwnCluster::up_on(&context.environment, &["0", "1"])?;
    let wanted = Wanted {
        ranks: 1,
        nodes: "n0",
        work: WORK_OF_A_MILLISECOND,
        ..Wanted::default()
    };
    let job = start(context, &cluster, &wanted)?;
    let mut slower = Samples::new("iteration while a newcomer starts / before", "");
    for _ in 0..context.rounds() {
        let change = job.change("expand", &["--to", "2", "--nodes", "n0,n1"])?;
        let until = change.asked_us + (change.phases().get("preparing").copied().unwrap_or(0.0) * 1e3) as u64;
        let before = mean_iteration(
            &change.stamps,
            change.asked_us.saturating_sub(BEFORE_US),
            change.asked_us,
        );
        let during = mean_iteration(&change.stamps, change.asked_us, until);
        if let (Some(before), Some(during)) = (before, during) {
            slower.push(during / before);
        }
        job.change("shrink", &["--to", "1"])?;
        std::thread::sleep(std::time::Duration::from_micros(BEFORE_US));
    }
    drop(job);
    cluster.down()?;
    report.ratio(slower.name.clone(), slower.median(), "<= 1.05");
    report.series.push(slower);
    Ok(())
}

/// Mean length of the iterations that lie wholly between two moments; nothing when there are too few to tell.
fn mean_iteration(stamps: &[u64], from: u64, until: u64) -> Option<f64> {
    let within: Vec<u64> = stamps
        .iter()
        .copied()
        .filter(|end| (from..until).contains(end))
        .collect();
    let (first, last) = (within.first()?, within.last()?);
    (within.len() > 10).then(|| (last - first) as f64 / (within.len() - 1) as f64)
}

/// Times by phase over several changes.
#[derive(Default)]
struct Phases(BTreeMap<String, Samples>);

impl Phases {
    fn push(&mut self, change: &Change) {
        for (name, value) in change.phases() {
            let samples = self.0.entry(name.clone());
            samples.or_insert_with(|| Samples::new(name, "ms")).push(value);
        }
    }

    fn series(self, of: &str) -> impl Iterator<Item = Samples> + use<> {
        let of = of.to_owned();
        self.0.into_values().map(move |mut samples| {
            samples.name = format!("{of}: {}", samples.name);
            samples
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_are_counted_only_inside_the_span_and_when_there_are_enough() {
        let stamps: Vec<u64> = (0..100).map(|i| i * 10).collect();
        assert_eq!(mean_iteration(&stamps, 200, 400), Some(10.0));
        assert_eq!(mean_iteration(&stamps, 200, 250), None);
        assert_eq!(mean_iteration(&stamps, 5000, 6000), None);
    }
}
