//! The ABI of libpcm.so: its name, and what programs can link with besides MPI. `abi/symbols.txt` has the names. A name
//! may be added: `PCM_SYMBOLS=write cargo test -p pcm-lib --test symbols`. When one goes, or means another thing, the
//! number in `pcm-rust/build.rs` changes.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{env, fs, path::Path, process::Command};

fn told(program: &str, arguments: &[&str]) -> String {
    let library = env::current_exe().unwrap().with_file_name("libpcm.so");
    let output = Command::new(program).args(arguments).arg(library).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn programs_find_the_names_they_were_linked_with() {
    let names = told("nm", &["--dynamic", "--defined-only", "--format=posix"]);
    let names = names.lines().filter_map(|line| line.split(' ').next());
    // Those of MPI are in front of MPI's own, which are there without this library.
    let is_of_mpi = |name: &&str| name.starts_with("MPI") || name.starts_with("PMPI");
    let (of_mpi, mut own): (Vec<&str>, Vec<&str>) = names.partition(is_of_mpi);
    own.sort_unstable();
    assert!(of_mpi.len() > 800 && !own.is_empty());
    let missing: Vec<&&str> = of_mpi
        .iter()
        .filter(|name| name.starts_with('M') && !of_mpi.contains(&format!("P{name}").as_str()))
        .collect();
    assert!(missing.is_empty(), "without a name that begins with P: {missing:?}");
    let text: String = own.iter().map(|name| format!("{name}\n")).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi/symbols.txt");
    if env::var("PCM_SYMBOLS").is_ok_and(|value| value == "write") {
        fs::write(&path, &text).unwrap();
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap_or_default(),
        text,
        "the names are not those of abi/symbols.txt"
    );
}

#[test]
fn the_header_declares_what_the_library_defines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = fs::read_to_string(root.join("include/pcm.h")).unwrap();
    let symbols = fs::read_to_string(root.join("abi/symbols.txt")).unwrap();
    for name in symbols.lines().filter(|name| name.starts_with("pcm_")) {
        assert!(header.contains(&format!("{name}(")), "{name}");
    }
}

#[test]
fn the_library_is_named_by_the_version_of_its_abi_and_needs_no_mpi() {
    let dynamic = told("readelf", &["-dW"]);
    assert!(dynamic.contains("Library soname: [libpcm.so.0]"), "{dynamic}");
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let of_mpi: Vec<&str> = needed.filter(|line| line.contains("mpi")).collect();
    assert!(of_mpi.is_empty(), "{of_mpi:?}: the program decides which MPI it is");
}
