//! Links the MPI that the environment names, so that the program runs under its mpiexec. Without one it has that of the
//! daemon which starts it.

use std::{env, path::Path};

fn main() {
    println!("cargo::rerun-if-env-changed=PCM_MPI_LIB");
    let Some(folder) = env::var_os("PCM_MPI_LIB").and_then(|value| value.into_string().ok()) else {
        return;
    };
    // Debian has another name for it.
    let is_debians = !Path::new(&folder).join("libmpi.so").exists();
    let library = if is_debians { "-lmpich" } else { "-lmpi" };
    // All functions it calls are in libpcm, too. The old kind of run path comes before LD_LIBRARY_PATH: another MPI
    // there has the same soname.
    for argument in ["-Wl,--no-as-needed", "-L", &folder, library] {
        println!("cargo::rustc-link-arg={argument}");
    }
    for argument in ["-Wl,--disable-new-dtags", "-Xlinker", "-rpath", "-Xlinker", &folder] {
        println!("cargo::rustc-link-arg={argument}");
    }
}
