//! Sets the run path to the chosen MPI, which mpi-sys leaves out. Must never choose one itself.

use std::env;

fn main() {
    println!("cargo:rerun-if-env-changed=PCM_MPI_LIB");
    println!("cargo:rerun-if-env-changed=MPICC");
    // The old kind of run path comes before LD_LIBRARY_PATH: another MPI there has the same soname.
    if let Some(directory) = env::var_os("PCM_MPI_LIB").and_then(|value| value.into_string().ok()) {
        for argument in ["-Wl,--disable-new-dtags", "-Xlinker", "-rpath", "-Xlinker", &directory] {
            println!("cargo:rustc-link-arg={argument}");
        }
    }
}
