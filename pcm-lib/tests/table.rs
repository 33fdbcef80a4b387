//! The table of interposed functions against the `mpi.h` of the MPI in use.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../build/prototype.rs"]
mod prototype;
#[path = "../build/table.rs"]
mod table;

use std::collections::BTreeSet;

fn table() -> table::Table {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/interpose/table.txt");
    table::parse(&std::fs::read_to_string(path).unwrap()).unwrap()
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
    let declared = prototype::declared_by_mpi().unwrap();
    assert!(
        declared.len() > 300,
        "mpi.h was not understood: {} functions",
        declared.len()
    );
    let missing: Vec<&str> = declared
        .values()
        .filter(|function| function.arguments.iter().any(|argument| argument.base == "MPI_Comm"))
        .map(|function| function.name.as_str())
        .filter(|name| !known.contains(name))
        .collect();
    assert!(missing.is_empty(), "not in interpose/table.txt: {missing:?}");
}

#[test]
fn the_table_has_the_types_of_the_header() {
    let declared = prototype::declared_by_mpi().unwrap();
    let table = table();
    let wrong: Vec<&str> = table
        .entries
        .iter()
        .map(|entry| &entry.prototype)
        .filter(|wanted| {
            declared
                .get(&wanted.name)
                .is_some_and(|function| !function.is_compatible_with(wanted))
        })
        .map(|wanted| wanted.name.as_str())
        .collect();
    assert!(wrong.is_empty(), "other types in mpi.h: {wrong:?}");
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
fn every_function_marked_by_hand_is_written_by_hand() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/interpose");
    let source = ["lifecycle.rs", "place.rs"].map(|file| std::fs::read_to_string(format!("{folder}/{file}")).unwrap());
    let source = source.concat();
    let by_hand: Vec<String> = table()
        .entries
        .into_iter()
        .filter(|entry| entry.by_hand)
        .map(|entry| entry.prototype.name)
        .collect();
    assert!(!by_hand.is_empty());
    assert!(
        by_hand.iter().all(|name| source.contains(&format!("fn {name}("))),
        "{by_hand:?}"
    );
}

#[test]
fn every_function_that_a_wrapper_calls_in_place_of_mpi_is_in_its_module() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/interpose");
    let mut seen = 0;
    for entry in table().entries {
        let Some(module) = entry.through else { continue };
        let source = std::fs::read_to_string(format!("{folder}/{module}.rs")).unwrap();
        assert!(
            source.contains(&format!("unsafe fn {}(", entry.prototype.name)),
            "{module}"
        );
        seen += 1;
    }
    assert!(seen > 0);
}
