//! What was found: every run as CSV and JSON, with machine and versions, tables, pictures and a page. Must never round
//! what is raw, or write a file.

use super::best_map;
use super::cell::{Cell, Metric};
use super::page::page;
use super::plan::{CANDIDATES, Plan, name};
use super::verdict;
use crate::record::machine;
use crate::samples::Ratio;
use pcm_view::table::{Align, Table};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// See the file head.
#[derive(Debug)]
pub struct Findings<'a> {
    cells: &'a [Cell],
    plan: &'a Plan,
    ratios: Vec<Ratio>,
}

impl<'a> Findings<'a> {
    pub fn new(cells: &'a [Cell], plan: &'a Plan) -> Self {
        Self {
            cells,
            plan,
            ratios: verdict::ratios(cells),
        }
    }

    /// Medians, then the figures.
    pub fn tables(&self) -> String {
        let ratios = self.ratios.iter();
        ratios.fold(table(self.cells), |text, ratio| format!("{text}{ratio}\n"))
    }

    /// Who is best, by pause and in all.
    pub fn remarks(&self) -> String {
        remarks(self.cells, self.plan).join("\n") + "\n"
    }

    /// Names and contents of all files; `nodes` is what the cluster says of its nodes.
    pub fn files(&self, nodes: &Value) -> [(&'static str, String); 5] {
        let document = document(self.cells, self.plan, nodes, &self.ratios);
        [
            ("redistribute.json", format!("{document:#}\n")),
            ("redistribute.csv", csv(self.cells)),
            ("redistribute.html", page(self.cells)),
            ("redistribute-pause.svg", best_map::draw(self.cells, Metric::Pause)),
            ("redistribute-total.svg", best_map::draw(self.cells, Metric::Total)),
        ]
    }
}

/// One line for each run, in the order of cells and candidates.
pub(super) fn csv(cells: &[Cell]) -> String {
    let mut text = "from,to,data,method,by,run".to_owned();
    for metric in Metric::ALL {
        let _ = write!(text, ",{}_{}", metric.name(), metric.unit());
    }
    text.push_str(",data_MiB\n");
    for cell in cells {
        for candidate in 0..CANDIDATES {
            for (nth, run) in cell.runs(candidate).iter().enumerate() {
                let Cell { from, to, data, .. } = cell;
                let _ = write!(text, "{from},{to},{data},{},{},{nth}", name(candidate), run.by);
                for value in run.values {
                    let _ = write!(text, ",{value}");
                }
                let mib = cell.mib.map_or_else(String::new, |mib| mib.to_string());
                let _ = writeln!(text, ",{mib}");
            }
        }
    }
    text
}

/// Who is best.
fn remarks(cells: &[Cell], plan: &Plan) -> Vec<String> {
    let mut remarks = Vec::new();
    for metric in [Metric::Pause, Metric::Total] {
        remarks.extend(cells.iter().map(|cell| verdict::words(cell, metric)));
    }
    let size = plan.mib.map_or_else(String::new, |mib| format!("{mib} MiB, "));
    remarks.push(format!(
        "{size}{} rounds after {} in which auto learned what methods cost here, less of methods that were clearly \
         behind; spawn: from the request until newcomers are ready; join: from the stop until all are connected; move: \
         until the commit; peak: largest resident size of a rank of this machine that is there after the change",
        plan.rounds, plan.learn
    ));
    remarks
}

/// The whole as one document.
fn document(cells: &[Cell], plan: &Plan, nodes: &Value, ratios: &[Ratio]) -> Value {
    let runs = cells.iter().flat_map(|cell| {
        (0..CANDIDATES).flat_map(move |candidate| {
            cell.runs(candidate).iter().map(move |run| {
                let mut line = json!({"from": cell.from, "to": cell.to, "data": cell.data.as_str(),
                                      "method": name(candidate), "by": run.by});
                for (metric, value) in Metric::ALL.iter().zip(run.values) {
                    line[format!("{}_{}", metric.name(), metric.unit().to_lowercase())] = json!(value);
                }
                line
            })
        })
    });
    json!({
        "bench": "redistribute",
        "mib": plan.mib,
        "rounds": plan.rounds,
        "learned_from_rounds": plan.learn,
        "machine": machine(),
        "versions": {"pcmctl": env!("CARGO_PKG_VERSION")},
        "nodes": nodes,
        "runs": runs.collect::<Vec<_>>(),
        "ratios": ratios,
        "remarks": remarks(cells, plan),
    })
}

/// Medians by cell and candidate.
fn table(cells: &[Cell]) -> String {
    let columns: Vec<(&'static str, Align)> = [("change", Align::Left), ("data", Align::Left), ("method", Align::Left)]
        .into_iter()
        .chain(Metric::ALL.map(|metric| (metric.name(), Align::Right)))
        .collect();
    let mut table = Table::new(&columns);
    for cell in cells {
        for candidate in 0..CANDIDATES {
            let mark = if candidate == cell.best(Metric::Pause) {
                " *"
            } else {
                ""
            };
            let mut row = vec![
                format!("{} to {}", cell.from, cell.to),
                cell.data.to_string(),
                format!("{}{mark}", name(candidate)),
            ];
            row.extend(
                Metric::ALL.map(|metric| match (metric.unit(), cell.median(candidate, metric)) {
                    ("B", bytes) => format!("{:.2} MiB", bytes / 1024.0 / 1024.0),
                    ("KiB", kib) => format!("{:.0} MiB", kib / 1024.0),
                    (_, value) => format!("{value:.1}"),
                }),
            );
            table.row(row);
        }
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::super::cell::tests::{RUNS, cell_of};
    use super::*;

    fn plan() -> Plan {
        Plan {
            pairs: Vec::new(),
            data: Vec::new(),
            mib: Some(1),
            rounds: 6,
            learn: 3,
        }
    }

    #[test]
    fn every_run_is_a_line_and_an_object_with_its_raw_values() {
        let cells = [cell_of(|_| 1.0 / 3.0)];
        let csv = csv(&cells);
        assert_eq!(csv.lines().count(), 1 + CANDIDATES * RUNS);
        assert!(csv.starts_with("from,to,data,method,by,run,pause_ms,"), "{csv}");
        assert!(
            csv.contains("2,4,rows,auto,merge-p2p-async,0,0.3333333333333333,"),
            "{csv}"
        );
        let document = document(&cells, &plan(), &json!([]), &[]);
        assert_eq!(document["runs"].as_array().unwrap().len(), CANDIDATES * RUNS);
        assert_eq!(document["runs"][0]["pause_ms"], json!(1.0 / 3.0));
    }

    #[test]
    fn the_table_marks_the_best_method_of_a_cell() {
        let table = table(&[cell_of(|candidate| if candidate == 2 { 1.0 } else { 30.0 })]);
        let marked: Vec<&str> = table.lines().filter(|line| line.contains(" *")).collect();
        assert!(marked.len() == 1 && marked[0].contains("merge-p2p-sync *"), "{table}");
    }
}
