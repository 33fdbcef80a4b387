//! Jobs over nodes with networks and memory of their own that all bear one host name: what MPI makes of such nodes when
//! worlds meet must be the same on both sides, and the program must not notice.

use tests::{cluster::Cluster, malleable::Malleable, network::Network, skip};

fn cluster() -> Option<Cluster> {
    let cluster = Cluster::place();
    let Some(network) = Network::of(4, cluster.files()) else {
        skip::cannot_run("making networks of its own needs root and iproute2");
        return None;
    };
    Some(cluster.booted_in(network, &[], &[]))
}

fn grows_onto_several(program: &str) {
    let Some(cluster) = cluster() else { return };
    let job = Malleable::start(&cluster, program, 4, 4000, 500);
    job.resize(2);
    let done = job.resize(4);
    assert_eq!(done["plan"], "expand", "{done}");
    job.goes_on();
    job.resize(1);
    // Newcomers of one world on three nodes, two of them on one.
    job.resize(5);
    job.goes_on();
    job.resize(3);
    job.migrate(0, "n3");
    job.resize(4);
    assert_eq!(job.ends_right().ranks, 4);
    cluster.down();
}

#[test]
fn a_c_program_that_shrank_grows_onto_several_hosts_of_one_name() {
    grows_onto_several("heat2d-c");
}

#[test]
fn a_rust_program_that_shrank_grows_onto_several_hosts_of_one_name() {
    grows_onto_several("heat2d");
}

#[test]
fn a_program_finds_the_hosts_own_name() {
    let Some(cluster) = cluster() else { return };
    let outcome = cluster.trial(4, &["where"]);
    assert!(outcome.status.success(), "{outcome:?}");
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert_eq!(outcome.stdout, format!("{name} {name}\n").repeat(4));
    cluster.down();
}
