//! The names of libpcm_openmpi.so: its own are those of libpcm.so, whose test holds them against a list; of MPI's
//! those that Open MPI has.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{collections::BTreeSet, env, fs, path::Path, process::Command};

fn told(program: &str, arguments: &[&str]) -> String {
    let library = env::current_exe().unwrap().with_file_name("libpcm_openmpi.so");
    let output = Command::new(program).args(arguments).arg(library).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn names(text: &str) -> BTreeSet<&str> {
    text.lines().filter_map(|line| line.split(' ').next()).collect()
}

fn listed(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn the_library_defines_its_own_names_and_those_of_open_mpi() {
    let defined = told("nm", &["--dynamic", "--defined-only", "--format=posix"]);
    let is_of_mpi = |name: &&str| name.starts_with("MPI") || name.starts_with("PMPI");
    let (of_mpi, own): (BTreeSet<&str>, BTreeSet<&str>) = names(&defined).into_iter().partition(is_of_mpi);
    assert_eq!(own, listed("../pcm-lib/abi/symbols.txt").lines().collect());
    assert!(of_mpi.len() > 500, "{of_mpi:?}");
    for name in ["MPI_Send", "PMPI_Send", "MPIX_Comm_shrink", "MPI_Session_init"] {
        assert!(of_mpi.contains(name), "{name}");
    }
    for name in listed("lacks.txt").lines() {
        assert!(
            !of_mpi.contains(name) && !of_mpi.contains(&*format!("P{name}")),
            "{name}"
        );
    }
}

#[test]
fn the_library_has_a_name_of_its_own_and_loads_into_a_program_without_mpi() {
    let dynamic = told("readelf", &["-dW"]);
    assert!(dynamic.contains("Library soname: [libpcm_openmpi.so.0]"), "{dynamic}");
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let of_mpi: Vec<&str> = needed.filter(|line| line.contains("mpi")).collect();
    assert!(of_mpi.is_empty(), "{of_mpi:?}: the program decides which MPI it is");
    let undefined = told("nm", &["--dynamic", "--undefined-only", "--format=posix"]);
    let of_mpi: Vec<&str> = names(&undefined)
        .into_iter()
        .filter(|name| name.contains("mpi"))
        .collect();
    assert!(of_mpi.is_empty(), "{of_mpi:?}: a shell has none of them");
}
