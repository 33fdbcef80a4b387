//! Expands `interpose/table.txt` for all libraries that are made of this source, and gives those of packages of their
//! own their names; `pcm-rust/build.rs` does it for the one of this package. An MPI is not needed; where the
//! environment names one, libraries for its ABIs find it for programs that have none, and the tests are linked with it.

#[path = "build/expand.rs"]
mod expand;
#[path = "build/prototype.rs"]
mod prototype;
#[path = "build/table.rs"]
mod table;

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// The packages that make a library for another ABI, and what it is called. The number changes when a program linked
/// with an older library would not run with this one.
const OTHERS: [(&str, &str); 2] = [
    ("pcm-lib-standard", "libpcm_abi.so.0"),
    (OPEN_MPI, "libpcm_openmpi.so.0"),
];
const OPEN_MPI: &str = "pcm-lib-openmpi";

/// In the folder of a package whose MPI does not have all functions of the table.
const LACKS: &str = "lacks.txt";

/// As in `pcm-rust/build.rs`.
const IN_A_PREFIX: &str = "$ORIGIN:$ORIGIN/../../lib";

fn main() -> ExitCode {
    let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
    let other = OTHERS.into_iter().find(|(name, _)| *name == package);
    // A package of pcm-lib has no folder beside it.
    let own = Path::new(if other.is_some() { "../pcm-lib" } else { "." });
    let table = own.join("interpose/table.txt");
    println!("cargo::rerun-if-changed={}", table.display());
    println!("cargo::rerun-if-changed={}", own.join("build").display());
    println!("cargo::rerun-if-env-changed=PCM_MPI_LIB");
    let folder = env::var_os("PCM_MPI_LIB").and_then(|value| value.into_string().ok());
    if let Some(folder) = folder.filter(|_| package != OPEN_MPI) {
        // The old kind of run path comes before LD_LIBRARY_PATH: another MPI there has the same soname.
        for argument in ["-Wl,--disable-new-dtags", "-Xlinker", "-rpath", "-Xlinker", &folder] {
            println!("cargo::rustc-link-arg={argument}");
        }
        if other.is_none() {
            tests_link(&folder);
        }
    }
    if let Some((_, soname)) = other {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{soname}");
        for argument in ["-Xlinker", "-rpath", "-Xlinker", IN_A_PREFIX] {
            println!("cargo::rustc-cdylib-link-arg={argument}");
        }
    }
    println!("cargo::rerun-if-changed={LACKS}");
    match lacks().and_then(|lacks| wrappers_write(&table, &lacks)) {
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

/// Functions that the package's MPI does not have.
fn lacks() -> Result<BTreeSet<String>, String> {
    if !Path::new(LACKS).exists() {
        return Ok(BTreeSet::new());
    }
    let text = fs::read_to_string(LACKS).map_err(|e| format!("{LACKS}: {e}"))?;
    let names = text.lines().filter(|line| !line.starts_with('#'));
    Ok(names.map(str::to_owned).collect())
}

fn wrappers_write(table: &Path, lacks: &BTreeSet<String>) -> Result<(), String> {
    let text = fs::read_to_string(table).map_err(|e| format!("{}: {e}", table.display()))?;
    let table = table::parse(&text)?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?).join("wrappers.rs");
    fs::write(&out, expand::expand(&table, lacks)).map_err(|e| format!("{}: {e}", out.display()))
}
