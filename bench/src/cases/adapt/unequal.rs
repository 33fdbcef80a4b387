//! Bench `adapt-unequal`: two nodes of speed 1 and 0.5: the time per iteration with the shares of the data that the
//! agents chose, over that with the best shares that were found by trying.

use super::{
    super::{
        bench::{Bench, Context},
        events,
    },
    field::{Field, ONLY, plate},
    race::{Act, Runner, Script, Shares},
};
use pcm_bench::{Failure, Ratio, Report, Samples, heat2d, pace::Pace, push_each, statistics::median};
use pcm_view::lines::Plot;
use std::time::Duration;

pub(super) const BENCH: Bench = Bench {
    name: "adapt-unequal",
    about: "nodes of speed 1 and 0.5: time per iteration over that of the best weighted partition",
    run,
};

const SPEEDS: [f64; 2] = [1.0, 0.5];

/// How long the agents have.
const SECONDS: f64 = 20.0;

/// The agents wait for a second and then look for three.
const BEFORE_S: (f64, f64) = (0.5, 2.5);

/// Shares that are tried beside theirs.
const TRIED: [Shares; 5] = [[150, 100], [175, 100], [200, 100], [225, 100], [250, 100]];

/// How long each has at a time, and how much of that belongs to the change.
const TRIAL_S: f64 = 4.0;
const SETTLING_S: f64 = 1.0;

/// How often each is tried.
const TRIALS: usize = 3;

/// How the parts of a round went.
struct Round {
    adapting: Pace,
    chosen: Shares,
    /// Time per iteration with the agents' shares, and with the best.
    chosen_ms: f64,
    best: (Shares, f64),
}

fn race(
    context: &Context,
    field: &mut Field<'_>,
    policy: &str,
    script: &Script,
    seconds: f64,
) -> Result<Pace, Failure> {
    // What a rank computes in an iteration is many times what the slow node may take in one period of its limit. With
    // half of that it fits, at times, into what is left of one: then all the waiting is in messages, and nothing seems
    // to be gained.
    let words = plate(context, (6000, 2000), heat2d::ENDLESS);
    let command = field.ours(&["-n", "2", "--name", ONLY, "--policy", policy], &words);
    let runner = Runner {
        bench: BENCH.name,
        field,
        is_ours: true,
        limit: Duration::from_secs_f64(seconds + 60.0),
    };
    runner.run(command, script, Some(seconds))
}

/// The shares of the last decision about them.
fn chosen(field: &Field<'_>) -> Result<Shares, Failure> {
    let told = events::of(&field.cluster, ONLY, "decision")?;
    let words = told.iter().rev().filter_map(|event| event["chosen"].as_str());
    words.filter_map(shares).next().ok_or_else(|| {
        let said = told.iter().filter_map(|event| event["reason"].as_str());
        let said: Vec<&str> = said.collect();
        Failure::bench(
            BENCH.name,
            format!("within {SECONDS} s the agents did not give the ranks other shares; they said {said:?}"),
        )
    })
}

/// What `rebalance to shares 1.00 : 0.50` says.
fn shares(words: &str) -> Option<Shares> {
    let (one, other) = words.strip_prefix("rebalance to shares ")?.split_once(" : ")?;
    let permille = |share: &str| Some((share.parse::<f64>().ok()? * 1000.0) as u32);
    Some([permille(one)?, permille(other)?])
}

fn round(context: &Context) -> Result<Round, Failure> {
    let mut field = Field::up(&context.environment, BENCH.name, &SPEEDS)?;
    let adapting = race(context, &mut field, "cost", &Script::new(), SECONDS)?;
    let chosen = chosen(&field)?;
    // Each in turn and then all again, so that what changes on the machine meanwhile meets them alike.
    let all: Vec<Shares> = [chosen].into_iter().chain(TRIED).collect();
    let turns = (0..TRIALS).flat_map(|_| all.iter().copied()).enumerate();
    let script: Script = turns
        .map(|(turn, shares)| (turn as f64 * TRIAL_S, Act::Share(shares)))
        .collect();
    let trials = race(context, &mut field, "none", &script, script.len() as f64 * TRIAL_S)?;
    field.down()?;
    let time_ms = |at: usize| {
        let times = (0..TRIALS).map(|trial| {
            let from = (trial * all.len() + at) as f64 * TRIAL_S;
            1e3 / trials.rate(from + SETTLING_S, from + TRIAL_S)
        });
        median(&times.collect::<Vec<f64>>())
    };
    let tried = (0..all.len()).map(|at| (all[at], time_ms(at)));
    let best = tried.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((chosen, f64::NAN));
    Ok(Round {
        adapting,
        chosen,
        chosen_ms: time_ms(0),
        best,
    })
}

fn run(context: &Context) -> Result<Report, Failure> {
    let rounds = if context.quick { 1 } else { 3 };
    let names = [
        ("equal shares", "ms"),
        ("the agents' shares", "ms"),
        ("the best shares tried", "ms"),
        ("agents' over best", "part"),
    ];
    let mut series = names.map(|(what, unit)| Samples::new(format!("adapt-unequal: {what}"), unit));
    let (mut plots, mut remarks) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let round = round(context)?;
        let equal_ms = 1e3 / round.adapting.rate(BEFORE_S.0, BEFORE_S.1);
        let values = [equal_ms, round.chosen_ms, round.best.1, round.chosen_ms / round.best.1];
        push_each(&mut series, values);
        let part = |[one, other]: Shares| f64::from(one) / f64::from(other);
        remarks.push(format!(
            "adapt-unequal: the agents shared {:.2} to 1, best was {:.2} to 1",
            part(round.chosen),
            part(round.best.0)
        ));
        if plots.is_empty() {
            plots.push(Plot {
                name: BENCH.name.to_owned(),
                title: "nodes of speed 1 and 0.5: iterations per second".to_owned(),
                x: "seconds".to_owned(),
                lines: vec![("with agents".to_owned(), round.adapting.rates())],
                ..Plot::default()
            });
        }
    }
    Ok(Report {
        ratios: vec![Ratio::new(
            "adapt-unequal: time per iteration / best weighted partition",
            series[3].median(),
            "<= 1.05",
        )],
        series: series.into(),
        remarks,
        plots,
        ..Report::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_from_the_words_of_a_decision() {
        assert_eq!(shares("rebalance to shares 1.00 : 0.48"), Some([1000, 480]));
        assert_eq!(shares("migrate rank 0 from n0 to n1 with shares 1.00 : 0.48"), None);
    }
}
