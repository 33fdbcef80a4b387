//! A language on an MPI, a row of the table in docs/other-mpis.md: heat2d changes live at random, loses a rank, and
//! computes the bits of an undisturbed run. `PCM_CHAOS_ROUNDS` (`cargo xtask test system --rounds N`) asks for another
//! number of changes.

use crate::{asked, cluster::Cluster, crashing, malleable::Malleable, random_changes};
use std::{fs, path::Path};

/// Changes of a normal run: more of them are made with the program in C.
const CHANGES: u32 = 6;

/// Iterations for so many changes, and their sleep in microseconds: longer than the changes, each of which may start
/// processes for half a second, on a busy machine.
pub const PACE: (u64, u32) = (8000, 700);

/// A process that is a Python program starts in a second or two.
pub const PACE_OF_PYTHON: (u64, u32) = (8000, 2000);

/// Changes and recovers, with the MPI of this folder only.
///
/// # Panics
/// When it does not.
pub fn survives(cluster: &Cluster, program: &Path, pace: (u64, u32), mpi: &Path, variables: &[(&str, &str)]) {
    let program = program.to_str().expect("UTF-8");
    let asked = asked::number("PCM_CHAOS_ROUNDS").map(|changes| changes.try_into().expect("a number of changes"));
    let changes: u32 = asked.unwrap_or(CHANGES);
    let (iterations, sleep_us) = pace;
    let pace = (iterations * u64::from(changes.div_ceil(CHANGES)), sleep_us);
    let job = Malleable::start_with(cluster, program, 2, pace, variables);
    let maps = fs::read_to_string(format!("/proc/{}/maps", job.ranks()[0].pid)).expect("the rank lives");
    let (folder, is_mpi) = (format!("{}/", mpi.display()), |line: &&str| {
        line.contains("/libmpi.so") || line.contains("/libmpi_abi.so")
    });
    let loaded: Vec<&str> = maps.lines().filter(is_mpi).collect();
    assert!(
        !loaded.is_empty() && loaded.iter().all(|line| line.contains(&folder)),
        "{loaded:?}"
    );
    random_changes::survives(cluster, job, changes);
    crashing::loses_a_rank_and_ends_right(cluster, program, variables);
}
