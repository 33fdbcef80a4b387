//! What the cells say together: who is best where and how sure that is, how near the daemons' choice is, and what it is
//! worth that constant data travels ahead. Pure.

use super::cell::{Cell, METHODS, Metric, SIGNIFICANT};
use super::plan::{Data, name};
use crate::samples::Ratio;
use crate::statistics::{kruskal_wallis, shapiro_wilk};

/// How near the daemons' choice is to be to the best.
const NEAR: f64 = 1.05;

/// Who is best in a cell, and how sure that is.
pub(super) fn words(cell: &Cell, metric: Metric) -> String {
    let groups = cell.groups(metric);
    let not_normal = groups
        .iter()
        .filter(|group| shapiro_wilk(group).is_some_and(|found| found.p < SIGNIFICANT))
        .count();
    let groups: Vec<&[f64]> = groups.iter().map(Vec::as_slice).collect();
    let differ = kruskal_wallis(&groups).map_or_else(
        || "too few runs to say whether methods differ".to_owned(),
        |found| format!("Kruskal-Wallis H {:.1}, p {:.2e}", found.statistic, found.p),
    );
    let best = cell.best(metric);
    let alike = cell.as_good_as_best(metric);
    let others: Vec<&str> = alike
        .iter()
        .filter(|method| **method != best)
        .map(|method| name(*method))
        .collect();
    let others = if others.is_empty() {
        "none".to_owned()
    } else {
        others.join(", ")
    };
    format!(
        "{cell}: least {} by {} ({:.1} ms); {differ}; {not_normal} of {} not normal (Shapiro-Wilk); not told from it \
         (Conover-Iman): {others}",
        metric.name(),
        name(best),
        cell.median(best, metric),
        METHODS.len(),
    )
}

/// The figures of all cells.
pub(super) fn ratios(cells: &[Cell]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for metric in [Metric::Pause, Metric::Total] {
        ratios.extend(auto_ratios(cells, metric));
    }
    for cell in cells.iter().filter(|cell| cell.data == Data::Constant) {
        for sync in METHODS.filter(|method| name(*method).ends_with("-sync")) {
            let of = name(sync).trim_end_matches("-sync");
            let name = format!("alpha (async / sync), {cell} {of}: pause");
            let value = cell.median(sync - 1, Metric::Pause) / cell.median(sync, Metric::Pause);
            ratios.push(Ratio::new(name, value, None));
        }
    }
    ratios
}

fn auto_ratios(cells: &[Cell], metric: Metric) -> [Ratio; 4] {
    let share_near = |against: &[f64]| {
        let near = against.iter().filter(|ratio| **ratio <= NEAR).count();
        near as f64 / against.len() as f64
    };
    let against: Vec<f64> = cells.iter().map(|cell| cell.choice_against_best(metric)).collect();
    let own_runs: Vec<f64> = cells.iter().map(|cell| cell.auto_against_best(metric)).collect();
    let is_alike = |cell: &&Cell| {
        let alike = cell.as_good_as_best(metric);
        cell.chosen()
            .iter()
            .all(|chosen| alike.iter().any(|method| name(*method) == *chosen))
    };
    let alike = cells.iter().filter(is_alike).count() as f64;
    let what = metric.name();
    let target = |target| (metric == Metric::Pause).then_some(target);
    let share = format!("share of cells where the {what} of auto's method is within 5 % of the best of 12");
    let worst = against.iter().copied().fold(f64::NAN, f64::max);
    let alike_share = format!("share of cells where auto's method is not told from the best ({what})");
    [
        Ratio::new(share, share_near(&against), target(">= 0.9")),
        Ratio::new(
            format!("the same by the runs of auto alone ({what})"),
            share_near(&own_runs),
            None,
        ),
        Ratio::new(
            format!("{what} of auto's method / the best, worst cell"),
            worst,
            target("<= 1.2"),
        ),
        Ratio::new(alike_share, alike / cells.len() as f64, None),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::cell::tests::cell_of;
    use super::*;

    #[test]
    fn a_cell_is_told_with_its_best_method_and_those_as_good() {
        let cell = cell_of(|candidate| if candidate == 3 { 10.0 } else { 100.0 });
        let words = words(&cell, Metric::Pause);
        assert!(
            words.starts_with("2 to 4 rows: least pause by merge-collective-async"),
            "{words}"
        );
        assert!(words.ends_with("(Conover-Iman): none"), "{words}");
    }

    #[test]
    fn a_choice_that_is_far_from_the_best_is_counted_and_shown() {
        let near = cell_of(|candidate| if candidate <= 1 { 10.0 } else { 100.0 });
        let far = cell_of(|candidate| if [3, 4].contains(&candidate) { 10.0 } else { 15.0 });
        let ratios = ratios(&[near, far]);
        assert_eq!((ratios[0].value, ratios[1].value), (0.5, 0.5));
        assert!(ratios[2].value > 1.4 && ratios[2].value < 1.6, "{:?}", ratios[2]);
        assert_eq!(ratios[3].value, 0.5);
    }
}
