//! Bench `agents`: simulated clusters of 10 to 10,000 nodes that run the real agents: messages, time to settle, and how
//! good the places are that they find.

use super::bench::{Bench, Context};
use pcm_bench::{Failure, Report, Samples, trial};
use pcm_view::lines::Plot;
use std::time::Duration;

pub(super) const BENCH: Bench = Bench {
    name: "agents",
    about: "simulated clusters of 10 to 10,000 nodes: messages per node, time to settle, places against a central \
            greedy",
    run,
};

/// Nodes, and clusters of so many that are simulated: a small one has a job or five, and one of them that finds its
/// place late is the time of all. The mean over many small ones and over few large ones is that of as many jobs.
const SIZES: [(u32, usize); 4] = [(10, 60), (100, 60), (1_000, 20), (10_000, 4)];

/// Simulated seconds; clusters settle in a few tens.
const SECONDS: &str = "120";

/// What a line of numbers holds, and its unit.
const FIELDS: [(&str, &str); 4] = [
    ("messages", "per node and s"),
    ("settled_half", "s"),
    ("settled_most", "s"),
    ("after", "of the best"),
];

fn run(context: &Context) -> Result<Report, Failure> {
    let mut report = Report::default();
    let mut means = Vec::new();
    for (nodes, clusters) in SIZES {
        let mut series = FIELDS.map(|(field, unit)| Samples::new(format!("{nodes} nodes, {field}"), unit));
        let clusters = if context.quick { clusters.div_ceil(4) } else { clusters };
        for seed in 0..clusters {
            let line = simulated(context, nodes, seed)?;
            for (samples, (field, _)) in series.iter_mut().zip(FIELDS) {
                samples.push(trial::figure(BENCH.name, &line, "agents ", field)?);
            }
        }
        means.push(series.each_ref().map(Samples::mean));
        report.series.extend(series);
    }
    let (small, large) = (means[1], means[SIZES.len() - 1]);
    let (messages, settled) = (large[0] / small[0], large[2] / small[2].max(1.0));
    report.ratio("messages per node, 10,000 / 100 nodes, means", messages, "<= 1.5");
    report.ratio(
        "time to settle, 10,000 / 100 nodes, means",
        settled,
        "<= 3 (logarithmic)",
    );
    report.ratio("throughput / central greedy, 10,000 nodes", large[3], ">= 0.9");
    report.plots = [
        (0, "messages per node and second"),
        (2, "seconds until 95 % of the gain is made"),
    ]
    .map(|(field, title)| Plot {
        name: format!("agents-{}", FIELDS[field].0),
        title: title.to_owned(),
        x: "nodes".to_owned(),
        is_logarithmic: true,
        lines: vec![(
            "simulated".to_owned(),
            SIZES
                .iter()
                .zip(&means)
                .map(|((nodes, _), row)| (f64::from(*nodes), row[field]))
                .collect(),
        )],
        ..Plot::default()
    })
    .into();
    report.remarks = vec![format!(
        "{SECONDS} simulated seconds, a job of 4 ranks for every 20 nodes, node speeds 0.5 to 2, measurements wrong by \
         up to 3 %"
    )];
    Ok(report)
}

fn simulated(context: &Context, nodes: u32, seed: usize) -> Result<String, Failure> {
    let mut trial = context.environment.command(context.program("agents_trial"));
    trial.args([nodes.to_string(), seed.to_string(), SECONDS.to_owned()]);
    trial::run(BENCH.name, trial, Duration::from_secs(900))
}
