//! Collective operations of jobs over several sites: what they give is what MPI gives.

use std::{collections::BTreeSet, fs};
use tests::{
    binaries::built,
    c_program::compiled,
    cluster::{Cluster, LIMIT},
    conformance_runs::{CHANGES, CHECKS_MIN, around_changes, under_mpiexec},
    limited,
};

/// Nodes with these sites.
fn cluster(sites: &[&str]) -> Cluster {
    let place = Cluster::place();
    let file = place.files().join("hosts");
    let lines = (0..)
        .zip(sites)
        .map(|(node, site)| format!("n{node} 127.0.0.1 site={site}\n"));
    fs::write(&file, lines.collect::<String>()).expect("a file of the test");
    place.booted(&["--hosts", file.to_str().expect("UTF-8")], &[])
}

/// What rank 0 prints of a run.
fn printed(cluster: &Cluster, ranks: u32, options: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
    let program = compiled("programs/wide.c", cluster.files());
    let mut command = cluster.pcmctl(&["run", "-n", &ranks.to_string()]);
    command
        .args(options)
        .arg("--")
        .arg(program)
        .args(["1"])
        .envs(variables.iter().copied());
    let outcome = limited::run(&mut command, LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    let lines: Vec<String> = outcome.stdout.lines().map(str::to_owned).collect();
    assert!(lines.contains(&format!("all right with {ranks} ranks")), "{outcome:?}");
    lines
}

#[test]
fn every_operation_gives_what_mpi_gives_wherever_the_ranks_are() {
    for sites in [&["a", "b"][..], &["a", "b", "a", "c"], &["a", "a"]] {
        let cluster = cluster(sites);
        for ranks in [3, 7] {
            printed(&cluster, ranks, &[], &[]);
        }
        cluster.down();
    }
}

/// Sums in the order of ranks are the same on one node, on nodes of one site, and over sites.
#[test]
fn bits_of_reproducible_sums_do_not_depend_on_where_ranks_are() {
    let mut seen = BTreeSet::new();
    let layouts = [
        &["a"][..],
        &["a", "a"],
        &["a", "b"],
        &["a", "b", "a", "b"],
        &["a", "b", "c", "d"],
    ];
    for sites in layouts {
        let cluster = cluster(sites);
        let lines = printed(&cluster, 6, &["--reproducible"], &[]).into_iter();
        let mut bits: Vec<String> = lines.filter(|line| line.starts_with("bits")).collect();
        bits.sort();
        assert!(bits.len() > 3, "{bits:?}");
        seen.insert(bits);
        cluster.down();
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
}

/// All that MPI promises holds on communicators of ranks that joined from another site, and of those that stay.
#[test]
fn what_mpi_promises_holds_over_sites_after_every_kind_of_change() {
    let cluster = cluster(&["a", "b"]);
    let expected = under_mpiexec(&cluster, &built("pcm-conformance-plain"), &[]);
    assert!(expected.len() >= CHECKS_MIN, "{}", expected.len());
    let rounds = around_changes(&cluster, &built("pcm-conformance"), "job", &CHANGES, &[]);
    for (round, outcomes) in rounds.iter().enumerate() {
        for (check, outcome) in &expected {
            let here = outcomes.get(check).map(|outcome| &outcome.word);
            assert_eq!(here, Some(&outcome.word), "{check} after {round} changes");
        }
    }
    cluster.down();
}
