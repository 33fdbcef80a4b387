//! Expands `interpose/table.txt` for the MPI that `$MPICC` (or `mpicc`) compiles for, sets the run path to it, and
//! gives the shared library the name that its ABI has.

#[path = "build/expand.rs"]
mod expand;
#[path = "build/prototype.rs"]
mod prototype;
#[path = "build/table.rs"]
mod table;

use std::{env, fs, path::PathBuf, process::ExitCode};

/// The number changes when a program linked with an older library would not run with this one.
const SONAME: &str = "libpcm.so.0";

/// Where an installed library finds the MPI that shares its prefix, from `lib` and from `libexec/pcm`. Of the run path,
/// `cargo xtask dist` leaves only this.
const IN_A_PREFIX: &str = "$ORIGIN:$ORIGIN/../../lib";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=interpose/table.txt");
    println!("cargo::rerun-if-changed=build");
    for variable in ["MPICC", "PCM_MPI_LIB"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    // The old kind of run path comes before LD_LIBRARY_PATH: another MPI there has the same soname.
    if let Some(directory) = env::var_os("PCM_MPI_LIB").and_then(|value| value.into_string().ok()) {
        for argument in ["-Wl,--disable-new-dtags", "-Xlinker", "-rpath", "-Xlinker", &directory] {
            println!("cargo::rustc-link-arg={argument}");
        }
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    for argument in ["-Xlinker", "-rpath", "-Xlinker", IN_A_PREFIX] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    println!("cargo::rerun-if-changed=interpose/constants.c");
    let compiler = env::var_os("MPICC").unwrap_or_else(|| "mpicc".into());
    cc::Build::new()
        .compiler(PathBuf::from(compiler))
        .file("interpose/constants.c")
        .compile("pcm_constants");
    match wrappers_write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("cargo::error={reason}");
            ExitCode::FAILURE
        }
    }
}

fn wrappers_write() -> Result<(), String> {
    let text = fs::read_to_string("interpose/table.txt").map_err(|e| format!("interpose/table.txt: {e}"))?;
    let table = table::parse(&text)?;
    let declared = prototype::declared_by_mpi()?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?).join("wrappers.rs");
    fs::write(&out, expand::expand(&table, &declared)).map_err(|e| format!("{}: {e}", out.display()))
}
