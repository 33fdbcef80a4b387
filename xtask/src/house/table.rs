//! Measures each row and prints the table, or one JSON document.

use super::{centre, migrate_path, row::Row, simulation, sizes};
use crate::{
    failure::Failure,
    repository::Repository,
    source_tree::{Tree, import_cycles},
};
use serde_json::{Value, json};

const CYCLE_MAX: usize = 3;

/// Prints where the source is today. Targets that are not met are no failure.
pub(crate) fn run(repository: &Repository, as_json: bool) -> Result<(), Failure> {
    let rows = rows(&Tree::read(&repository.root)?);
    if as_json {
        let document = Value::Array(rows.iter().map(Row::json).collect());
        println!("{document:#}");
    } else {
        print!("{}", text(&rows));
    }
    Ok(())
}

fn rows(tree: &Tree) -> Vec<Row> {
    let mut rows = vec![centre::row(tree), cycle_row(tree)];
    rows.extend(sizes::rows(tree));
    rows.push(simulation::row(tree));
    rows.push(migrate_path::row(tree));
    rows
}

fn cycle_row(tree: &Tree) -> Row {
    let per_crate: Vec<(String, usize)> = tree
        .crates()
        .into_iter()
        .map(|folder| {
            let largest = import_cycles(tree, &folder)
                .first()
                .map_or(0, |cycle| cycle.files.len());
            (folder, largest)
        })
        .collect();
    let largest = per_crate.iter().max_by_key(|(_, files)| *files);
    let (folder, files) = largest.map_or(("", 0), |(folder, files)| (folder.as_str(), *files));
    Row {
        measure: "largest import cycle, files",
        before: "45",
        now: format!("{files} ({folder})"),
        target: "<= 3",
        is_met: files <= CYCLE_MAX,
        details: per_crate
            .iter()
            .map(|(folder, files)| (folder.clone(), json!(files)))
            .collect(),
    }
}

fn text(rows: &[Row]) -> String {
    let line = |cells: [&str; 5]| {
        let [measure, before, now, target, met] = cells;
        let text = format!("{measure:<40} {before:>23}  {now:>23}  {target:>20}  {met}");
        format!("{}\n", text.trim_end())
    };
    let mut text = line(["", "before", "now", "target", ""]);
    for row in rows {
        let met = if row.is_met { "met" } else { "not met" };
        text.push_str(&line([row.measure, row.before, &row.now, row.target, met]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source_tree::planted::planted;

    #[test]
    fn each_target_is_measured_on_a_planted_tree() {
        let files = [
            ("pcm-daemon/Cargo.toml", "[package]\n"),
            ("pcm-daemon/src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
            (
                "pcm-daemon/src/a.rs",
                "use crate::b::B;\npub struct Daemon {\n    x: u8,\n}\nimpl Daemon {\n}\n",
            ),
            (
                "pcm-daemon/src/b.rs",
                "use crate::c::C;\npub struct B;\nimpl crate::a::Daemon {}\n",
            ),
            ("pcm-daemon/src/c.rs", "use crate::d::D;\npub struct C;\n"),
            ("pcm-daemon/src/d.rs", "use crate::a::Daemon;\npub struct D;\n"),
            ("xtask/src/lib.rs", "\n\n"),
        ];
        let rows = rows(&planted(&files));
        let text = text(&rows);
        let before_last = &rows[..rows.len() - 1];
        let now: Vec<(&str, bool)> = before_last.iter().map(|row| (row.now.as_str(), row.is_met)).collect();
        assert_eq!(
            now,
            [
                ("1 / 3 / 2 (Daemon)", true),
                ("4 (pcm-daemon)", false),
                ("17", true),
                ("0", true),
                ("2", true),
                ("19", true),
                ("not the whole node", false),
            ],
            "{text}"
        );
        let path = &rows[rows.len() - 1];
        assert!(path.now.ends_with(", broken") && !path.is_met, "{text}");
        assert!(
            text.lines().nth(2).is_some_and(|line| line.ends_with("not met")),
            "{text}"
        );
    }
}
