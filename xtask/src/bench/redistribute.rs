//! Bench `redistribute` and its parts: `pcmctl bench redistribute` on a cluster of its own. What it measures, and how it
//! judges, is in `dispatcher/src/bench`.

use super::{
    registry::{Bench, Context, Report},
    samples::Ratio,
    trial,
};
use crate::{
    failure::{Failure, OnPath},
    own_cluster::OwnCluster,
};
use serde_json::Value;
use std::{fs, path::Path, time::Duration};

/// The parts, by kind of data; each takes four to nine minutes.
pub(super) const PARTS: [Bench; 4] = [
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
];

pub(super) const BENCH: Bench = Bench {
    name: "redistribute",
    about: "12 methods and auto x pairs of sizes x kinds of data: pause, phases, bytes, memory; statistics, best per pair",
    run: |context| run_with(context, "redistribute", "rows,constant,tiles,sparse"),
};

/// Nodes, on which the ranks share the CPUs.
const NODES: u32 = 4;

/// All kinds of data with nine rounds on a busy machine.
const BENCH_MAX: Duration = Duration::from_secs(3600);

/// The limits that figures are held against, as `pcmctl` writes them.
const TARGETS: [&str; 2] = [">= 0.9", "<= 1.2"];

fn run_with(context: &Context, name: &'static str, data: &str) -> Result<Report, Failure> {
    let (pairs, mib, rounds) = match context.quick {
        true => ("1:2,2:4", "16", "2"),
        // Pauses of a few milliseconds, where all has travelled ahead, vary more.
        false if data == "constant" => ("1:2,2:4,3:4", "64", "61"),
        // Four ranks that give two everything: those of one method lie between 10 and 40 ms on two CPUs.
        false if data == "rows" => ("1:2,2:4,3:4", "64", "101"),
        false => ("1:2,2:4,3:4", "64", "41"),
    };
    let cluster = OwnCluster::up(&context.environment, NODES)?;
    let out = std::env::temp_dir().join(format!("pcm-{name}-{}", std::process::id()));
    let mut command = cluster.pcmctl(&["bench", "redistribute", "--pairs", pairs, "--mib", mib]);
    command.args(["--rounds", rounds, "--data", data, "--out"]).arg(&out);
    let measured = trial::run(name, command, BENCH_MAX);
    let report = measured.and_then(|outcome| {
        print!("{}", outcome.stdout);
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
    let (ratios, remarks) = figures(&runs).ok_or_else(|| Failure::Answer {
        program: "pcmctl bench".into(),
        problem: "no ratios and remarks in redistribute.json".into(),
    })?;
    Ok(Report {
        ratios,
        remarks,
        beside: vec![
            ("csv", read("redistribute.csv")?),
            ("pause.svg", read("redistribute-pause.svg")?),
            ("total.svg", read("redistribute-total.svg")?),
            ("runs.json", runs),
        ],
        ..Report::default()
    })
}

fn figures(document: &str) -> Option<(Vec<Ratio>, Vec<String>)> {
    let document: Value = serde_json::from_str(document).ok()?;
    let ratios = document["ratios"].as_array()?.iter().map(|ratio| {
        let target = ratio["target"].as_str();
        Some(Ratio {
            name: ratio["name"].as_str()?.to_owned(),
            value: ratio["value"].as_f64()?,
            target: TARGETS.into_iter().find(|known| Some(*known) == target),
        })
    });
    let remarks = document["remarks"].as_array()?.iter();
    Some((
        ratios.collect::<Option<_>>()?,
        remarks
            .map(|remark| remark.as_str().map(str::to_owned))
            .collect::<Option<_>>()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_their_targets_and_a_document_without_them_is_none() {
        let document = r#"{"ratios": [{"name": "a", "value": 0.5, "target": ">= 0.9"}, {"name": "b", "value": 2, "target": null}],
                           "remarks": ["x"]}"#;
        let (ratios, remarks) = figures(document).unwrap();
        assert_eq!((ratios[0].value, ratios[0].target), (0.5, Some(">= 0.9")));
        assert_eq!((ratios[1].name.as_str(), ratios[1].target), ("b", None));
        assert_eq!(remarks, ["x"]);
        assert!(figures("{}").is_none());
    }
}
