//! Collective operations of jobs over several sites: what they give is what MPI gives.

use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, Instant},
};
use tests::{
    background::Background,
    binaries::built,
    c_program::compiled,
    cluster::{Cluster, LIMIT},
    conformance_runs::{CHANGES, CHECKS_MIN, around_changes, under_mpiexec},
    heat2d::{Closing, Plate},
    intel, limited,
    network::{FarSites, Network, Wire},
    older, skip,
    standard_abi::{self, With},
    wait,
};

/// Whether operations wait, do not, or every second one does not.
const FORMS: [&str; 4] = ["blocking", "nonblocking", "mixed", "persistent"];

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

/// What a job of a program prints.
fn printed(cluster: &Cluster, ranks: u32, options: &[&str], source: &str, arguments: &[&str]) -> Vec<String> {
    printed_by(cluster, ranks, options, &compiled(source, cluster.files()), arguments)
}

/// What a job of a compiled program prints.
fn printed_by(cluster: &Cluster, ranks: u32, options: &[&str], program: &Path, arguments: &[&str]) -> Vec<String> {
    let mut command = cluster.pcmctl(&["run", "-n", &ranks.to_string()]);
    command.args(options).arg("--").arg(program).args(arguments);
    // Sites here have too few ranks for some operations to be libpcm's otherwise, and links too fast for others to
    // take two.
    command.envs([("PCM_WIDE", "always"), ("PCM_LINK", "10 1")]);
    let outcome = limited::run(&mut command, LIMIT);
    assert!(
        outcome.status.success(),
        "{} {options:?} {arguments:?}: {outcome:?}",
        program.display()
    );
    outcome.stdout.lines().map(str::to_owned).collect()
}

/// All operations in a form.
fn all_operations(cluster: &Cluster, ranks: u32, options: &[&str], form: &str) -> Vec<String> {
    let lines = printed(cluster, ranks, options, "programs/wide.c", &["1", form]);
    assert!(lines.contains(&format!("all right with {ranks} ranks")), "{lines:?}");
    lines
}

#[test]
fn every_operation_gives_what_mpi_gives_wherever_the_ranks_are() {
    for sites in [&["a", "b"][..], &["a", "b", "a", "c"], &["a", "a"]] {
        let cluster = cluster(sites);
        for ranks in [3, 7] {
            for form in FORMS {
                all_operations(&cluster, ranks, &[], form);
            }
        }
        cluster.down();
    }
}

/// The persistent form is MPI's own with these.
const SOME: [&str; 2] = ["blocking", "mixed"];

/// An older MPICH, the standard ABI, and Intel MPI: the nonblocking forms are MPI's own there, and with Intel MPI take
/// some 40 ms each. MPICH 4.0.3 is left out: its own `MPI_Allgatherv` of one rank is wrong, also under mpiexec.
#[test]
fn every_operation_gives_what_mpi_gives_with_another_mpi() {
    let cluster = cluster(&["a", "b", "a", "c"]);
    let source = "tests/programs/wide.c";
    let right = |options: &[&str], program: &Path, forms: &[&str]| {
        for form in forms {
            let lines = printed_by(&cluster, 7, options, program, &["1", form]);
            assert!(lines.contains(&"all right with 7 ranks".to_owned()), "{lines:?}");
        }
    };
    if let Some(compiler) = standard_abi::compiler() {
        let program = standard_abi::compiled(&compiler, source, cluster.files(), With::ItsOwn);
        right(&[], &program, &SOME);
    }
    for (mpi, forms) in [(older::prefix("4.3.2"), &SOME[..]), (intel::prefix(), &SOME[..1])] {
        let program = older::compiled_by(&mpi, source, cluster.files());
        right(&["--mpi-lib", &mpi.join("lib").display().to_string()], &program, forms);
    }
    cluster.down();
}

#[test]
fn a_link_that_cannot_be_read_is_refused_before_a_rank_starts() {
    let cluster = cluster(&["a", "b"]);
    for (said, problem) in [("fast", "two numbers are needed"), ("10 0", "`0` is no number above 0")] {
        let mut command = cluster.pcmctl(&["run", "-n", "2", "--", "true"]);
        let outcome = limited::run(command.env("PCM_LINK", said), LIMIT);
        assert_eq!(outcome.status.code(), Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains(&format!("PCM_LINK: {problem}")), "{outcome:?}");
    }
    cluster.down();
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
        for form in FORMS {
            let lines = all_operations(&cluster, 6, &["--reproducible"], form).into_iter();
            let mut bits: Vec<String> = lines.filter(|line| line.starts_with("bits")).collect();
            bits.sort();
            assert!(bits.len() > 3, "{bits:?}");
            seen.insert(bits);
        }
        cluster.down();
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
}

/// Many operations at once on a communicator, the first on a new one, ranks that sit in another call while others need
/// them, handles that are freed too early; with one thread in MPI, and where all may be.
#[test]
fn operations_under_way_go_on_wherever_the_program_waits() {
    for sites in [&["a", "b"][..], &["a", "b", "a", "c"], &["a", "a"]] {
        let cluster = cluster(sites);
        for (ranks, arguments) in [(2, &[][..]), (7, &[]), (5, &["-", "threads"])] {
            for options in [&[][..], &["--reproducible"]] {
                let lines = printed(&cluster, ranks, options, "programs/wide_in_flight.c", arguments);
                assert_eq!(lines, [format!("all right with {ranks} ranks")]);
            }
        }
        cluster.down();
    }
}

/// At the call where MPI looks at its arguments, else when the program waits.
#[test]
fn a_mistake_in_an_operation_is_an_error_at_its_rank_and_no_rank_hangs() {
    for sites in [&["a", "b"][..], &["a", "b", "a", "c"], &["a", "a"]] {
        let cluster = cluster(sites);
        for ranks in [2, 5, 7] {
            let lines = printed(&cluster, ranks, &[], "programs/wide_errors.c", &[]);
            assert_eq!(lines, [format!("all right with {ranks} ranks")]);
        }
        cluster.down();
    }
}

/// How soon the nodes of a site are wanted back.
const NOTICE: Duration = Duration::from_secs(8);

/// Both nodes of a site are wanted back at once: its ranks go to the other site in time, and none is lost.
#[test]
fn a_site_is_empty_within_its_notice() {
    let cluster = cluster(&["here", "there", "here", "there"]);
    let plate = Plate {
        rows: 400,
        cols: 300,
        iterations: 3000,
        sleep_us: 2000,
    };
    let mut run = cluster.pcmctl(&["run", "-n", "4", "--"]);
    run.arg(built("heat2d-c")).args(plate.arguments());
    let run = Background::start(&mut run);
    cluster.wait_until_ranks_iterate();
    let notice = NOTICE.as_secs().to_string();
    let began = Instant::now();
    let orders =
        ["n1", "n3"].map(|node| Background::start(&mut cluster.pcmctl(&["drain", node, "--deadline", &notice])));
    for order in orders {
        let outcome = order.end(LIMIT);
        assert!(outcome.status.success(), "{outcome:?}");
    }
    let empty = began.elapsed();
    println!("the site is empty after {empty:?}");
    assert!(empty < NOTICE, "{empty:?}");
    let told = cluster.json(&["ps", "1"]);
    let nodes = told["ranks"].as_array().into_iter().flatten().map(|rank| &rank["node"]);
    let nodes: Vec<&Value> = nodes.collect();
    assert_eq!(nodes.len(), 4);
    assert!(nodes.iter().all(|node| *node == "n0" || *node == "n2"), "{told}");
    let outcome = run.end(LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(Closing::read(&outcome.stdout).checksum, plate.checksum());
    assert!(cluster.events(Some("1"), "recovered").is_empty());
    cluster.down();
}

/// A job knows the latency that its daemon has measured; the wire has 10 ms each way.
fn knows_its_slowest_link(cluster: &Cluster) {
    wait::until("a job to know the wire", LIMIT, || {
        let outcome = cluster.run(&["run", "-n", "1", "--quiet", "--", "printenv", "PCM_LINK"]);
        assert!(outcome.status.success(), "{outcome:?}");
        let latency_ms: f64 = outcome.stdout.split(' ').next()?.parse().ok()?;
        // Not what stands for an unknown one.
        (latency_ms != 10.0 && (9.0..30.0).contains(&latency_ms)).then_some(())
    });
}

/// A sum over a wire of 10 ms costs next to nothing beside a computation that takes longer.
#[test]
fn a_sum_crosses_while_the_program_computes() {
    let place = Cluster::place();
    let sites = FarSites {
        count: 2,
        wire: Wire {
            delay: Duration::from_millis(10),
            bytes_per_s: 10_000_000,
        },
        program: &built("pcm-wire"),
        are_named: true,
    };
    let Some(network) = Network::over_wires(4, sites, place.files()) else {
        skip::cannot_run("a wire between networks of its own needs root, iproute2 and TAP devices");
        return;
    };
    let cluster = place.booted_in(network, &[], &[]);
    knows_its_slowest_link(&cluster);
    let lines = printed(&cluster, 4, &["--quiet"], "programs/wide_in_flight.c", &["0.2"]);
    let seconds = |word: &str| {
        let mut words = lines
            .iter()
            .flat_map(|line| line.split(' '))
            .skip_while(|said| *said != word);
        let value = words.nth(1).and_then(|value| value.parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("no {word} in {lines:?}"))
    };
    let (alone, left) = (seconds("alone"), seconds("left"));
    assert!(alone >= 0.01 && left < alone / 3.0, "{lines:?}");
    cluster.down();
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
