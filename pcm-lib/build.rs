//! Expands `interpose/table.txt` for both libraries that are made of this source, and gives that for the standard ABI
//! its name; `pcm-rust/build.rs` does it for the other one. An MPI is not needed; where the environment names one, the
//! library finds it for programs that have none, and the tests are linked with it.

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

/// The library for programs of the standard ABI, and the package that makes it. The number changes when a program
/// linked with an older library would not run with this one.
const SONAME_STANDARD: &str = "libpcm_abi.so.0";
const STANDARD: &str = "pcm-lib-standard";

/// As in `pcm-rust/build.rs`.
const IN_A_PREFIX: &str = "$ORIGIN:$ORIGIN/../../lib";

fn main() -> ExitCode {
    let is_standard = env::var_os("CARGO_PKG_NAME").is_some_and(|name| name == STANDARD);
    // A package of pcm-lib has no folder beside it.
    let own = Path::new(if is_standard { "../pcm-lib" } else { "." });
    let table = own.join("interpose/table.txt");
    println!("cargo::rerun-if-changed={}", table.display());
    println!("cargo::rerun-if-changed={}", own.join("build").display());
    println!("cargo::rerun-if-env-changed=PCM_MPI_LIB");
    if let Some(folder) = env::var_os("PCM_MPI_LIB").and_then(|value| value.into_string().ok()) {
        // The old kind of run path comes before LD_LIBRARY_PATH: another MPI there has the same soname.
        for argument in ["-Wl,--disable-new-dtags", "-Xlinker", "-rpath", "-Xlinker", &folder] {
            println!("cargo::rustc-link-arg={argument}");
        }
        if !is_standard {
            tests_link(&folder);
        }
    }
    if is_standard {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{SONAME_STANDARD}");
        for argument in ["-Xlinker", "-rpath", "-Xlinker", IN_A_PREFIX] {
            println!("cargo::rustc-cdylib-link-arg={argument}");
        }
    }
    match wrappers_write(&table) {
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

fn wrappers_write(table: &Path) -> Result<(), String> {
    let text = fs::read_to_string(table).map_err(|e| format!("{}: {e}", table.display()))?;
    let table = table::parse(&text)?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?).join("wrappers.rs");
    fs::write(&out, expand::expand(&table)).map_err(|e| format!("{}: {e}", out.display()))
}
