//! Jobs of a stock Open MPI 5 change live and by relaunch, leave and recover, and the result is that of an undisturbed
//! run bit for bit.

use std::path::Path;
use tests::{
    cell::{self, PACE_OF_PYTHON},
    cluster::Cluster,
    crashing,
    example::{for_python, source},
    malleable::Malleable,
    open_mpi::{compiled, prefix},
    random_changes::{self, NODES},
    standbys, whole_jobs,
};

const CHANGES: u32 = 50;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// For `PCM_MPI`, in place of the one that the tests were started with.
fn its_prefix() -> String {
    text(&prefix()).to_owned()
}

fn heat2d(cluster: &Cluster) -> String {
    text(&compiled("examples/heat2d/heat2d.c", cluster.files(), true)).to_owned()
}

#[test]
fn fifty_random_live_changes_keep_the_result_and_who_leaves_is_gone() {
    let cluster = Cluster::up(NODES);
    let program = heat2d(&cluster);
    let variables = [("PCM_MPI", &*its_prefix())];
    let job = Malleable::start_with(&cluster, &program, 2, random_changes::PACE, &variables);
    random_changes::survives(&cluster, job, CHANGES);
    cluster.down();
}

#[test]
fn a_program_bound_by_messages_is_as_fast_with_ranks_of_two_worlds() {
    let cluster = Cluster::up(2);
    let program = heat2d(&cluster);
    whole_jobs::is_as_fast_with_ranks_of_two_worlds(&cluster, &program, &[("PCM_MPI", &its_prefix())]);
    cluster.down();
}

#[test]
fn mpi_is_finalized_for_a_program_whose_ranks_have_changed() {
    let cluster = Cluster::up(2);
    let program = compiled("tests/programs/changing.c", cluster.files(), true);
    whole_jobs::finalizes_after_a_change(&cluster, &program, &its_prefix());
    cluster.down();
}

#[test]
fn a_rank_that_joins_waited_before() {
    let cluster = Cluster::up(2);
    standbys::joins_and_ends_right(&cluster, &heat2d(&cluster), &[("PCM_MPI", &its_prefix())]);
    cluster.down();
}

#[test]
fn a_job_is_relaunched_and_ends_right() {
    let cluster = Cluster::up(2);
    let program = heat2d(&cluster);
    whole_jobs::is_relaunched_and_ends_right(&cluster, &program, &[("PCM_MPI", &its_prefix())]);
    cluster.down();
}

#[test]
fn a_killed_rank_costs_the_iterations_since_the_last_checkpoint_and_nothing_else() {
    let cluster = Cluster::that_crashes(3);
    let program = heat2d(&cluster);
    crashing::loses_a_rank_and_ends_right(&cluster, &program, &[("PCM_MPI", &its_prefix())]);
    cluster.down();
}

#[test]
fn python_over_mpi4py_changes_and_recovers() {
    let Some(variables) = for_python() else { return };
    let cluster = Cluster::that_crashes(NODES);
    let mpi = its_prefix();
    let mut all = vec![("PCM_MPI", &*mpi)];
    let variables = variables.iter();
    all.extend(variables.map(|(name, value)| (*name, value.to_str().expect("UTF-8"))));
    cell::survives(
        &cluster,
        &source("heat2d/heat2d.py"),
        PACE_OF_PYTHON,
        &prefix().join("lib"),
        &all,
    );
    cluster.down();
}
