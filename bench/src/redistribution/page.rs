//! The results as one page to read: the map of the best method, how far each method is from it, and a table of all. It
//! needs no network, and shows everything without a script; the script sorts, filters and chooses. Pure.

use super::cell::{Cell, METHODS, Metric};
use super::plan::{CANDIDATES, name};
use crate::statistics::{kruskal_wallis, quantile};
use std::fmt::Write as _;

const TEMPLATE: &str = include_str!("page.html");

/// What is compared by colors.
const JUDGED: [Metric; 2] = [Metric::Pause, Metric::Total];

/// The darkest color of a multiple of the best: so much or more.
const SHADES: [f64; 5] = [1.05, 1.25, 1.6, 2.5, 5.0];

/// The whole page.
pub fn page(cells: &[Cell]) -> String {
    let runs: usize = cells
        .iter()
        .map(|cell| (0..CANDIDATES).map(|one| cell.runs(one).len()).sum::<usize>())
        .sum();
    let of_each = |draw: fn(&[Cell], Metric) -> String| {
        let part = |metric: Metric| format!("<div class=\"by {}\">{}</div>\n", metric.name(), draw(cells, metric));
        JUDGED.map(part).concat()
    };
    TEMPLATE
        .replace("<!--runs-->", &runs.to_string())
        .replace("<!--maps-->", &of_each(maps))
        .replace("<!--heat-->", &of_each(heat))
        .replace("<!--kinds-->", &choices(cells.iter().map(kind)))
        .replace("<!--changes-->", &choices(cells.iter().map(change)))
        .replace("<!--rows-->", &rows(cells))
}

/// Kind and size of the data.
fn kind(cell: &Cell) -> String {
    match cell.mib {
        Some(mib) => format!("{}, {mib} MiB", cell.data),
        None => cell.data.to_string(),
    }
}

fn change(cell: &Cell) -> String {
    format!("{} to {}", cell.from, cell.to)
}

/// Each once, in the order in which they come.
fn distinct(all: impl Iterator<Item = String>) -> Vec<String> {
    all.fold(Vec::new(), |mut found, one| {
        if !found.contains(&one) {
            found.push(one);
        }
        found
    })
}

fn choices(all: impl Iterator<Item = String>) -> String {
    distinct(all)
        .iter()
        .map(|one| format!("<option>{one}</option>"))
        .collect()
}

/// The classes of a method's color: by its processes, and by its operation.
fn look(method: &str) -> String {
    let processes = method.split("-p2p").next().unwrap_or(method);
    let processes = processes.split("-collective").next().unwrap_or(method);
    let operation = if method.contains("collective") {
        "collective"
    } else {
        "p2p"
    };
    format!("{processes} {operation}")
}

/// The best method for each pair of sizes, for each kind and size of data: columns are sizes before, rows sizes after.
fn maps(cells: &[Cell], metric: Metric) -> String {
    let mut text = String::new();
    for kind_of in distinct(cells.iter().map(kind)) {
        let of_kind: Vec<&Cell> = cells.iter().filter(|cell| kind(cell) == kind_of).collect();
        let sizes = |size: fn(&Cell) -> u32| {
            let mut all: Vec<u32> = of_kind.iter().map(|cell| size(cell)).collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let (before, after) = (sizes(|cell| cell.from), sizes(|cell| cell.to));
        let _ = write!(
            text,
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Best {} of {kind_of}\">\
             <table class=\"map\"><caption>{kind_of}: least {}</caption><thead><tr><td></td>",
            metric.name(),
            metric.name()
        );
        for from in &before {
            let _ = write!(text, "<th scope=\"col\">from {from}</th>");
        }
        text.push_str("</tr></thead><tbody>\n");
        for to in &after {
            let _ = write!(text, "<tr><th scope=\"row\">to {to}</th>");
            for from in &before {
                let cell = of_kind.iter().find(|cell| (cell.from, cell.to) == (*from, *to));
                text.push_str(&cell.map_or_else(|| "<td class=\"none\"></td>".to_owned(), |cell| field(cell, metric)));
            }
            text.push_str("</tr>\n");
        }
        text.push_str("</tbody></table></div>\n");
    }
    text
}

fn field(cell: &Cell, metric: Metric) -> String {
    let best = cell.best(metric);
    let alike = cell.as_good_as_best(metric).len() - 1;
    let mut text = format!(
        "<td class=\"{}\"><b>{}</b><br>{} ms, {alike} as good",
        look(name(best)),
        name(best),
        millis(cell.median(best, metric))
    );
    if !cell.runs(0).is_empty() {
        let _ = write!(text, "<br>auto {:.2} ×", cell.auto_against_best(metric));
    }
    text + "</td>"
}

fn millis(value: f64) -> String {
    format!("{value:.1}")
}

/// Every method by every cell: its median as a multiple of the best method's.
fn heat(cells: &[Cell], metric: Metric) -> String {
    let mut text = format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Multiples of the best {}\">\
         <table class=\"heat\"><caption>Median {} by that of the best method</caption><thead><tr><th>Method</th>",
        metric.name(),
        metric.name()
    );
    for cell in cells {
        let _ = write!(text, "<th scope=\"col\">{}<br>{}</th>", kind(cell), change(cell));
    }
    text.push_str("</tr></thead><tbody>\n");
    for candidate in 0..CANDIDATES {
        let _ = write!(text, "<tr><th scope=\"row\">{}</th>", name(candidate));
        for cell in cells {
            if cell.runs(candidate).is_empty() {
                text.push_str("<td class=\"none\"></td>");
                continue;
            }
            let best = cell.best(metric);
            let multiple = cell.median(candidate, metric) / cell.median(best, metric);
            let shade = SHADES.iter().filter(|limit| multiple >= **limit).count();
            let mark = if candidate == best { "★ " } else { "" };
            let _ = write!(text, "<td class=\"s{shade}\">{mark}{multiple:.2}</td>");
        }
        text.push_str("</tr>\n");
    }
    text + "</tbody></table></div>"
}

/// All variants: a line for each cell and candidate that has runs.
fn rows(cells: &[Cell]) -> String {
    let mut text = String::new();
    for cell in cells {
        let scale = JUDGED.map(|metric| {
            let all = (0..CANDIDATES).flat_map(|candidate| cell.values(candidate, metric));
            all.fold(0.0, f64::max)
        });
        for candidate in (0..CANDIDATES).filter(|candidate| !cell.runs(*candidate).is_empty()) {
            let _ = write!(
                text,
                "<tr><td data-v=\"{:08}\">{}</td><td>{}</td><th scope=\"row\">{}</th>",
                u64::from(cell.from) * 10_000 + u64::from(cell.to),
                change(cell),
                kind(cell),
                name(candidate)
            );
            for (metric, scale) in JUDGED.into_iter().zip(scale) {
                text.push_str(&spread(&cell.values(candidate, metric), scale));
                let _ = write!(text, "<td>{}</td>", verdict(cell, candidate, metric));
            }
            for metric in Metric::ALL.into_iter().filter(|metric| !JUDGED.contains(metric)) {
                let median = cell.median(candidate, metric);
                let shown = match metric.unit() {
                    "B" => format!("{:.2}", median / 1024.0 / 1024.0),
                    "KiB" => format!("{:.0}", median / 1024.0),
                    _ => millis(median),
                };
                let _ = write!(text, "<td data-v=\"{median}\">{shown}</td>");
            }
            let _ = writeln!(text, "<td>{}</td></tr>", cell.runs(candidate).len());
        }
    }
    text
}

/// Median, quartiles and range of runs, in numbers and drawn.
fn spread(values: &[f64], scale: f64) -> String {
    let [least, low, median, high, most] = [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| quantile(values, part));
    let at = |value: f64| if scale > 0.0 { value / scale * 100.0 } else { 0.0 };
    format!(
        "<td data-v=\"{median}\">{}</td><td data-v=\"{}\">{}–{}<svg viewBox=\"0 0 100 8\" aria-hidden=\"true\">\
         <path d=\"M{:.1} 4H{:.1}\"/><rect x=\"{:.1}\" y=\"1\" width=\"{:.1}\" height=\"6\"/>\
         <path class=\"median\" d=\"M{:.1} 0V8\"/></svg></td>",
        millis(median),
        high - low,
        millis(low),
        millis(high),
        at(least),
        at(most),
        at(low),
        (at(high) - at(low)).max(0.5),
        at(median)
    )
}

/// What the tests of the cell say of a candidate.
fn verdict(cell: &Cell, candidate: usize, metric: Metric) -> String {
    if !METHODS.contains(&candidate) {
        return format!("chose {}", cell.chosen().join(", "));
    }
    let groups = cell.groups(metric);
    let groups: Vec<&[f64]> = groups
        .iter()
        .map(Vec::as_slice)
        .filter(|group| !group.is_empty())
        .collect();
    if candidate == cell.best(metric) {
        let differ = kruskal_wallis(&groups).map_or_else(String::new, |found| format!(" (p {:.1e})", found.p));
        return format!("best{differ}");
    }
    let alike = cell.as_good_as_best(metric);
    if alike.contains(&candidate) { "as good" } else { "worse" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::read_csv::read_cells;
    use super::*;

    fn small() -> Vec<Cell> {
        let mut cells = Vec::new();
        read_cells(include_str!("../../tests/small_laboratory.csv"), &mut cells).unwrap();
        cells
    }

    /// The line of the table for a change and a method, as words.
    fn words(page: &str, change: &str, method: &str) -> Vec<String> {
        let mut lines = page.lines().filter(|line| line.starts_with("<tr><td data-v"));
        let line = lines.find(|line| {
            line.contains(&format!(">{change}<")) && line.contains(&format!("<th scope=\"row\">{method}<"))
        });
        let line = line.unwrap_or_else(|| panic!("{change} by {method}"));
        let mut words = Vec::new();
        for part in line.split('<') {
            words.push(part.split_once('>').map_or("", |(_, text)| text).to_owned());
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn the_table_has_the_medians_quartiles_and_verdicts_of_the_runs() {
        let page = page(&small());
        assert_eq!(page.matches("<tr><td data-v").count(), 2 * CANDIDATES);
        // By another program from the same file.
        let best = words(&page, "1 to 2", "merge-p2p-sync");
        assert_eq!(
            best[..5],
            ["1 to 2", "rows, 64 MiB", "merge-p2p-sync", "10.3", "9.5–10.9"]
        );
        assert!(best[5].starts_with("best (p "), "{best:?}");
        assert_eq!(best[6..8], ["35.8", "34.6–37.4"]);
        assert_eq!(best[9..], ["23.4", "1.7", "8.1", "32.00", "0.00", "99", "5"]);
        let auto = words(&page, "1 to 2", "auto");
        assert_eq!(auto[3..6], ["11.2", "9.3–11.3", "chose merge-p2p-async"]);
        let worse = words(&page, "2 to 1", "baseline-collective-sync");
        assert_eq!(worse[3..8], ["80.9", "62.6–83.2", "worse", "116.5", "107.5–119.3"]);
    }

    #[test]
    fn the_maps_name_the_best_and_the_multiples_are_shaded() {
        let cells = small();
        let maps = maps(&cells, Metric::Pause);
        assert!(
            maps.contains("<td class=\"merge p2p\"><b>merge-p2p-sync</b><br>10.3 ms, "),
            "{maps}"
        );
        assert!(
            maps.contains("<b>merge-p2p-sync</b><br>8.8 ms, ") && maps.contains("auto 1.08 ×"),
            "{maps}"
        );
        assert_eq!(maps.matches("<td class=\"none\">").count(), 2, "1 to 1 and 2 to 2");
        let heat = heat(&cells, Metric::Pause);
        let line = heat
            .lines()
            .find(|line| line.contains(">baseline-collective-sync<"))
            .unwrap();
        assert!(
            line.ends_with("<td class=\"s4\">3.31</td><td class=\"s5\">9.15</td></tr>"),
            "{line}"
        );
        assert!(
            heat.contains("<td class=\"s0\">★ 1.00</td><td class=\"s0\">★ 1.00</td>"),
            "{heat}"
        );
    }

    #[test]
    fn each_kind_of_method_has_a_look_of_its_own() {
        let mut looks: Vec<_> = METHODS.map(|method| look(name(method))).collect();
        looks.sort_unstable();
        looks.dedup();
        assert_eq!(looks.len(), 6);
        let parts = looks.iter().flat_map(|look| look.split(' '));
        let styled = |part: &str| TEMPLATE.contains(&format!(".{part}"));
        assert!(parts.clone().all(styled), "{looks:?}");
    }

    #[test]
    fn the_page_is_whole_without_a_network_and_has_each_choice_once() {
        let page = page(&small());
        assert!(!page.contains("<!--") && page.ends_with("</html>\n"));
        for outside in ["http:", "https:", "src=", "href=", "url(", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_eq!(page.matches("<option>rows, 64 MiB</option>").count(), 1);
        assert_eq!(page.matches("<option>1 to 2</option>").count(), 1);
        assert!(super::page(&[]).contains("in 0 runs"));
    }
}
