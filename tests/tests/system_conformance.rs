//! The conformance program in every surrounding in which a program can run, compared with the same program as one of
//! MPI alone under mpiexec. What differs stands in a list with its reason, or is a defect.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};
use tests::{
    binaries::built,
    cluster::Cluster,
    conformance::{self, Difference, Outcomes, known, table},
    conformance_runs::{CHANGES, CHECKS_MIN, RANKS, ROUND_MAX, THREADS, around_changes, the_round, under_mpiexec},
    limited,
};

const PROGRAM: &str = "pcm-conformance";
const PLAIN: &str = "pcm-conformance-plain";
/// Chapters about what libpcm has wrappers with decisions for.
const CHAPTERS_OF_WRAPPERS: [&str; 4] = ["communicators", "caching", "errors", "sessions"];
/// As [`CHECKS_MIN`], of the chapter that has a flag of its own.
const CHECKS_OF_THREADS_MIN: usize = 18;

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn differences_known() -> Vec<Difference> {
    known(&in_repository("tests/programs/conformance/differences.txt"))
}

/// The outcomes of some chapters.
fn of_chapters(outcomes: &Outcomes, chapters: &[&str]) -> Outcomes {
    let is_wanted = |check: &str| {
        check
            .split_once('.')
            .is_some_and(|(chapter, _)| chapters.contains(&chapter))
    };
    let wanted = outcomes.iter().filter(|(check, _)| is_wanted(check));
    wanted
        .map(|(check, outcome)| (check.clone(), outcome.clone()))
        .collect()
}

/// Tells on which node it runs and becomes the program.
const TELLING: &str = "echo on $PCM_NODE >&2; exec \"$0\" \"$@\"";
/// Where ranks go depends on what nodes last said of themselves.
const TRIES: u32 = 5;

/// With ranks on both nodes, else there is only one world a node.
fn under_daemons(cluster: &Cluster, shape: &str, words: &[&str]) -> Outcomes {
    for _ in 0..TRIES {
        let mut command = cluster.pcmctl(&["run", "-n", RANKS, "--world", shape, "--"]);
        command.args(["sh", "-c", TELLING]).arg(built(PLAIN)).args(words);
        let outcome = limited::run(&mut command, ROUND_MAX);
        if ["on n0", "on n1"].iter().all(|node| outcome.stderr.contains(node)) {
            return the_round(&outcome);
        }
        println!("{shape}: {}{}", outcome.stderr, cluster.run(&["nodes"]).stdout);
    }
    panic!("all ranks on one node");
}

/// Where a program runs, and what its checks said there.
type Places = BTreeMap<String, Outcomes>;

/// The checks that these words choose in every surrounding but mpiexec.
fn everywhere(cluster: &Cluster, words: &[&str]) -> Places {
    let mut places = Places::new();
    for shape in ["job", "node", "rank"] {
        places.insert(format!("--world {shape}"), under_daemons(cluster, shape, words));
    }
    // Whatever the change is, libpcm makes the same world of its own in the shape `rank`: one change shows it.
    for (shape, before, changes) in [("job", "", &CHANGES[..]), ("rank", "--world rank, ", &CHANGES[1..2])] {
        let names = ["before a change"]
            .into_iter()
            .chain(changes.iter().map(|change| change.place));
        let rounds = around_changes(cluster, &built(PROGRAM), shape, changes, words);
        places.extend(names.map(|name| format!("{before}{name}")).zip(rounds));
    }
    places
}

fn differences(expected: &Outcomes, places: &Places) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for (place, outcomes) in places {
        let names = expected
            .keys()
            .chain(outcomes.keys().filter(|name| !expected.contains_key(*name)));
        for name in names {
            let (here, there) = (outcomes.get(name), expected.get(name));
            let word =
                |outcome: Option<&conformance::Outcome>| outcome.map_or("missing".to_owned(), |o| o.word.clone());
            if word(here) != word(there) {
                println!(
                    "{place} {name} {}",
                    here.map_or("missing".to_owned(), ToString::to_string)
                );
                found.push((place.clone(), name.clone(), word(here)));
            }
        }
    }
    found
}

#[test]
fn every_check_ends_as_under_mpiexec_or_stands_in_the_list() {
    let cluster = Cluster::up(2);
    let linked = |words: &[&str]| {
        let outcomes = under_mpiexec(&cluster, &built(PROGRAM), words);
        Places::from([("mpiexec with libpcm".to_owned(), outcomes)])
    };
    let mut expected = under_mpiexec(&cluster, &built(PLAIN), &[]);
    assert!(expected.len() >= CHECKS_MIN, "{}", expected.len());
    let mut found = differences(&expected, &everywhere(&cluster, &[]));
    found.extend(differences(
        &of_chapters(&expected, &CHAPTERS_OF_WRAPPERS),
        &linked(&CHAPTERS_OF_WRAPPERS),
    ));
    let of_threads = under_mpiexec(&cluster, &built(PLAIN), &THREADS);
    assert!(of_threads.len() >= CHECKS_OF_THREADS_MIN, "{}", of_threads.len());
    found.extend(differences(&of_threads, &everywhere(&cluster, &THREADS)));
    found.extend(differences(&of_threads, &linked(&THREADS)));
    cluster.down();
    expected.extend(of_threads);
    for (name, outcome) in expected.iter().filter(|(_, outcome)| outcome.word != "ok") {
        println!("mpiexec {name} {outcome}");
        found.push(("mpiexec".to_owned(), name.clone(), outcome.word.clone()));
    }
    found.sort();
    let mut wanted: Vec<_> = differences_known()
        .into_iter()
        .map(|known| (known.place, known.check, known.word))
        .collect();
    wanted.sort();
    assert_eq!(found, wanted, "what was found, and what the list says");
}

#[test]
fn the_page_about_conformance_shows_the_list() {
    let page = fs::read_to_string(in_repository("docs/conformance.md")).expect("the page");
    let table = table(&differences_known());
    assert!(page.contains(&table), "docs/conformance.md must contain\n{table}");
}
