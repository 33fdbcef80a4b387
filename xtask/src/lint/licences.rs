//! Every package that is built in has a licence that allows what MIT and Apache-2.0 allow. Reads what cargo knows of
//! the packages in the lock file that a build for this machine takes; needs no network once they are there. Packages of
//! features that are not built by default are not looked at.

use crate::{environment::Environment, failure::Failure, fuzz::machine, repository::Repository};
use serde_json::Value;

/// Licences that ask for no more than that their text goes along. Each stood in the tree when it was added.
const ALLOWED: [&str; 9] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// Packages with another licence that were looked at one by one: tools of the build that are no part of a program.
const LOOKED_AT: [(&str, &str); 1] = [("cbindgen", "MPL-2.0")];

/// What cargo knows of all packages that a build for this machine takes.
pub(crate) fn packages(repository: &Repository, environment: &Environment) -> Result<Value, Failure> {
    let mut cargo = environment.cargo();
    cargo
        .current_dir(&repository.root)
        .args(["metadata", "--format-version", "1", "--locked"]);
    // Packages for other systems are not built, and so not there.
    cargo.args(["--filter-platform", &machine()?]);
    let output = cargo.output().map_err(Failure::start("cargo metadata"))?;
    serde_json::from_slice(&output.stdout).map_err(|_| Failure::Answer {
        program: "cargo metadata".to_owned(),
        problem: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Fails with the packages that may not be built in.
pub(super) fn check(repository: &Repository, environment: &Environment) -> Result<(), Failure> {
    let document = packages(repository, environment)?;
    let Some(packages) = document["packages"].as_array().filter(|packages| !packages.is_empty()) else {
        return Err(Failure::Answer {
            program: "cargo metadata".to_owned(),
            problem: "it names no package".to_owned(),
        });
    };
    let refused: Vec<String> = packages.iter().filter_map(refusal).collect();
    if refused.is_empty() {
        println!("licences: {} packages may be built in", packages.len());
        return Ok(());
    }
    for line in &refused {
        println!("{line}");
    }
    Err(Failure::Style { count: refused.len() })
}

/// Why a package may not be built in, if it may not.
fn refusal(package: &Value) -> Option<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let licence = package["license"].as_str().unwrap_or_default();
    let is_looked_at = LOOKED_AT.contains(&(name, licence));
    if is_looked_at || allows(licence) {
        return None;
    }
    Some(format!(
        "{name}: licence `{licence}` is none of {}: use another package, or say in docs/decisions why it may be built \
         in",
        ALLOWED.join(", ")
    ))
}

/// Whether an expression of licences leaves a choice that is allowed: one of what `OR` offers, all of what `AND` asks.
/// Brackets bind as usual; `/` is how `OR` was written once.
fn allows(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let allowed = any(&words, &mut at);
    allowed && at == words.len()
}

fn any(words: &[&str], at: &mut usize) -> bool {
    let mut allowed = all(words, at);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        let other = all(words, at);
        allowed |= other;
    }
    allowed
}

fn all(words: &[&str], at: &mut usize) -> bool {
    let mut allowed = one(words, at);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        let other = one(words, at);
        allowed &= other;
    }
    allowed
}

fn one(words: &[&str], at: &mut usize) -> bool {
    let Some(word) = words.get(*at) else {
        return false;
    };
    *at += 1;
    if *word == "(" {
        let allowed = any(words, at);
        let is_closed = words.get(*at) == Some(&")");
        *at += 1;
        return allowed && is_closed;
    }
    if words.get(*at) == Some(&"WITH") {
        let exception = words.get(*at + 1).copied().unwrap_or_default();
        *at += 2;
        return ALLOWED.contains(&format!("{word} WITH {exception}").as_str()) || ALLOWED.contains(word);
    }
    ALLOWED.contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_choice_is_enough_and_of_what_is_asked_together_all_must_be_allowed() {
        for (expression, is_allowed) in [
            ("MIT OR Apache-2.0", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0-only OR MIT", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
            ("MIT AND GPL-2.0-only", false),
            ("(MIT OR Apache-2.0) AND GPL-3.0-only", false),
            ("GPL-3.0-only", false),
            ("", false),
            ("MIT)", false),
            ("(MIT", false),
        ] {
            assert_eq!(allows(expression), is_allowed, "{expression}");
        }
    }

    #[test]
    fn a_package_without_a_licence_is_named() {
        assert!(refusal(&json!({"name": "a", "license": null})).is_some_and(|line| line.starts_with("a: ")));
        assert_eq!(refusal(&json!({"name": "cbindgen", "license": "MPL-2.0"})), None);
        assert!(refusal(&json!({"name": "other", "license": "MPL-2.0"})).is_some());
    }
}
