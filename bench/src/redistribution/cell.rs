//! One pair of sizes and one kind of data: what every candidate measured there, and which is best. Pure.

use super::measure::Change;
use super::plan::{CANDIDATES, Data, name};
use crate::statistics::{conover_iman, median};
use std::fmt;
use std::ops::Range;

/// Below this probability groups are held to differ.
pub(super) const SIGNIFICANT: f64 = 0.05;

/// The candidates that are methods.
pub(super) const METHODS: Range<usize> = 1..CANDIDATES;

/// What is measured in each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    Pause,
    Total,
    Spawn,
    Meet,
    Move,
    Bytes,
    Ahead,
    Peak,
}

impl Metric {
    pub(super) const ALL: [Self; 8] = [
        Self::Pause,
        Self::Total,
        Self::Spawn,
        Self::Meet,
        Self::Move,
        Self::Bytes,
        Self::Ahead,
        Self::Peak,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Total => "total",
            Self::Spawn => "spawn",
            Self::Meet => "join",
            Self::Move => "move",
            Self::Bytes => "bytes",
            Self::Ahead => "ahead",
            Self::Peak => "peak",
        }
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Pause | Self::Total | Self::Spawn | Self::Meet | Self::Move => "ms",
            Self::Bytes | Self::Ahead => "B",
            Self::Peak => "KiB",
        }
    }
}

/// What one change measured, in the order of [`Metric::ALL`].
pub(super) type Values = [f64; 8];

/// See the file head.
#[derive(Debug)]
pub struct Cell {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) data: Data,
    /// Of all data together, where that is known.
    pub(super) mib: Option<u64>,
    /// By candidate: each run.
    runs: Vec<Vec<Run>>,
}

#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) values: Values,
    /// The method it was made by.
    pub(super) by: String,
}

impl Cell {
    pub(super) fn new(from: u32, to: u32, data: Data, mib: Option<u64>) -> Self {
        Self {
            from,
            to,
            data,
            mib,
            runs: vec![Vec::new(); CANDIDATES],
        }
    }

    pub(super) fn push(&mut self, candidate: usize, change: &Change) {
        let done = &change.done;
        let phase = |name: &str| {
            let found = done.phases_ms.iter().filter(|(phase, _)| phase == name);
            found.map(|(_, ms)| ms).sum()
        };
        let values = [
            done.pause_ms,
            done.total_ms,
            phase("preparing"),
            phase("meeting"),
            phase("moving"),
            done.bytes_moved.0 as f64,
            done.bytes_ahead.0 as f64,
            change.peak_kib as f64,
        ];
        let by = done.method.map_or("relaunch", |method| method.as_str()).to_owned();
        self.add(candidate, Run { values, by });
    }

    pub(super) fn add(&mut self, candidate: usize, run: Run) {
        self.runs[candidate].push(run);
    }

    pub(super) fn is_of(&self, from: u32, to: u32, data: Data, mib: Option<u64>) -> bool {
        (self.from, self.to, self.data, self.mib) == (from, to, data, mib)
    }

    pub(super) fn runs(&self, candidate: usize) -> &[Run] {
        &self.runs[candidate]
    }

    pub(super) fn values(&self, candidate: usize, metric: Metric) -> Vec<f64> {
        self.runs[candidate]
            .iter()
            .map(|run| run.values[metric as usize])
            .collect()
    }

    /// Every method's values.
    pub(super) fn groups(&self, metric: Metric) -> Vec<Vec<f64>> {
        METHODS.map(|method| self.values(method, metric)).collect()
    }

    pub(super) fn median(&self, candidate: usize, metric: Metric) -> f64 {
        median(&self.values(candidate, metric))
    }

    /// The method with the lowest median.
    pub(super) fn best(&self, metric: Metric) -> usize {
        let median = |method: &usize| self.median(*method, metric);
        METHODS.min_by(|a, b| median(a).total_cmp(&median(b))).unwrap_or(1)
    }

    /// How far the runs that the daemons chose for are from the best method's.
    pub(super) fn auto_against_best(&self, metric: Metric) -> f64 {
        self.median(0, metric) / self.median(self.best(metric), metric)
    }

    /// Whether two methods do the same here: without constant data nothing can travel ahead. A program of the user may
    /// have some.
    fn is_same(&self, one: &str, other: &str) -> bool {
        let of = |method: &str| method.trim_end_matches("-async").trim_end_matches("-sync").to_owned();
        one == other || (!matches!(self.data, Data::Constant | Data::Own) && of(one) == of(other))
    }

    /// How far the method that the daemons chose is from the best one: by all runs that did the same, whoever named it,
    /// since those differ by chance alone. Where they chose several, only the runs they chose for count.
    pub(super) fn choice_against_best(&self, metric: Metric) -> f64 {
        let like = |method: usize| METHODS.filter(move |other| self.is_same(name(method), name(*other)));
        let runs_like = |method: usize| like(method).flat_map(|other| self.values(other, metric));
        let mut chosen =
            METHODS.filter(|method| self.chosen().iter().all(|chosen| self.is_same(name(*method), chosen)));
        let Some(chosen) = chosen.next() else {
            return self.auto_against_best(metric);
        };
        let others = METHODS.filter(|method| !self.is_same(name(*method), name(chosen)));
        let medians = others.map(|method| median(&runs_like(method).collect::<Vec<f64>>()));
        let own: Vec<f64> = self.values(0, metric).into_iter().chain(runs_like(chosen)).collect();
        let own = median(&own);
        own / medians.fold(own, f64::min)
    }

    /// Whether a candidate may still turn out to be the best: its lower quartile is not beyond the best one's upper
    /// one. The daemons' choice always may.
    pub(super) fn is_in_the_race(&self, candidate: usize, metric: Metric) -> bool {
        let best = self.best(metric);
        let quartile = |candidate: usize, part: usize| {
            let mut values = self.values(candidate, metric);
            values.sort_by(f64::total_cmp);
            values.get(values.len() * part / 4).copied()
        };
        candidate == 0 || quartile(candidate, 1) <= quartile(best, 3)
    }

    /// The methods that the daemons chose.
    pub(super) fn chosen(&self) -> Vec<&str> {
        let mut chosen: Vec<&str> = self.runs[0].iter().map(|run| run.by.as_str()).collect();
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    /// Methods with runs that cannot be told from the best, and it.
    pub(super) fn as_good_as_best(&self, metric: Metric) -> Vec<usize> {
        let best = self.best(metric);
        let measured: Vec<usize> = METHODS.filter(|method| !self.runs[*method].is_empty()).collect();
        let groups: Vec<Vec<f64>> = measured.iter().map(|method| self.values(*method, metric)).collect();
        let groups: Vec<&[f64]> = groups.iter().map(Vec::as_slice).collect();
        let pairs = conover_iman(&groups).unwrap_or_default();
        let differs = |method: usize| {
            let mut found = pairs.iter().filter(|(one, other, _)| {
                let pair = (measured[*one], measured[*other]);
                pair == (method.min(best), method.max(best))
            });
            found.any(|(_, _, p)| *p < SIGNIFICANT)
        };
        let alike = measured.iter().copied();
        alike.filter(|method| *method == best || !differs(*method)).collect()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {} {}", self.from, self.to, self.data)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Fewer runs do not tell one method from eleven that are alike.
    pub(in crate::redistribution) const RUNS: usize = 18;

    /// A cell whose candidates had these medians, with noise well below their distances.
    pub(in crate::redistribution) fn cell_of(medians: impl Fn(usize) -> f64) -> Cell {
        let mut cell = Cell::new(2, 4, Data::Rows, Some(1));
        for (candidate, runs) in cell.runs.iter_mut().enumerate() {
            for run in 0..RUNS as i32 {
                let noise = f64::from((run * 7 + candidate as i32 * 3) % 6) * 0.1;
                runs.push(Run {
                    values: [medians(candidate) + noise; 8],
                    by: super::super::plan::name(candidate.max(1)).to_owned(),
                });
            }
        }
        cell
    }

    #[test]
    fn the_best_is_the_lowest_median_and_those_as_good_are_found_by_rank() {
        // The second and the third method are alike, the others are far behind.
        let cell = cell_of(|candidate| match candidate {
            0 | 1 => 300.0,
            2 | 3 => 10.0,
            _ => 200.0,
        });
        assert!([2, 3].contains(&cell.best(Metric::Pause)));
        assert_eq!(cell.as_good_as_best(Metric::Pause), [2, 3]);
        assert!(cell.auto_against_best(Metric::Pause) > 9.0);
        assert_eq!(cell.chosen(), ["merge-p2p-async"]);
    }

    /// As in results of a few methods.
    #[test]
    fn a_method_without_runs_is_neither_best_nor_as_good() {
        let mut cell = cell_of(|candidate| if candidate == 3 { 5.0 } else { 50.0 });
        cell.runs[1].clear();
        cell.runs[12].clear();
        assert_eq!(cell.as_good_as_best(Metric::Pause), [3]);
        let mut alike = cell_of(|_| 5.0);
        alike.runs[1].clear();
        assert_eq!(alike.as_good_as_best(Metric::Pause).len(), METHODS.len() - 1);
    }

    #[test]
    fn a_chosen_method_is_judged_by_all_its_runs() {
        // The runs that were chosen for were unlucky; by all its runs the method is as good as the others.
        let unlucky = cell_of(|candidate| if candidate == 0 { 30.0 } else { 20.0 });
        assert!(unlucky.auto_against_best(Metric::Pause) > 1.4);
        let by_all = unlucky.choice_against_best(Metric::Pause);
        assert!(by_all < 1.1, "{by_all}");
        let best = cell_of(|candidate| if candidate <= 1 { 10.0 } else { 20.0 });
        assert_eq!(best.choice_against_best(Metric::Pause), 1.0);
        // Those that differ only in what travels ahead are one method, where nothing is constant.
        let wrong = cell_of(|candidate| if [3, 4].contains(&candidate) { 10.0 } else { 15.0 });
        assert!(wrong.choice_against_best(Metric::Pause) > 1.4);
        let same = cell_of(|candidate| if candidate == 2 { 14.0 } else { 15.0 });
        assert_eq!(same.choice_against_best(Metric::Pause), 1.0);
    }

    #[test]
    fn who_is_clearly_behind_is_out_of_the_race_but_not_the_daemons_choice() {
        let cell = cell_of(|candidate| match candidate {
            1 => 10.0,
            2 => 10.2,
            _ => 30.0,
        });
        let in_race: Vec<usize> = (0..CANDIDATES)
            .filter(|candidate| cell.is_in_the_race(*candidate, Metric::Pause))
            .collect();
        assert_eq!(in_race, [0, 1, 2]);
    }
}
