//! The table of interposed functions against the headers of Open MPI, which `cargo xtask setup` installs: what its
//! libpcm defines and what it leaves out.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../pcm-lib/tests/of_header/mod.rs"]
mod of_header;
#[path = "../../pcm-lib/build/prototype.rs"]
mod prototype;
#[allow(dead_code, reason = "the build uses all of it")]
#[path = "../../pcm-lib/build/table.rs"]
mod table;

use std::{collections::BTreeSet, fs, path::Path};

const COMPILER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../.mpi-open/bin/mpicc");

/// With what Open MPI has beyond the standard.
const HEADERS: &str = "#include <mpi.h>\n#include <mpi-ext.h>\n";

/// The library has functions of MPI-1, too, which the header hides.
const WITH_OLD: &str = "-DOMPI_OMIT_MPI1_COMPAT_DECLS=0";

fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn the_table_knows_what_open_mpi_has_and_what_it_lacks() {
    let table = table::parse(&text("../pcm-lib/interpose/table.txt")).unwrap();
    let Some(declared) = of_header::declared(COMPILER, &[WITH_OLD], HEADERS) else {
        assert!(!Path::new(COMPILER).exists(), "{COMPILER} does not run");
        eprintln!("not compared: there is no Open MPI");
        return;
    };
    let in_table: BTreeSet<&str> = table
        .entries
        .iter()
        .map(|entry| entry.prototype.name.as_str())
        .collect();
    let excepted = table.exceptions.iter().map(String::as_str);
    let missing = of_header::not_in(&declared, &in_table.iter().copied().chain(excepted).collect());
    assert!(missing.is_empty(), "not in interpose/table.txt: {missing:?}");
    let wrong = of_header::of_other_types(&declared, &table);
    assert!(wrong.is_empty(), "other types in mpi.h: {wrong:?}");

    let lacks = text("lacks.txt");
    let lacks: BTreeSet<&str> = lacks.lines().filter(|line| !line.starts_with('#')).collect();
    let absent: BTreeSet<&str> = in_table
        .into_iter()
        .filter(|name| !declared.contains_key(*name))
        .collect();
    assert_eq!(lacks, absent, "lacks.txt is not what mpi.h lacks");
    assert!(
        absent.contains("MPI_Send_c") && !absent.contains("MPIX_Comm_shrink"),
        "{absent:?}"
    );
}
