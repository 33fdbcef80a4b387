//! The names of libpcm_abi.so: those of libpcm.so, whose test holds them against a list.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{collections::BTreeSet, env, fs, path::Path, process::Command};

fn told(program: &str, arguments: &[&str]) -> String {
    let library = env::current_exe().unwrap().with_file_name("libpcm_abi.so");
    let output = Command::new(program).args(arguments).arg(library).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_library_defines_what_the_other_one_defines() {
    let names = told("nm", &["--dynamic", "--defined-only", "--format=posix"]);
    let names: BTreeSet<&str> = names.lines().filter_map(|line| line.split(' ').next()).collect();
    let of_mpi = names
        .iter()
        .filter(|name| name.starts_with("MPI") || name.starts_with("PMPI"));
    assert!(of_mpi.count() > 800, "{names:?}");
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pcm-lib/abi/symbols.txt");
    let list = fs::read_to_string(list).unwrap();
    let own = names
        .into_iter()
        .filter(|name| !name.starts_with("MPI") && !name.starts_with("PMPI"));
    assert_eq!(own.collect::<BTreeSet<_>>(), list.lines().collect());
}

#[test]
fn the_library_has_a_name_of_its_own_and_needs_no_mpi() {
    let dynamic = told("readelf", &["-dW"]);
    assert!(dynamic.contains("Library soname: [libpcm_abi.so.0]"), "{dynamic}");
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let of_mpi: Vec<&str> = needed.filter(|line| line.contains("mpi")).collect();
    assert!(of_mpi.is_empty(), "{of_mpi:?}: the program decides which MPI it is");
}
