//! Bench `redistribute-plain`: growing and shrinking by merge-p2p, against a plain MPI_Alltoallv of the same parts over
//! the same ranks and against messages one way, all in one run of one job.

use super::{
    bench::{Bench, Context},
    watched::{Change, Wanted, Watched},
};
use pcm_bench::{Failure, OwnCluster, Report, Samples, trial};

pub(super) const BENCH: Bench = Bench {
    name: "redistribute-plain",
    about: "bytes a second of merge-p2p against a plain MPI_Alltoallv of the same parts and against messages one way",
    run,
};

/// Sizes to go between.
const PAIRS: [(u32, u32); 2] = [(1, 2), (2, 4)];

/// Size of the whole array.
const MIB: u64 = 256;

/// What must be moved over all, as a share: half of an array whose ranks double or halve.
const MUST_MOVE: f64 = 0.5;

fn run(context: &Context) -> Result<Report, Failure> {
    let cluster = OwnCluster::up(&context.environment, 4)?;
    let mut report = Report::default();
    for (few, many) in PAIRS {
        measure(context, &cluster, (few, many), &mut report)?;
    }
    cluster.down()?;
    report.remarks = vec![
        "bytes: those that had to move, half of the array, whatever was sent or copied besides".into(),
        "merge-p2p: over the phase moving, which ends with the commit, checksums included".into(),
        "alltoallv: each rank's kept part is one of its parts; beside: it is copied by memcpy and not given to MPI"
            .into(),
        "merge-p2p: into pages that were made before the meeting; alltoallv: into fresh memory, or, where it says so, \
         into pages that were there before; one way: into memory that was used before"
            .into(),
        "alltoallv, one way: PMPI calls on the job's own communicator after each growth, the median of five".into(),
    ];
    Ok(report)
}

/// How an MPI_Alltoallv is made, and what the job puts behind the name of such a figure.
const MANNERS: [(&str, &str); 3] = [
    ("alltoallv", ""),
    ("alltoallv beside", "_beside"),
    ("alltoallv beside, into pages that are there", "_made"),
];

/// Speeds of one pair of sizes, in GB/s; pairs are of growing and of shrinking.
struct Speeds {
    ours: [Samples; 2],
    alltoallv: [[Samples; 2]; MANNERS.len()],
    one_way: Samples,
}

fn measure(
    context: &Context,
    cluster: &OwnCluster<'_>,
    (few, many): (u32, u32),
    report: &mut Report,
) -> Result<(), Failure> {
    let mib = if context.quick { 16 } else { MIB };
    let wanted = Wanted {
        ranks: few,
        mib,
        sleep_us: 2000,
        more: &["rows", "plain"],
        ..Wanted::default()
    };
    let job = Watched::start(BENCH.name, cluster, &context.program("pcm-moving"), &wanted)?;
    let named = |what: &str, from: u32, to: u32| Samples::new(format!("{what}, {from} to {to}, {mib} MiB"), "GB/s");
    let both = |what: &str| [named(what, few, many), named(what, many, few)];
    let mut speeds = Speeds {
        ours: both("merge-p2p"),
        alltoallv: MANNERS.map(|(name, _)| both(name)),
        one_way: named("one way", few, many),
    };
    let bytes = (mib << 20) as f64 * MUST_MOVE;
    for round in 0..=context.rounds() {
        let grown = job.change("expand", &["--to", &many.to_string(), "--method", "merge-p2p-sync"])?;
        let shrunk = job.change("shrink", &["--to", &few.to_string(), "--method", "merge-p2p-sync"])?;
        // The first ones also bring programs and pages into memory.
        if round > 0 {
            speeds.push(bytes, &grown, &shrunk)?;
        }
    }
    drop(job);
    speeds.conclude(report);
    Ok(())
}

impl Speeds {
    fn push(&mut self, bytes: f64, grown: &Change, shrunk: &Change) -> Result<(), Failure> {
        let figure = |name: &str| trial::figure(BENCH.name, &grown.said, "changed ranks ", name);
        for (nth, (change, name)) in [(grown, "grown"), (shrunk, "shrunk")].into_iter().enumerate() {
            let moved = change.number("bytes_moved")?;
            if (moved / bytes - 1.0).abs() > 0.01 {
                return Err(Failure::bench(
                    BENCH.name,
                    format!("{moved} bytes moved, {bytes} had to"),
                ));
            }
            let moving_ms = change.phases().get("moving").copied().unwrap_or(f64::NAN);
            self.ours[nth].push(bytes / moving_ms / 1e6);
            for (samples, (_, ending)) in self.alltoallv.iter_mut().zip(MANNERS) {
                samples[nth].push(bytes / figure(&format!("{name}{ending}"))? / 1e9);
            }
        }
        self.one_way.push(figure("one_way")? / 1e9);
        Ok(())
    }

    fn conclude(self, report: &mut Report) {
        for (nth, ours) in self.ours.iter().enumerate() {
            for (plain, (name, _)) in self.alltoallv.iter().zip(MANNERS) {
                report.ratio(
                    format!("{} / {name}", ours.name),
                    ours.paired_ratio(&plain[nth]),
                    ">= 1.3",
                );
            }
            report.ratio(
                format!("{} / one way", ours.name),
                ours.paired_ratio(&self.one_way),
                ">= 0.8",
            );
        }
        report.series.extend(self.ours);
        report.series.extend(self.alltoallv.into_iter().flatten());
        report.series.push(self.one_way);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(line: &str, done: &str) -> Change {
        Change {
            done: serde_json::from_str(done).unwrap(),
            asked_us: 0,
            bytes_per_second: 0.0,
            stamps: Vec::new(),
            said: line.to_owned(),
        }
    }

    #[test]
    fn speeds_count_what_had_to_move_and_a_change_that_moved_something_else_is_none() {
        let samples = || Samples::new("x", "GB/s");
        let mut speeds = Speeds {
            ours: [samples(), samples()],
            alltoallv: MANNERS.map(|_| [samples(), samples()]),
            one_way: samples(),
        };
        let line = "changed ranks 2 wrong 0 bandwidth 1 grown 0.5 shrunk 0.25 grown_beside 2 shrunk_beside 1 \
                    grown_made 4 shrunk_made 0.5 one_way 2000000000.0 stamps 1";
        let moved = r#"{"bytes_moved": 1000000000, "phases_ms": {"moving": 500}}"#;
        speeds.push(1e9, &change(line, moved), &change("", moved)).unwrap();
        assert_eq!(speeds.ours.each_ref().map(Samples::median), [2.0, 2.0]);
        let plain = speeds
            .alltoallv
            .each_ref()
            .map(|both| both.each_ref().map(Samples::median));
        assert_eq!(plain, [[2.0, 4.0], [0.5, 1.0], [0.25, 2.0]]);
        assert_eq!(speeds.one_way.median(), 2.0);
        assert!(speeds.push(2e9, &change(line, moved), &change("", moved)).is_err());
        let mut report = Report::default();
        speeds.conclude(&mut report);
        let values: Vec<f64> = report.ratios.iter().map(|ratio| ratio.value).collect();
        assert_eq!(values, [1.0, 4.0, 8.0, 1.0, 0.5, 2.0, 1.0, 1.0]);
    }
}
