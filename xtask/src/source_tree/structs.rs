//! Counts fields and methods of the structs of a crate.

use super::{
    crates::Tree,
    imports::resolve,
    tokens::{Token, after_group},
};
use std::collections::{BTreeMap, BTreeSet};

/// A struct, and all that is implemented for it outside of tests.
#[derive(Default)]
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) fields: usize,
    pub(crate) impl_lines: usize,
    pub(crate) impl_files: BTreeSet<String>,
}

/// The structs with named fields of the files whose path begins with `prefix`.
pub(crate) fn structs(tree: &Tree, prefix: &str) -> Vec<Struct> {
    let mut found: BTreeMap<(usize, String), Struct> = BTreeMap::new();
    for target in &tree.targets {
        let mut seen = BTreeSet::new();
        for (module, place) in target.modules.iter().zip(0..) {
            let file = &tree.files[module.file];
            // An inline module has no file of its own.
            if !file.path.starts_with(prefix) || !seen.insert(module.file) {
                continue;
            }
            let (tokens, masked) = (file.tokens.as_slice(), file.masked.as_str());
            for at in (0..tokens.len()).filter(|at| !file.is_test_at(tokens[*at].start)) {
                let Some(declared) = declaration(tokens, masked, at) else {
                    continue;
                };
                match declared {
                    Declaration::Struct { name, fields } => {
                        let one = found.entry((module.file, name.clone())).or_default();
                        (one.name, one.path, one.fields) = (name, file.path.clone(), fields);
                    }
                    Declaration::Impl { of, end } => {
                        let Some(owner) = resolve(&target.modules, place, &of) else {
                            continue;
                        };
                        let one = found.entry((owner.file, owner.name)).or_default();
                        one.impl_lines += file.line_of(tokens[end - 1].start) + 1 - file.line_of(tokens[at].start);
                        one.impl_files.insert(file.path.clone());
                    }
                }
            }
        }
    }
    found.into_values().filter(|one| one.fields > 0).collect()
}

enum Declaration {
    Struct { name: String, fields: usize },
    Impl { of: Vec<String>, end: usize },
}

fn declaration(tokens: &[Token], masked: &str, at: usize) -> Option<Declaration> {
    let text = |place: usize| tokens.get(place).map_or("", |token: &Token| token.text(masked));
    let open = || (at + 1..tokens.len()).find(|place| matches!(text(*place), "{" | ";" | "("));
    match text(at) {
        "struct" => {
            let open = open().filter(|open| text(*open) == "{")?;
            Some(Declaration::Struct {
                name: text(at + 1).into(),
                fields: fields(tokens, masked, open),
            })
        }
        // `impl` before a type of a parameter or a result has another sign before it.
        "impl" if at == 0 || matches!(text(at - 1), "}" | ";" | "]" | "unsafe" | "{") => {
            let open = (at + 1..tokens.len()).find(|place| text(*place) == "{")?;
            Some(Declaration::Impl {
                of: implemented(tokens, masked, at + 1, open),
                end: after_group(tokens, masked, open),
            })
        }
        _ => None,
    }
}

/// Fields are separated by commas outside of any brackets, and each has one colon there.
fn fields(tokens: &[Token], masked: &str, open: usize) -> usize {
    let end = after_group(tokens, masked, open);
    let (mut depth, mut count, mut is_type) = (0_i32, 0, false);
    for place in open + 1..end - 1 {
        let text = tokens[place].text(masked);
        match text {
            "(" | "[" | "{" | "<" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            ">" if tokens[place - 1].text(masked) != "-" => depth -= 1,
            ":" if depth == 0 && !is_type => (count, is_type) = (count + 1, true),
            "," if depth == 0 => is_type = false,
            _ => {}
        }
    }
    count
}

/// The path of the type in `impl<..> Trait for path<..> where ..`.
fn implemented(tokens: &[Token], masked: &str, from: usize, open: usize) -> Vec<String> {
    let mut path = Vec::new();
    let mut depth = 0_i32;
    for place in from..open {
        match tokens[place].text(masked) {
            "<" => depth += 1,
            ">" if tokens[place - 1].text(masked) != "-" => depth -= 1,
            "for" if depth == 0 => path.clear(),
            "where" if depth == 0 => break,
            text if depth == 0 && tokens[place].is_name => path.push(text.into()),
            _ => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::structs;
    use crate::source_tree::planted::planted;

    #[test]
    fn impl_blocks_of_all_files_are_counted_with_the_struct_they_are_for() {
        let tree = planted(&[
            ("a/src/lib.rs", "mod x;\nmod y;\nmod z;\n"),
            (
                "a/src/x.rs",
                "pub struct Big<T> {\n    a: Map<u8, (u8, T)>,\n    pub(super) b: std::rc::Rc<u8>,\n}\n\
                 impl<T> Big<T> {\n}\n",
            ),
            (
                "a/src/y.rs",
                "use super::x::Big;\nimpl<T: Fn(u8) -> u8> Drop for Big<T> {\n    fn drop(&mut self) {}\n}\n\
                 #[cfg(test)]\nmod tests {\n    impl super::Big<u8> {\n    }\n}\n",
            ),
            ("a/src/z.rs", "struct Big {\n    c: u8,\n}\n"),
        ]);
        let found: Vec<_> = structs(&tree, "a/")
            .iter()
            .map(|one| (one.path.clone(), one.fields, one.impl_lines, one.impl_files.len()))
            .collect();
        assert_eq!(found, [("a/src/x.rs".into(), 2, 5, 2), ("a/src/z.rs".into(), 1, 0, 0)]);
    }
}
