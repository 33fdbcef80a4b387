//! What is run: which program, on how many ranks, with what arguments; and how its lines become figures. Pure.

use pcm_bench::Samples;
use std::collections::BTreeMap;

/// Spawns in one run after the first, which is not told.
const CYCLES: u32 = 4;

/// Connections in one run.
const CONNECTIONS: u32 = 8;

/// Children that are there at once in the end.
const SLEEPERS: [u32; 2] = [8, 32];

/// Between spawns that spares can answer: time to start the next one.
const PAUSE_MS: u32 = 250;

/// Spares that are taken one by one.
const SPARES: u32 = 2;

/// Before spawns in a row, for each of them: time to start its spare.
const SETTLE_MS: u32 = 60;

/// One way of running a program.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) name: String,
    /// One of bench/dynamic.
    pub(super) program: &'static str,
    pub(super) ranks: u32,
    pub(super) arguments: Vec<String>,
    /// Spares that our daemons keep where they are told to; 0 where none of it would be taken.
    pub(super) spares: u32,
}

/// One value of a figure, in its unit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) value: f64,
}

pub(super) fn all(is_quick: bool) -> Vec<Case> {
    let mut cases = [
        spawns(is_quick),
        growth(is_quick),
        rates(is_quick),
        spares(is_quick),
        pairs(),
    ]
    .concat();
    // Growth begins where spawns are.
    let mut seen = Vec::new();
    cases.retain(|case| {
        !seen.contains(&case.name) && {
            seen.push(case.name.clone());
            true
        }
    });
    cases
}

pub(super) fn spawns(is_quick: bool) -> Vec<Case> {
    let (parents, children): (&[u32], &[u32]) = match is_quick {
        true => (&[1], &[1, 2]),
        false => (&[1, 2], &[1, 2, 4]),
    };
    let both = parents
        .iter()
        .flat_map(|parents| children.iter().map(move |children| (*parents, *children)));
    both.map(|(parents, children)| spawn(parents, children)).collect()
}

pub(super) fn growth(is_quick: bool) -> Vec<Case> {
    let children: &[u32] = if is_quick { &[1, 8] } else { &[1, 2, 8, 32] };
    children.iter().map(|children| spawn(1, *children)).collect()
}

/// The name of a spawn, by which ratios find it.
pub(super) fn spawn_name(parents: u32, children: u32) -> String {
    format!("{parents} spawn {children}")
}

/// The name of spawns of one child with time between them.
pub(super) const PACED: &str = "1 spawn 1, paced";

/// The name of a row of spawns after a time in which spares can start.
pub(super) fn ready_name(sleepers: u32) -> String {
    format!("{}, settled", rate_name(sleepers))
}

/// The name of a row of spawns.
pub(super) fn rate_name(sleepers: u32) -> String {
    format!("spawns until {sleepers} sleep")
}

fn spawn(parents: u32, children: u32) -> Case {
    Case {
        name: spawn_name(parents, children),
        program: "spawn",
        ranks: parents,
        arguments: vec![children.to_string(), if children > 4 { 1 } else { CYCLES }.to_string()],
        spares: 0,
    }
}

/// What spares are for: spawns of one child, alone and in a row.
pub(super) fn spares(is_quick: bool) -> Vec<Case> {
    let mut paced = spawn(1, 1);
    paced.name = PACED.to_owned();
    paced.arguments.push(PAUSE_MS.to_string());
    paced.spares = SPARES;
    let sleepers: &[u32] = if is_quick { &SLEEPERS[..1] } else { &SLEEPERS };
    let rates = sleepers.iter().map(|sleepers| {
        let mut case = rate(*sleepers);
        case.name = ready_name(*sleepers);
        case.arguments.push((SETTLE_MS * sleepers).to_string());
        case.spares = *sleepers;
        case
    });
    [paced].into_iter().chain(rates).collect()
}

pub(super) fn rates(is_quick: bool) -> Vec<Case> {
    let sleepers: &[u32] = if is_quick { &SLEEPERS[..1] } else { &SLEEPERS };
    sleepers.iter().map(|sleepers| rate(*sleepers)).collect()
}

fn rate(sleepers: u32) -> Case {
    Case {
        name: rate_name(sleepers),
        program: "rate",
        ranks: 1,
        arguments: vec![sleepers.to_string()],
        spares: 0,
    }
}

pub(super) fn pairs() -> Vec<Case> {
    let of_two = |name: &str, program, arguments| Case {
        name: name.to_owned(),
        program,
        ranks: 2,
        arguments,
        spares: 0,
    };
    vec![
        of_two("pair", "pair", Vec::new()),
        of_two("connect", "connect", vec![CONNECTIONS.to_string()]),
    ]
}

/// The figures of a run: of each name the median over its lines. A line is `NAME VALUE` any number of times, behind a
/// label where there is one word more. `None` when nothing or something else was said.
pub(super) fn figures(output: &str) -> Option<Vec<Figure>> {
    let mut found: BTreeMap<String, Samples> = BTreeMap::new();
    for line in output.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (label, pairs) = match words.len() % 2 {
            0 => (None, &words[..]),
            _ => words.split_first().map(|(label, pairs)| (Some(*label), pairs))?,
        };
        for pair in pairs.chunks(2) {
            let (factor, unit) = scale(pair[0])?;
            let name = label.map_or_else(|| pair[0].to_owned(), |label| format!("{label} {}", pair[0]));
            let value: f64 = pair[1].parse().ok()?;
            let samples = found.entry(name.clone()).or_insert_with(|| Samples::new(name, unit));
            samples.push(value * factor);
        }
    }
    let median = |samples: Samples| Figure {
        value: samples.median(),
        unit: samples.unit,
        name: samples.name,
    };
    let figures: Vec<Figure> = found.into_values().map(median).collect();
    (!figures.is_empty()).then_some(figures)
}

/// What the programs say is in seconds and bytes.
fn scale(name: &str) -> Option<(f64, &'static str)> {
    match name {
        "spawn" | "merge" | "connect" | "disconnect" => Some((1e3, "ms")),
        "latency" => Some((1e6, "us")),
        "bandwidth" => Some((1e-6, "MB/s")),
        "rate" => Some((1.0, "1/s")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_medians_in_their_units_by_label_and_name() {
        let figure = |name: &str, unit, value| Figure {
            name: name.to_owned(),
            unit,
            value,
        };
        let said = "spawn 0.001 merge 0.5\nspawn 0.003 merge 0.5\nspawn 0.002 merge 0.5\n";
        assert_eq!(
            figures(said).unwrap(),
            [figure("merge", "ms", 500.0), figure("spawn", "ms", 2.0)]
        );
        let said = "inter-1024 latency 0.25 bandwidth 2000000.0\n";
        let expected = [
            figure("inter-1024 bandwidth", "MB/s", 2.0),
            figure("inter-1024 latency", "us", 250_000.0),
        ];
        assert_eq!(figures(said).unwrap(), expected);
    }

    #[test]
    fn a_run_that_says_nothing_or_something_else_has_no_figures() {
        for said in ["", "\n", "error 5\n", "spawn x\n", "spawn 0.1\nabort\nkilled now\n"] {
            assert_eq!(figures(said), None, "{said:?}");
        }
    }

    #[test]
    fn every_case_has_its_own_name_in_its_part() {
        for part in [
            spawns(false),
            growth(false),
            rates(false),
            spares(false),
            pairs(),
            all(false),
        ] {
            let mut names: Vec<_> = part.iter().map(|case| case.name.clone()).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), part.len());
        }
    }
}
