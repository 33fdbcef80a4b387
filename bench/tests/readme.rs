//! The figures of the README and of the guide to Python are those of `bench/results`, and the README's diff is that of
//! the two C sources of heat2d.
#![allow(clippy::unwrap_used, reason = "a test")]

use pcm_bench::statistics;
use serde_json::Value;
use std::{fs, path::Path};

fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

/// The raw samples of one series, in the order they were measured.
fn samples(file: &str, series: &str) -> Vec<f64> {
    let record: Value = serde_json::from_str(&text(&format!("bench/results/{file}"))).unwrap();
    assert_eq!(record["quick"], false, "{file} is of a quick run");
    let all = record["series"].as_array().unwrap();
    let found = all.iter().find(|found| found["name"] == series);
    let samples = found.unwrap_or_else(|| panic!("{file} has no series {series:?}"))["samples"].as_array();
    samples.unwrap().iter().map(|sample| sample.as_f64().unwrap()).collect()
}

fn median(file: &str, series: &str) -> f64 {
    statistics::median(&samples(file, series))
}

fn paired_ratio(file: &str, series: &str, base: &str) -> f64 {
    statistics::paired_ratio(&samples(file, series), &samples(file, base))
}

/// The largest of the medians of what was added to calls, by both names.
fn added_to_a_call() -> f64 {
    let kinds = ["Comm_rank", "Iprobe", "Irecv, Isend, Wait", "Allreduce"];
    let names = kinds
        .iter()
        .flat_map(|kind| ["MPI_", "PMPI_"].map(|name| format!("{name}{kind}, added")));
    let medians = names.map(|series| median("calls.json", &series));
    medians.fold(0.0, f64::max)
}

/// The last column of the README's table, computed from the raw samples.
fn measured() -> [String; 4] {
    let spikes = samples("adapt-spikes.json", "adapt-spikes: load to computing elsewhere");
    [
        format!(
            "Moving one of four ranks with its 256 MiB stops the program for {:.0} ms (`reconfigure.json`).",
            median("reconfigure.json", "migrate, 256 MiB a rank: pause"),
        ),
        format!(
            "{:.0} ms after a rank is killed all four ranks iterate again, with 64 MiB of data (`recovery.json`).",
            median("recovery.json", "kill -9 to all iterating"),
        ),
        format!(
            "A rank computes elsewhere {:.1} s after other processes load its node, 95th percentile {:.1} s \
             (`adapt-spikes.json`).",
            statistics::median(&spikes),
            statistics::quantile(&spikes, 0.95),
        ),
        format!(
            "Tracking costs at most {:.0} ns per MPI call (`calls.json`); heat2d with the library preloaded takes \
             {:.3} times as long (`overhead.json`).",
            added_to_a_call(),
            paired_ratio("overhead.json", "plain, libpcm preloaded", "plain"),
        ),
    ]
}

/// No more than a microsecond for an iteration in Python.
const STEADY_NS_MAX: f64 = 1000.0;

#[test]
fn the_guide_to_python_says_what_was_measured() {
    let names = ["pcm.iterate()", "for number in pcm.iterations(n)", "array.local"];
    let [iterate, counted, local] = names.map(|name| median("python.json", &format!("{name}, daemon")));
    assert!(iterate.max(counted) <= STEADY_NS_MAX, "{iterate} and {counted} ns");
    let sentence = format!(
        "`pcm.iterate()` costs {iterate:.0} ns, a pass of `pcm.iterations` {counted:.0} ns, a look at `array.local` \
         {local:.0} ns:"
    );
    assert!(text("docs/guide-python.md").contains(&sentence), "{sentence}");
}

/// The last column of the first table, without its two head rows.
fn last_column(readme: &str) -> Vec<String> {
    let rows = readme.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    let cell = |row: &str| row.trim_end_matches('|').rsplit('|').next().unwrap().trim().to_owned();
    rows.map(cell).collect()
}

/// Lines of the README's block of type `diff`, those added and those removed.
fn diff(readme: &str) -> (Vec<String>, Vec<String>) {
    let block = readme.split("```diff\n").nth(1).unwrap().split("```").next().unwrap();
    let of = |sign: char| {
        block
            .lines()
            .filter_map(move |line| line.strip_prefix(sign))
            .map(str::to_owned)
    };
    assert!(block.lines().all(|line| line.starts_with(['+', '-'])), "{block}");
    (of('+').collect(), of('-').collect())
}

/// A source without these lines, which it must have in this order.
fn without(source: &str, lines: &[String]) -> Vec<String> {
    let mut wanted = lines.iter().peekable();
    let rest = source
        .lines()
        .filter(|line| wanted.next_if(|wanted| wanted == line).is_none());
    let rest = rest.map(str::to_owned).collect();
    assert_eq!(wanted.next(), None, "a line of the README's diff is not in the source");
    rest
}

#[test]
fn every_figure_of_the_readmes_table_is_computed_from_bench_results() {
    assert_eq!(last_column(&text("README.md")), measured());
}

#[test]
fn the_readmes_diff_is_that_of_the_two_c_sources() {
    let (added, removed) = diff(&text("README.md"));
    assert_eq!(added.len(), 7, "{added:?}");
    let plain = without(&text("examples/heat2d/heat2d-plain.c"), &removed);
    assert_eq!(plain, without(&text("examples/heat2d/heat2d.c"), &added));
}

#[test]
fn a_figure_that_differs_from_its_samples_is_found() {
    let readme = text("README.md")
        .replace(" 109 ms", " 108 ms")
        .replace("+#include", "+#inculde");
    assert_ne!(last_column(&readme), measured());
    assert!(std::panic::catch_unwind(|| without(&text("examples/heat2d/heat2d.c"), &diff(&readme).0)).is_err());
}
