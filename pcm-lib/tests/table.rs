//! The table of interposed functions against the `mpi.h` of the MPI in use.
#![allow(clippy::unwrap_used, reason = "a test")]

mod of_header;
#[path = "../build/prototype.rs"]
mod prototype;
#[path = "../build/table.rs"]
mod table;

use prototype::Prototype;
use std::{
    collections::{BTreeMap, BTreeSet},
    env,
};

fn table() -> table::Table {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/interpose/table.txt");
    table::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// For programs of the ABI of this MPI, and for those of the standard ABI; one without that takes both for the same.
const ABIS: [&[&str]; 2] = [&[], &["-DMPI_ABI"]];

fn declared_by_mpi(options: &[&str]) -> Option<BTreeMap<String, Prototype>> {
    let compiler = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    let declared = of_header::declared(&compiler, options, "#include <mpi.h>\n");
    if declared.is_none() {
        assert!(env::var_os("MPICC").is_none(), "MPICC does not run");
        eprintln!("not compared: there is no mpicc");
    }
    declared
}

#[test]
fn every_function_that_takes_a_communicator_is_in_the_table_or_excepted() {
    let table = table();
    let known: BTreeSet<&str> = table
        .entries
        .iter()
        .map(|entry| entry.prototype.name.as_str())
        .chain(table.exceptions.iter().map(String::as_str))
        .collect();
    for declared in ABIS.into_iter().filter_map(declared_by_mpi) {
        let missing = of_header::not_in(&declared, &known);
        assert!(missing.is_empty(), "not in interpose/table.txt: {missing:?}");
    }
}

#[test]
fn the_table_has_the_types_of_the_header() {
    let table = table();
    for declared in ABIS.into_iter().filter_map(declared_by_mpi) {
        let wrong = of_header::of_other_types(&declared, &table);
        assert!(wrong.is_empty(), "other types in mpi.h: {wrong:?}");
    }
    assert!(table.exceptions.iter().all(|name| name.starts_with("MPI")));
}

#[test]
fn the_page_has_room_for_every_function_and_class() {
    let table = table();
    let counted = table.entries.iter().filter(|entry| entry.class != table::LOCAL);
    assert!(counted.clone().count() < pcm_proto::page::FUNCTIONS_MAX);
    assert!(table.classes().len() <= pcm_proto::page::CLASSES_MAX);
    let longest = counted.map(|entry| entry.prototype.name.len() - "MPI_".len()).max();
    assert!(longest <= Some(pcm_proto::page::FUNCTION_NAME_MAX));
    assert!(table.classes().iter().all(|class| class.len() <= 16));
}

#[test]
fn a_line_that_is_no_prototype_is_an_error_with_its_number() {
    for bad in [
        "int MPI_Send(",
        "[a]\nint MPI_Send(void);\nint MPI_Send(void);",
        "[a]\nint MPI_X(void); by foot",
    ] {
        let line = bad.lines().count();
        assert!(table::parse(bad).unwrap_err().contains(&format!("table.txt:{line}:")));
    }
}

#[test]
fn every_function_that_is_called_in_place_of_mpi_is_in_its_module() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/interpose");
    let mut seen = BTreeSet::new();
    for entry in table().entries {
        let Some(module) = entry.module else { continue };
        let defines = format!("unsafe fn {}(", entry.prototype.name);
        let files = std::fs::read_dir(format!("{folder}/{module}")).into_iter().flatten();
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        if files.is_empty() {
            files.push(format!("{folder}/{module}.rs").into());
        }
        let defining = files
            .iter()
            .filter(|file| std::fs::read_to_string(file).unwrap().contains(&defines));
        assert_eq!(defining.count(), 1, "{} in {module}", entry.prototype.name);
        seen.insert(entry.by_hand);
    }
    assert_eq!(seen.len(), 2);
}
