//! The example runs under plain mpiexec and computes what the same steps in one process do. The test starts itself as
//! the ranks.
#![allow(clippy::unwrap_used, unsafe_code, reason = "a test that calls MPI")]

#[allow(dead_code, reason = "the test has a main of its own")]
#[path = "../examples/rod.rs"]
mod rod;

use std::{env, path::PathBuf, process::Command, ptr::null_mut};

const CELLS: usize = 1000;
const STEPS: u64 = 300;
const RANKS: usize = 3;

fn mpiexec() -> Command {
    let compiler = PathBuf::from(env::var_os("MPICC").unwrap_or_else(|| "mpicc".into()));
    let beside = || compiler.with_file_name("mpiexec").into_os_string();
    let mut command = Command::new(env::var_os("PCM_MPIEXEC").unwrap_or_else(beside));
    // Cargo's own entries lead to the libpcm.so of an older build.
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// The mean of the rod, whose parts take turns.
fn expected() -> f64 {
    let mut parts: Vec<Vec<f64>> = (0..RANKS)
        .map(|rank| {
            let own = CELLS / RANKS + usize::from(rank < CELLS % RANKS);
            let mut part = vec![rank as f64; own + 2];
            (part[0], part[own + 1]) = (0.0, 0.0);
            part
        })
        .collect();
    for _ in 0..STEPS {
        for rank in 1..RANKS {
            let last = parts[rank - 1].len() - 2;
            (parts[rank][0], parts[rank - 1][last + 1]) = (parts[rank - 1][last], parts[rank][1]);
        }
        for part in &mut parts {
            let means: Vec<f64> = part.windows(3).map(|near| 0.5 * (near[0] + near[2])).collect();
            part[1..=means.len()].copy_from_slice(&means);
        }
    }
    parts.iter().flat_map(|part| &part[1..part.len() - 1]).sum::<f64>() / CELLS as f64
}

#[test]
fn the_example_computes_the_mean() {
    let Some(rank) = env::var_os("PMI_RANK") else {
        let program = env::current_exe().unwrap();
        let mut command = mpiexec();
        command.args(["-n", &RANKS.to_string()]).arg(program);
        let output = command
            .args(["--exact", "the_example_computes_the_mean", "--nocapture"])
            .output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.matches("1 passed").count(), RANKS, "{output:?}");
        return;
    };
    // SAFETY: the first call of MPI in this process.
    assert_eq!(unsafe { mpi_abi::MPI_Init(null_mut(), null_mut()) }, 0);
    let mean = rod::run(CELLS as u64, STEPS).unwrap();
    assert!(
        rank != "0" || (mean - expected()).abs() < 1e-12,
        "{mean} {}",
        expected()
    );
    // SAFETY: the last call of MPI in this process.
    assert_eq!(unsafe { mpi_abi::MPI_Finalize() }, 0);
}
