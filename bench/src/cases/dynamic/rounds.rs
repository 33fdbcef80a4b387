//! All cases under all launchers, interleaved, and what became of them: samples, and who hung. Must never drop a
//! sample.

use super::attempt::{self, Outcome};
use super::cases::{self, Case, Figure};
use super::launchers::{HYDRA, LAM, Launcher, Launchers, OURS, OURS_WITH_SPARES};
use pcm_bench::{Failure, Ratio, Report, Samples, progress::Progress};
use std::{fmt::Write as _, time::Duration};

/// Far above what any case takes here when it does not hang.
const DEADLINE: Duration = Duration::from_secs(30);

/// One figure of one run.
#[derive(Debug, Clone)]
struct Row {
    launcher: &'static str,
    case: String,
    round: usize,
    figure: Figure,
}

/// A launcher is not tried again with a case that did not come to its end.
#[derive(Debug, Clone)]
struct Stop {
    launcher: &'static str,
    case: String,
    round: usize,
    why: String,
}

/// See the file head.
#[derive(Debug, Default)]
pub(super) struct Measured {
    rows: Vec<Row>,
    stops: Vec<Stop>,
}

/// Every other round goes through the launchers backwards, so that none is always the warm one.
pub(super) fn measure(
    bench: &'static str,
    launchers: &Launchers<'_>,
    cases: &[Case],
    rounds: usize,
) -> Result<Measured, Failure> {
    let mut measured = Measured::default();
    let mut progress = Progress::begin("rounds");
    for round in 0..rounds {
        for case in cases {
            let mut order: Vec<&Launcher<'_>> = launchers
                .present
                .iter()
                .filter(|launcher| launcher.is_for(case))
                .collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for launcher in order {
                if !measured.has_stopped(launcher.name, &case.name) {
                    measured.attempt(bench, launchers, launcher, case, round)?;
                }
            }
        }
        progress.at(round as u64 + 1, rounds as u64);
    }
    progress.clear();
    Ok(measured)
}

impl Measured {
    fn has_stopped(&self, launcher: &str, case: &str) -> bool {
        self.stops
            .iter()
            .any(|stop| stop.launcher == launcher && stop.case == case)
    }

    fn attempt(
        &mut self,
        bench: &str,
        launchers: &Launchers<'_>,
        launcher: &Launcher<'_>,
        case: &Case,
        round: usize,
    ) -> Result<(), Failure> {
        let mark = format!("{bench}-{}", std::process::id());
        let command = launchers.command(launcher, case, &mark);
        let outcome = attempt::run(command, &launchers.folder, &mark, DEADLINE)?;
        if !matches!(outcome, Outcome::Said(_)) {
            launcher.clean()?;
        }
        self.take(launcher.name, &case.name, round, outcome);
        Ok(())
    }

    fn take(&mut self, launcher: &'static str, case: &str, round: usize, outcome: Outcome) {
        let why = match outcome {
            Outcome::Said(text) => match cases::figures(&text) {
                Some(figures) => {
                    let row = |figure| Row {
                        launcher,
                        case: case.to_owned(),
                        round,
                        figure,
                    };
                    return self.rows.extend(figures.into_iter().map(row));
                }
                None => format!("said no figures: {text:.100?}"),
            },
            Outcome::Hung => format!("hangs: not over after {DEADLINE:?}"),
            Outcome::Failed(words) => format!("fails: {words}"),
        };
        self.stops.push(Stop {
            launcher,
            case: case.to_owned(),
            round,
            why,
        });
    }

    fn values(&self, launcher: &str, case: &str, figure: &str) -> Samples {
        let of = |row: &&Row| row.launcher == launcher && row.case == case && row.figure.name == figure;
        let mut samples = Samples::new(format!("{case}: {figure}, {launcher}"), "");
        for row in self.rows.iter().filter(of) {
            samples.unit = row.figure.unit;
            samples.push(row.figure.value);
        }
        samples
    }

    /// Everything as series, in the order of cases.
    pub(super) fn report(&self, cases: &[Case]) -> Report {
        let mut report = Report::default();
        for case in cases {
            let mut seen: Vec<(&str, &str)> = Vec::new();
            for row in self.rows.iter().filter(|row| row.case == case.name) {
                if !seen.contains(&(&row.figure.name, row.launcher)) {
                    seen.push((&row.figure.name, row.launcher));
                }
            }
            seen.sort_by_key(|(figure, _)| *figure);
            let series = seen
                .iter()
                .map(|(figure, launcher)| self.values(launcher, &case.name, figure));
            report.series.extend(series);
        }
        report.ratios = self.ratios();
        let stopped = |stop: &Stop| {
            format!(
                "{} in {:?}, round {}: {}",
                stop.launcher, stop.case, stop.round, stop.why
            )
        };
        report.remarks = self.stops.iter().map(stopped).collect();
        report.beside = vec![("csv", self.csv())];
        report
    }

    /// What was measured on both sides.
    fn ratios(&self) -> Vec<Ratio> {
        let mut ratios = Vec::new();
        let mut push = |name: String, value: f64, target: Option<&str>| {
            if value.is_finite() {
                ratios.push(Ratio::new(name, value, target));
            }
        };
        let spawn = |launcher, case: &str| self.values(launcher, case, "spawn").median();
        let rate = |launcher, case: &str| self.values(launcher, case, "rate").median();
        let one = cases::spawn_name(1, 1);
        let ours = spawn(OURS, &one);
        push(
            format!("{one}: {OURS} / {HYDRA}"),
            ours / spawn(HYDRA, &one),
            Some("<= 0.5"),
        );
        let name = format!("{one}: {OURS}, without spares / {LAM}");
        push(name, ours / spawn(LAM, &one), None);
        for (other, target) in [(HYDRA, "<= 0.5"), (LAM, "<= 1.0"), (OURS, "<= 0.5")] {
            let name = format!("{}: {OURS_WITH_SPARES} / {other}", cases::PACED);
            let warm = spawn(OURS_WITH_SPARES, cases::PACED);
            push(name, warm / spawn(other, cases::PACED), Some(target));
        }
        for children in [8_u32, 32] {
            let case = cases::ready_name(children);
            let name = format!("{case}: {OURS_WITH_SPARES} / {LAM}");
            push(name, rate(OURS_WITH_SPARES, &case) / rate(LAM, &case), Some("> 1.0"));
            let many = spawn(OURS, &cases::spawn_name(1, children));
            let name = format!("{OURS}: spawn of {children} / {children} x spawn of 1");
            push(name, many / ours / f64::from(children), Some("< 1.0"));
            let case = cases::rate_name(children);
            let ours = rate(OURS, &case);
            push(
                format!("{case}: {OURS} / {HYDRA}"),
                ours / rate(HYDRA, &case),
                Some("> 1.0"),
            );
            let name = format!("{case}: {OURS}, without spares / {LAM}");
            push(name, ours / rate(LAM, &case), None);
        }
        ratios
    }

    fn csv(&self) -> String {
        let mut text = "launcher,case,round,figure,unit,value\n".to_owned();
        for Row {
            launcher,
            case,
            round,
            figure,
        } in &self.rows
        {
            let Figure { name, unit, value } = figure;
            let _ = writeln!(text, "{launcher},{case},{round},{name},{unit},{value}");
        }
        for stop in &self.stops {
            let _ = writeln!(text, "{},{},{},stopped,,", stop.launcher, stop.case, stop.round);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Outcome {
        Outcome::Said(text.to_owned())
    }

    #[test]
    fn a_launcher_that_hangs_is_named_and_not_tried_again_with_that_case_only() {
        let mut measured = Measured::default();
        measured.take(HYDRA, "connect", 0, said("connect 0.5\n"));
        measured.take(HYDRA, "connect", 1, Outcome::Hung);
        measured.take(LAM, "connect", 1, Outcome::Failed("no".to_owned()));
        assert!(measured.has_stopped(HYDRA, "connect") && measured.has_stopped(LAM, "connect"));
        assert!(!measured.has_stopped(HYDRA, "pair") && !measured.has_stopped(OURS, "connect"));
        let report = measured.report(&cases::pairs());
        assert!(
            report.remarks[0].contains("hydra in \"connect\", round 1: hangs"),
            "{:?}",
            report.remarks
        );
        assert_eq!(report.series.len(), 1);
        assert!(report.beside[0].1.contains("hydra,connect,0,connect,ms,500\n"));
        assert!(report.beside[0].1.contains("hydra,connect,1,stopped,,\n"));
    }

    #[test]
    fn ratios_are_there_for_what_was_measured_on_both_sides() {
        let mut measured = Measured::default();
        for (launcher, seconds) in [(OURS, 0.01), (HYDRA, 0.1)] {
            measured.take(launcher, "1 spawn 1", 0, said(&format!("spawn {seconds}\n")));
        }
        measured.take(OURS, "1 spawn 8", 0, said("spawn 0.02\n"));
        let ratios = measured.ratios();
        let names: Vec<&str> = ratios.iter().map(|ratio| ratio.name.as_str()).collect();
        assert_eq!(
            names,
            ["1 spawn 1: pcmctl / hydra", "pcmctl: spawn of 8 / 8 x spawn of 1"]
        );
        assert!((ratios[0].value - 0.1).abs() < 1e-9 && (ratios[1].value - 0.25).abs() < 1e-9);
    }

    #[test]
    fn words_that_are_no_figures_end_a_case() {
        let mut measured = Measured::default();
        measured.take(OURS, "pair", 0, said("x"));
        assert!(measured.stops[0].why.contains("no figures"));
    }
}
