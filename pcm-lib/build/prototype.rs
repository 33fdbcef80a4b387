//! Reads C prototypes of MPI functions.

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
