//! Expands `interpose/table.txt`, and gives the shared library the name that its ABI has; for both libraries that are
//! made of this source. An MPI is not needed; where the environment names one, the library finds it for programs that
//! have none, and the tests are linked with it.

#[path = "build/expand.rs"]
mod expand;
#[path = "build/prototype.rs"]
mod prototype;
#[path = "build/table.rs"]
mod table;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The number changes when a program linked with an older library would not run with this one.
const SONAME: &str = "libpcm.so.0";

/// The library for programs of the standard ABI, and the package that makes it.
const SONAME_STANDARD: &str = "libpcm_abi.so.0";
const STANDARD: &str = "pcm-lib-standard";

/// From the folder of either package.
const TABLE: &str = "../pcm-lib/interpose/table.txt";

/// Where an installed library finds the MPI that shares its prefix, from `lib` and from `libexec/pcm`. Of the run path,
/// `cargo xtask dist` leaves only this.
const IN_A_PREFIX: &str = "$ORIGIN:$ORIGIN/../../lib";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed={TABLE}");
    println!("cargo::rerun-if-changed=../pcm-lib/build");
    println!("cargo::rerun-if-env-changed=PCM_MPI_LIB");
    let is_standard = env::var_os("CARGO_PKG_NAME").is_some_and(|name| name == STANDARD);
    if let Some(folder) = env::var_os("PCM_MPI_LIB").and_then(|value| value.into_string().ok()) {
        // The old kind of run path comes before LD_LIBRARY_PATH: another MPI there has the same soname.
        for argument in ["-Wl,--disable-new-dtags", "-Xlinker", "-rpath", "-Xlinker", &folder] {
            println!("cargo::rustc-link-arg={argument}");
        }
        if !is_standard {
            tests_link(&folder);
        }
    }
    let soname = if is_standard { SONAME_STANDARD } else { SONAME };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    for argument in ["-Xlinker", "-rpath", "-Xlinker", IN_A_PREFIX] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    match wrappers_write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("cargo::error={reason}");
            ExitCode::FAILURE
        }
    }
}

/// The test programs refer to nothing in MPI, and are yet MPI programs.
fn tests_link(folder: &str) {
    // Debian has another name for it.
    let is_debians = !Path::new(folder).join("libmpi.so").exists();
    let library = if is_debians { "-lmpich" } else { "-lmpi" };
    for argument in ["-Wl,--no-as-needed", "-L", folder, library] {
        println!("cargo::rustc-link-arg-tests={argument}");
    }
}

fn wrappers_write() -> Result<(), String> {
    let text = fs::read_to_string(TABLE).map_err(|e| format!("{TABLE}: {e}"))?;
    let table = table::parse(&text)?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?).join("wrappers.rs");
    fs::write(&out, expand::expand(&table)).map_err(|e| format!("{}: {e}", out.display()))
}
