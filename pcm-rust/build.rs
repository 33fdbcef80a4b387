//! Gives `libpcm.so` the name that its ABI has. Where the environment names an MPI, the library finds it for programs
//! that have none, and the example and the tests are linked with it.

use std::{env, path::Path};

/// The number changes when a program linked with an older library would not run with this one.
const SONAME: &str = "libpcm.so.0";

/// Where an installed library finds the MPI that shares its prefix, from `lib` and from `libexec/pcm`. Of the run path,
/// `cargo xtask dist` leaves only this.
const IN_A_PREFIX: &str = "$ORIGIN:$ORIGIN/../../lib";

fn main() {
    println!("cargo::rerun-if-env-changed=PCM_MPI_LIB");
    if let Some(folder) = env::var_os("PCM_MPI_LIB").and_then(|value| value.into_string().ok()) {
        // The old kind of run path comes before LD_LIBRARY_PATH: another MPI there has the same soname.
        for argument in ["-Wl,--disable-new-dtags", "-Xlinker", "-rpath", "-Xlinker", &folder] {
            println!("cargo::rustc-link-arg={argument}");
        }
        // Debian has another name for it.
        let is_debians = !Path::new(&folder).join("libmpi.so").exists();
        let library = if is_debians { "-lmpich" } else { "-lmpi" };
        // All functions they call are in libpcm, too.
        for argument in ["-Wl,--no-as-needed", "-L", &folder, library] {
            println!("cargo::rustc-link-arg-tests={argument}");
            println!("cargo::rustc-link-arg-examples={argument}");
        }
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    for argument in ["-Xlinker", "-rpath", "-Xlinker", IN_A_PREFIX] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
}
