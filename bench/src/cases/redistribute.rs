//! Bench `redistribute` and its parts: `pcmctl bench redistribute` on a cluster of its own. What it measures, and how
//! it judges, is in `redistribution`.

use super::{
    bench::{Bench, Context},
    sparse_cg,
};
use pcm_bench::{
    Failure, OnPath, OwnCluster, Ratio, Report,
    redistribution::{self, read_cells},
    trial,
};
use serde::Deserialize;
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

/// The parts, by kind of data; each takes four to nine minutes.
pub(super) const PARTS: [Bench; 5] = [
    Bench {
        name: "redistribute-rows",
        about: "of redistribute, a dense array",
        run: |context| run_with(context, "redistribute-rows", "rows"),
    },
    Bench {
        name: "redistribute-constant",
        about: "of redistribute, a dense array that is constant",
        run: |context| run_with(context, "redistribute-constant", "constant"),
    },
    Bench {
        name: "redistribute-tiles",
        about: "of redistribute, a square by tiles",
        run: |context| run_with(context, "redistribute-tiles", "tiles"),
    },
    Bench {
        name: "redistribute-sparse",
        about: "of redistribute, sparse rows of uneven length",
        run: |context| run_with(context, "redistribute-sparse", "sparse"),
    },
    Bench {
        name: "redistribute-cg",
        about: "of redistribute, the data of conjugate gradients, a program as users have it",
        run: conjugate_gradients,
    },
];

pub(super) const BENCH: Bench = Bench {
    name: "redistribute",
    about: "12 methods and auto x pairs of sizes x kinds of data: pause, phases, bytes, memory; statistics, best per \
            pair",
    run: |context| run_with(context, "redistribute", "rows,constant,tiles,sparse"),
};

/// Nodes, on which the ranks share the CPUs.
const NODES: u32 = 4;

/// All kinds of data with nine rounds on a busy machine.
const BENCH_MAX: Duration = Duration::from_secs(3600);

fn run_with(context: &Context, name: &'static str, data: &str) -> Result<Report, Failure> {
    let (pairs, mib, rounds) = match context.quick {
        true => ("1:2,2:4", "16", "2"),
        // Pauses of a few milliseconds, where all has travelled ahead, vary more.
        false if data == "constant" => ("1:2,2:4,3:4", "64", "61"),
        // Four ranks that give two everything: those of one method lie between 10 and 40 ms on two CPUs.
        false if data == "rows" => ("1:2,2:4,3:4", "64", "101"),
        false => ("1:2,2:4,3:4", "64", "41"),
    };
    let words = ["--pairs", pairs, "--mib", mib, "--rounds", rounds, "--data", data];
    measured(context, name, words.map(OsString::from).to_vec())
}

/// A change waits for the end of a step: with 100,000 rows one pair of sizes took more than 15 minutes.
const CG_ROWS: &str = "20000";

/// More than the bench lets the program do.
const CG_STEPS: &str = "10000000";

fn conjugate_gradients(context: &Context) -> Result<Report, Failure> {
    let name = "redistribute-cg";
    let place = TempDir::new().on("make", std::env::temp_dir())?;
    let program = sparse_cg::words(
        (context, name),
        place.path(),
        &[CG_ROWS, "--kind", "poisson3d"],
        CG_STEPS,
    )?;
    let (pairs, rounds) = match context.quick {
        true => ("1:2,2:4", "2"),
        false => ("1:2,2:4,3:4", "9"),
    };
    let words = ["--pairs", pairs, "--rounds", rounds, "--"].map(OsString::from);
    measured(context, name, words.into_iter().chain(program).collect())
}

/// What `pcmctl bench redistribute` finds with these words, on a cluster of its own.
fn measured(context: &Context, name: &'static str, words: Vec<OsString>) -> Result<Report, Failure> {
    let cluster = OwnCluster::up(&context.environment, NODES)?;
    let out = std::env::temp_dir().join(format!("pcm-{name}-{}", std::process::id()));
    let mut command = cluster.pcmctl(&["bench", "redistribute", "--out"]);
    command.arg(&out).args(words);
    let measured = trial::run(name, command, BENCH_MAX);
    let report = measured.and_then(|said| {
        print!("{said}");
        report(&out)
    });
    // There only when something was measured.
    let _ = fs::remove_dir_all(&out);
    cluster.down()?;
    report
}

/// What `pcmctl` left in a directory.
fn report(out: &Path) -> Result<Report, Failure> {
    let read = |name: &str| {
        let path = out.join(name);
        fs::read_to_string(&path).on("read", &path)
    };
    let runs = read("redistribute.json")?;
    let Figures { ratios, remarks } = figures(&runs)?;
    Ok(Report {
        ratios,
        remarks,
        beside: vec![
            ("csv", read("redistribute.csv")?),
            ("html", read("redistribute.html")?),
            ("pause.svg", read("redistribute-pause.svg")?),
            ("total.svg", read("redistribute-total.svg")?),
            ("runs.json", runs),
        ],
        ..Report::default()
    })
}

/// What makes one page of the results in `bench/results`; it measures nothing.
pub(super) const PAGE: &str = "redistribute-page";

/// Writes the page of all parts whose results are in a folder, and returns where it is.
pub(super) fn page(folder: &Path) -> Result<PathBuf, Failure> {
    let mut cells = Vec::new();
    let files = PARTS.map(|part| folder.join(part.name).with_extension("csv"));
    for file in files.iter().filter(|file| file.exists()) {
        let text = fs::read_to_string(file).on("read", file)?;
        let read = read_cells(&text, &mut cells);
        read.map_err(|error| Failure::bench(PAGE, format!("{}, {error}", file.display())))?;
    }
    if cells.is_empty() {
        let problem = format!(
            "there is no redistribute-rows.csv, …-constant.csv and so on in {}",
            folder.display()
        );
        return Err(Failure::bench(PAGE, problem));
    }
    let path = folder.join("redistribute.html");
    fs::write(&path, redistribution::page(&cells)).on("write", &path)?;
    Ok(path)
}

/// What is quoted of the document that `pcmctl` wrote.
#[derive(Deserialize)]
struct Figures {
    ratios: Vec<Ratio>,
    remarks: Vec<String>,
}

fn figures(document: &str) -> Result<Figures, Failure> {
    let read = serde_json::from_str(document);
    read.map_err(|error| Failure::answer("pcmctl bench", format!("redistribute.json: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_made_of_the_results_that_are_there_and_a_wrong_line_is_named_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let nothing = page(folder.path()).unwrap_err().to_string();
        assert!(nothing.contains("there is no redistribute-rows.csv"), "{nothing}");
        let file = folder.path().join("redistribute-rows.csv");
        let small = include_str!("../../tests/small_laboratory.csv");
        fs::write(&file, small).unwrap();
        let made = fs::read_to_string(page(folder.path()).unwrap()).unwrap();
        assert!(made.contains("in 130 runs"));
        fs::write(&file, small.replacen("rows", "columns", 1)).unwrap();
        let wrong = page(folder.path()).unwrap_err().to_string();
        assert!(
            wrong.contains("redistribute-rows.csv, line 2: a kind of data"),
            "{wrong}"
        );
    }

    #[test]
    fn figures_keep_their_targets_and_a_document_without_them_is_none() {
        let document = r#"{"ratios": [
            {"name": "a", "value": 0.5, "target": ">= 0.9"}, {"name": "b", "value": 2, "target": null}],
                           "remarks": ["x"]}"#;
        let figures_of = figures(document).unwrap();
        let expected = [Ratio::new("a", 0.5, ">= 0.9"), Ratio::new("b", 2.0, None)];
        assert_eq!(
            (figures_of.ratios.as_slice(), figures_of.remarks.as_slice()),
            (&expected[..], &["x".to_owned()][..])
        );
        assert!(figures("{}").is_err());
    }
}
