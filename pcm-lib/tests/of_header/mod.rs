//! The functions that the header of an MPI declares, as the preprocessor of its compiler sees them, beside those of the
//! table.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::{
    prototype::{Argument, Prototype},
    table::Table,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    process::{Command, Stdio},
};

/// Every function that these lines of C declare; nothing where there is no such compiler.
pub(crate) fn declared(compiler: &str, options: &[&str], lines: &str) -> Option<BTreeMap<String, Prototype>> {
    let mut compiler = Command::new(compiler);
    // Open MPI has attributes in front of its prototypes.
    compiler
        .args(options)
        .args(["-D__attribute__(x)=", "-E", "-P", "-x", "c", "-"]);
    let mut child = compiler.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    let mut input = child.stdin.take().unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the compiler cannot read the header");
    let text = String::from_utf8_lossy(&output.stdout);
    let functions = text.split(';').filter_map(|statement| {
        let words: Vec<&str> = statement.split_whitespace().collect();
        Prototype::parse(&words.join(" "))
    });
    let declared: BTreeMap<_, _> = functions.map(|prototype| (prototype.name.clone(), prototype)).collect();
    assert!(
        declared.len() > 300,
        "the header was not understood: {} functions",
        declared.len()
    );
    Some(declared)
}

/// Those that take a communicator and are not known.
pub(crate) fn not_in<'a>(declared: &'a BTreeMap<String, Prototype>, known: &BTreeSet<&str>) -> Vec<&'a str> {
    let with_communicator = declared
        .values()
        .filter(|function| function.arguments.iter().any(|argument| argument.base == "MPI_Comm"));
    let names = with_communicator.map(|function| function.name.as_str());
    names.filter(|name| !known.contains(name)).collect()
}

/// Functions of the table that have other types in the header.
pub(crate) fn of_other_types<'a>(declared: &BTreeMap<String, Prototype>, table: &'a Table) -> Vec<&'a str> {
    let wanted = table.entries.iter().map(|entry| &entry.prototype);
    let differs = |wanted: &&Prototype| {
        let function = declared.get(&wanted.name);
        function.is_some_and(|function| !are_compatible(function, wanted))
    };
    wanted.filter(differs).map(|wanted| wanted.name.as_str()).collect()
}

/// The same types in the same order, whatever the names.
fn are_compatible(one: &Prototype, other: &Prototype) -> bool {
    let same = |(a, b): (&Argument, &Argument)| a.base == b.base && a.pointers == b.pointers;
    one.returns == other.returns
        && one.arguments.len() == other.arguments.len()
        && one.arguments.iter().zip(&other.arguments).all(same)
}
