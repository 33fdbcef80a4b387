//! Reads C prototypes of MPI functions: one from a line of the table, all from the header of the MPI in use.

use std::{collections::BTreeMap, env, io::Write, process::Command, process::Stdio};

/// One argument of a prototype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    /// Its type's name, without `const`, `*` and `[]`.
    pub(crate) base: String,
    /// Levels of indirection; an array counts as one.
    pub(crate) pointers: usize,
    pub(crate) name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prototype {
    pub(crate) name: String,
    /// The type it returns.
    pub(crate) returns: String,
    /// In order; empty for `void`.
    pub(crate) arguments: Vec<Argument>,
}

impl Prototype {
    /// Reads `int MPI_X(int a, MPI_Comm b)`; None for anything else that C may hold.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (front, rest) = text.split_once('(')?;
        let (returns, name) = front.trim().rsplit_once([' ', '*'])?;
        let known = name.starts_with("MPI_") || name.starts_with("MPIX_");
        if !known || returns.trim().is_empty() || returns.contains("typedef") {
            return None;
        }
        let mut depth = 1_usize;
        let end = rest.find(|c| {
            depth = match c {
                '(' => depth + 1,
                ')' => depth - 1,
                _ => depth,
            };
            depth == 0
        })?;
        let list = rest[..end].trim();
        // A function pointer as an argument by its full type occurs in no function that takes a communicator.
        if list.contains(['(', '.']) {
            return None;
        }
        let arguments = if list == "void" {
            Vec::new()
        } else {
            list.split(',').map(Argument::parse).collect::<Option<_>>()?
        };
        Some(Self {
            name: name.to_owned(),
            returns: returns.trim().to_owned(),
            arguments,
        })
    }

    /// The same types in the same order, whatever the names.
    pub(crate) fn is_compatible_with(&self, other: &Self) -> bool {
        let same = |(a, b): (&Argument, &Argument)| a.base == b.base && a.pointers == b.pointers;
        self.returns == other.returns
            && self.arguments.len() == other.arguments.len()
            && self.arguments.iter().zip(&other.arguments).all(same)
    }
}

impl Argument {
    fn parse(text: &str) -> Option<Self> {
        let pointers = text.matches(['*', '[']).count();
        let flat = text.split('[').next()?.replace('*', " ");
        let mut words = flat.split_whitespace().filter(|word| *word != "const");
        let (base, name) = (words.next()?.to_owned(), words.next().unwrap_or("unnamed").to_owned());
        Some(Self { base, pointers, name })
    }
}

/// Every function that `mpi.h` declares, as the preprocessor of `$MPICC` sees it.
pub(crate) fn declared_by_mpi() -> Result<BTreeMap<String, Prototype>, String> {
    let compiler = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    let advice = "set MPICC to the compiler wrapper of your MPI (cargo xtask setup does)";
    let mut child = Command::new(&compiler)
        .args(["-E", "-P", "-x", "c", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot run {compiler}: {e}; {advice}"))?;
    let mut input = child.stdin.take().ok_or("the compiler has no input")?;
    input
        .write_all(b"#include <mpi.h>\n")
        .map_err(|e| format!("{compiler}: {e}"))?;
    drop(input);
    let output = child.wait_with_output().map_err(|e| format!("{compiler}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{compiler} cannot preprocess mpi.h; {advice}"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let functions = text.split(';').filter_map(|statement| {
        let words: Vec<&str> = statement.split_whitespace().collect();
        Prototype::parse(&words.join(" "))
    });
    Ok(functions.map(|prototype| (prototype.name.clone(), prototype)).collect())
}
