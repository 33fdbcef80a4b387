//! Jobs that begin as several MPI worlds: MPI_COMM_WORLD is the whole job all the same, in the job's order.

use std::{path::Path, process::Command, time::Duration};
use tests::{
    binaries::built,
    c_program::compiled,
    cluster::{Cluster, LIMIT},
    heat2d::{Closing, reference_checksum},
    limited::{self, Outcome},
};

const SHAPES: [&str; 3] = ["job", "node", "rank"];

/// A job that cannot run is refused at once, whatever the machine does.
const REFUSED_MAX: Duration = Duration::from_secs(10);

fn run(cluster: &Cluster, shape: &str, ranks: u32, program: &Path, arguments: &[&str]) -> Outcome {
    let mut command: Command = cluster.pcmctl(&["run", "-n", &ranks.to_string(), "--world", shape, "--"]);
    command.arg(program).args(arguments);
    limited::run(&mut command, LIMIT)
}

#[test]
fn heat2d_gives_the_same_bits_as_one_world_one_on_each_node_or_one_a_rank() {
    let cluster = Cluster::up(2);
    let expected = reference_checksum(61, 83, 200);
    for (program, ranks) in [("heat2d-c", 4), ("heat2d", 2), ("heat2d-c-plain", 3)] {
        for shape in SHAPES {
            let arguments = ["--rows", "61", "--cols", "83", "--iterations", "200"];
            let outcome = run(&cluster, shape, ranks, &built(program), &arguments);
            assert!(outcome.status.success(), "{program} {ranks} {shape}: {outcome:?}");
            let closing = Closing::read(&outcome.stdout);
            assert_eq!(
                (closing.ranks, closing.checksum.as_str()),
                (ranks, expected.as_str()),
                "{program} {shape}"
            );
        }
    }
    cluster.down();
}

#[test]
fn every_family_of_mpi_functions_gives_the_same_in_every_shape() {
    let cluster = Cluster::up(2);
    let program = compiled("../pcm-lib/tests/programs/results.c", cluster.files());
    let file = cluster.files().join("results.bin");
    let file = file.to_str().expect("a UTF-8 path");
    let said = SHAPES.map(|shape| {
        let outcome = run(&cluster, shape, 4, &program, &[file]);
        assert!(outcome.status.success(), "{shape}: {outcome:?}");
        outcome.stdout
    });
    assert!(
        said[0].contains("allreduce ") && said[0].contains("file "),
        "{}",
        said[0]
    );
    assert_eq!(said[1], said[0], "one world on each node");
    assert_eq!(said[2], said[0], "one world a rank");
    cluster.down();
}

#[test]
fn ps_shows_the_ranks_of_the_job_in_order_whatever_worlds_it_began_as() {
    let cluster = Cluster::up(2);
    let mut command = cluster.trial_command(4, &["--world", "rank"], &["ring", "60"]);
    let mut job = tests::background::Background::start(&mut command);
    job.wait_for("round 50", LIMIT);
    let seen = cluster.json(&["ps", "1"]);
    let ranks: Vec<u64> = seen["ranks"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|rank| rank["rank"].as_u64())
        .collect();
    assert_eq!(ranks, [0, 1, 2, 3], "{seen}");
    assert!(cluster.run(&["kill", "1"]).status.success());
    job.end(LIMIT);
    cluster.down();
}

/// A world begun by a session would never join the others; the program may go on without MPI.
#[test]
fn a_session_before_mpi_init_is_refused_where_each_rank_is_a_world() {
    let cluster = Cluster::up(2);
    compiled("programs/session_first.c", cluster.files());
    let run = |shape| cluster.run(&["run", "-n", "2", "--world", shape, "--", "./session_first"]);
    let begun = run("job");
    assert!(begun.status.success(), "{begun:?}");
    assert_eq!(begun.stdout.matches("session: begun").count(), 2, "{begun:?}");
    let refused = run("rank");
    assert!(refused.status.success(), "{refused:?}");
    assert_eq!(
        refused.stdout.matches("session: refused as unsupported").count(),
        2,
        "{refused:?}"
    );
    assert_eq!(
        refused
            .stderr
            .matches("call it before MPI_Session_init, or run with '--world job'")
            .count(),
        2,
        "{refused:?}"
    );
    cluster.down();
}

#[test]
fn a_rank_that_dies_while_the_worlds_join_ends_the_job() {
    let cluster = Cluster::up(2);
    // Rank 2 leaves before MPI_Init, the others wait for its world.
    let script = r#"[ "$PCM_PROCESS" = 2 ] && exit 7; exec "$0" ring 60"#;
    let mut command = cluster.pcmctl(&["run", "-n", "4", "--world", "rank", "--", "sh", "-c", script]);
    let outcome = limited::run(command.arg(built("pcm-trial")), LIMIT);
    assert_eq!(outcome.status.code(), Some(7), "{outcome:?}");
    cluster.wait_until_no_rank_of("pcm-trial", LIMIT);
    cluster.down();
}

#[test]
fn more_worlds_than_mpi_can_join_are_refused() {
    let cluster = Cluster::up(1);
    let mut command = cluster.trial_command(65, &["--world", "rank"], &["init"]);
    let outcome = limited::run(&mut command, REFUSED_MAX);
    assert_eq!(outcome.status.code(), Some(4), "{outcome:?}");
    assert!(outcome.stderr.contains("--world job"), "{outcome:?}");
    cluster.down();
}
