//! Bench `adapt-unequal`: two nodes of speed 1 and 0.5: the time per iteration after the agents shared the data anew,
//! over the best there is.

use super::{
    super::{
        plot::Plot,
        registry::{Bench, Context, Report},
        samples::{Ratio, Samples},
    },
    field::{ENDLESS, Field, plate},
    race::{Runner, Script},
};
use crate::failure::Failure;
use std::time::Duration;

pub(super) const BENCH: Bench = Bench {
    name: "adapt-unequal",
    about: "nodes of speed 1 and 0.5: time per iteration over that of the best weighted partition",
    run,
};

const SPEEDS: [f64; 2] = [1.0, 0.5];

/// The agents wait for a second and then look for three.
const BEFORE_S: (f64, f64) = (0.5, 2.5);

/// One job; its time per iteration with equal shares, and afterwards.
const SECONDS: f64 = 25.0;

fn run(context: &Context) -> Result<Report, Failure> {
    let rounds = if context.quick { 1 } else { 5 };
    let names = [
        "equal shares",
        "after the agents shared anew",
        "best weighted partition",
        "over the best",
    ];
    let mut series = names.map(|what| Samples::new(format!("adapt-unequal: {what}"), "ms"));
    series[3].unit = "part";
    let mut plots = Vec::new();
    for _ in 0..rounds {
        let mut field = Field::up(&context.environment, BENCH.name, &SPEEDS)?;
        let words = plate(context, (3000, 2000), ENDLESS);
        let command = field.ours(&["-n", "2", "--policy", "cost"], &words);
        let runner = Runner {
            bench: BENCH.name,
            field: &mut field,
            is_ours: true,
            limit: Duration::from_secs(90),
        };
        let race = runner.run(command, &Script::new(), Some(SECONDS))?;
        field.down()?;
        let equal_ms = 1e3 / race.rate(BEFORE_S.0, BEFORE_S.1);
        // With equal shares the slow node decides; the best gives each what it can do in the same time.
        let best_ms = equal_ms * SPEEDS[1] * 2.0 / (SPEEDS[0] + SPEEDS[1]);
        let after_ms = 1e3 / race.rate(SECONDS * 0.5, SECONDS);
        let values = [equal_ms, after_ms, best_ms, after_ms / best_ms];
        for (samples, value) in series.iter_mut().zip(values) {
            samples.push(value);
        }
        if plots.is_empty() {
            plots.push(Plot {
                name: BENCH.name.to_owned(),
                title: "nodes of speed 1 and 0.5: iterations per second".to_owned(),
                x: "seconds".to_owned(),
                is_logarithmic: false,
                lines: vec![("with agents".to_owned(), race.rates())],
                marks: Vec::new(),
            });
        }
    }
    Ok(Report {
        ratios: vec![Ratio {
            name: "adapt-unequal: time per iteration / best weighted partition".into(),
            value: series[3].median(),
            target: Some("<= 1.05"),
        }],
        series: series.into(),
        remarks: vec!["adapt-unequal: 2 ranks; the best follows from the time with equal shares by arithmetic".into()],
        plots,
        ..Report::default()
    })
}
