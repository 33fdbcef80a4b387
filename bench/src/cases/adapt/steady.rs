//! Benches `adapt-quiet` and `adapt-turns`: short noise moves nothing, and a load that alternates costs nothing.

use super::{
    super::{
        bench::{Bench, Context},
        events,
    },
    field::{Field, plate},
    race::{Act, Runner, Script},
};
use pcm_bench::{Failure, Ratio, Report, Samples, heat2d, pace::Pace};
use pcm_view::lines::Plot;
use std::time::Duration;

pub(super) const QUIET: Bench = Bench {
    name: "adapt-quiet",
    about: "two minutes with short bursts of others: changes, which must be none",
    run: quiet,
};
pub(super) const TURNS: Bench = Bench {
    name: "adapt-turns",
    about: "a load that goes from node to node: iterations with agents against without, and changes",
    run: turns,
};

const RANKS: usize = 3;

/// One job of ranks that never ends by itself; its race, and how often it was changed.
fn watch(
    context: &Context,
    (bench, policy): (&'static str, &str),
    nodes: usize,
    script: &Script,
    seconds: f64,
) -> Result<(Pace, usize), Failure> {
    let mut field = Field::up(&context.environment, bench, &vec![1.0; nodes])?;
    let words = plate(context, (3000, 3000), heat2d::ENDLESS);
    let options = ["-n", &RANKS.to_string(), "--name", "watched", "--policy", policy];
    let command = field.ours(&options, &words);
    let runner = Runner {
        bench,
        field: &mut field,
        is_ours: true,
        limit: Duration::from_secs_f64(seconds + 30.0),
    };
    let race = runner.run(command, script, Some(seconds))?;
    let changes = events::of(&field.cluster, "watched", "reconfigured")?.len();
    field.down()?;
    Ok((race, changes))
}

fn quiet(context: &Context) -> Result<Report, Failure> {
    let seconds = if context.quick { 30.0 } else { 120.0 };
    // A third of a second in every three, now here, now there.
    let bursts = (1..(seconds / 3.0) as usize).flat_map(|burst| {
        let at = burst as f64 * 3.0;
        [(at, Act::Load(burst * 2 % RANKS, 1)), (at + 0.3, Act::Unload)]
    });
    let (race, changes) = watch(context, (QUIET.name, "cost"), RANKS + 1, &bursts.collect(), seconds)?;
    let mut samples = Samples::new("adapt-quiet: iterations a second", "it/s");
    race.rates().into_iter().for_each(|(_, rate)| samples.push(rate));
    Ok(Report {
        series: vec![samples],
        ratios: vec![Ratio::new(
            format!("adapt-quiet: changes in {seconds} s"),
            changes as f64,
            "0",
        )],
        remarks: vec!["adapt-quiet: 3 ranks on 3 nodes, a fourth is idle; bursts of 0.3 s in every 3 s".to_owned()],
        ..Report::default()
    })
}

fn turns(context: &Context) -> Result<Report, Failure> {
    let seconds = if context.quick { 30.0 } else { 90.0 };
    let script: Script = (1..(seconds / 5.0) as usize)
        .flat_map(|turn| {
            let at = turn as f64 * 5.0;
            [(at, Act::Unload), (at, Act::Load(turn % 2, 1))]
        })
        .collect();
    let (still, _) = watch(context, (TURNS.name, "none"), RANKS, &script, seconds)?;
    let (moving, changes) = watch(context, (TURNS.name, "cost"), RANKS, &script, seconds)?;
    let mut series = ["without agents", "with agents"].map(|what| Samples::new(format!("adapt-turns: {what}"), "it/s"));
    let pace = |race: &Pace| race.iterations() / race.seconds();
    series[0].push(pace(&still));
    series[1].push(pace(&moving));
    Ok(Report {
        series: series.into(),
        ratios: vec![
            Ratio::new(
                "adapt-turns: iterations with agents / without",
                pace(&moving) / pace(&still),
                ">= 0.98",
            ),
            Ratio::new(format!("adapt-turns: changes in {seconds} s"), changes as f64, "<= 10"),
        ],
        remarks: vec!["adapt-turns: 3 ranks on 3 nodes, a process on n0 or n1 for 5 s each in turn".to_owned()],
        plots: vec![Plot {
            name: TURNS.name.to_owned(),
            title: "a load that alternates: iterations per second".to_owned(),
            x: "seconds".to_owned(),
            lines: vec![
                ("without agents".to_owned(), still.rates()),
                ("with agents".to_owned(), moving.rates()),
            ],
            ..Plot::default()
        }],
        ..Report::default()
    })
}
