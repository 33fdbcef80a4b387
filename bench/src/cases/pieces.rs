//! Bench `pieces`: what changes and checkpoints cost a program whose data is rows of different lengths, or records with
//! an owner, against an array of as many bytes. Three jobs run at once, and each round changes each of them.

use super::{
    bench::{Bench, Context},
    events,
    watched::{Wanted, Watched},
};
use pcm_bench::{Failure, OwnCluster, Ratio, Report, Samples, push_each, trial};
use std::time::Duration;

pub(super) const BENCH: Bench = Bench {
    name: "pieces",
    about: "rows of different lengths and records with an owner against an array: growing, shrinking, checkpoints",
    run,
};

/// A kind of data of `pcm-moving`, which is the name of its job, too, and what the record calls it.
const KINDS: [(&str, &str); 3] = [
    ("rows", "array"),
    ("lengths", "rows of different lengths"),
    ("records", "records of 16 bytes"),
];

const MEASURED: [&str; 3] = [
    "pause of growing 2 to 4",
    "pause of shrinking 4 to 2",
    "held for a checkpoint",
];

const CHECKPOINT_MAX: Duration = Duration::from_secs(60);

fn run(context: &Context) -> Result<Report, Failure> {
    let mib = if context.quick { 16 } else { 256 };
    let cluster = OwnCluster::up(&context.environment, 4)?;
    let start = |(kind, _): (&'static str, &str)| {
        let wanted = Wanted {
            name: Some(kind),
            ranks: 2,
            mib,
            sleep_us: 5000,
            more: &[kind],
            ..Wanted::default()
        };
        Watched::start(BENCH.name, &cluster, &context.program("pcm-moving"), &wanted)
    };
    let jobs = KINDS.into_iter().map(start).collect::<Result<Vec<_>, _>>()?;
    let mut all = KINDS.map(|(_, name)| MEASURED.map(|what| Samples::new(format!("{name}, {mib} MiB: {what}"), "ms")));
    for round in 0..=context.rounds() {
        let forward = 0..KINDS.len();
        let order: Vec<usize> = if round % 2 == 0 {
            forward.collect()
        } else {
            forward.rev().collect()
        };
        for kind in order {
            let measured = measure(&cluster, KINDS[kind].0, &jobs[kind])?;
            // The first round also brings programs and libraries into memory.
            if round > 0 {
                push_each(&mut all[kind], measured);
            }
        }
    }
    drop(jobs);
    cluster.down()?;
    let [array, others @ ..] = &all;
    let against = |series: &[Samples; MEASURED.len()]| {
        let pairs = series.iter().zip(array);
        let ratios = pairs.map(|(samples, base)| {
            let (name, paired) = (&samples.name, samples.paired_ratio(base));
            Ratio::new(format!("{name} / array"), paired, None)
        });
        ratios.collect::<Vec<_>>()
    };
    Ok(Report {
        ratios: others.iter().flat_map(against).collect(),
        series: all.into_iter().flatten().collect(),
        remarks: vec![
            "the longest time that a rank was held; all data is checked after each change; rows have 1 to 511 \
             elements of 8 bytes"
                .into(),
        ],
        ..Report::default()
    })
}

/// What one kind takes, in milliseconds, in the order of [`MEASURED`].
fn measure(cluster: &OwnCluster<'_>, name: &str, job: &Watched<'_>) -> Result<[f64; MEASURED.len()], Failure> {
    let grown = job.change("expand", &["--to", "4"])?.number("pause_ms")?;
    let shrunk = job.change("shrink", &["--to", "2"])?.number("pause_ms")?;
    trial::run(BENCH.name, cluster.pcmctl(&["checkpoint", name]), CHECKPOINT_MAX)?;
    let made = events::of(cluster, name, "checkpoint_complete")?;
    let held = made.last().and_then(|event| event["held_ms"].as_f64());
    let held = held.ok_or_else(|| Failure::bench(BENCH.name, format!("no held_ms in {made:?}")))?;
    Ok([grown, shrunk, held])
}
