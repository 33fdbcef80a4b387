//! The enums of a crate that can be read from bytes, by its source: so that one which no sample holds is noticed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Names of the enums in the files below a folder that derive `Deserialize`.
pub fn enums_that_travel(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for path in entries.map_while(Result::ok).map(|entry| entry.path()) {
        if path.is_dir() {
            found.append(&mut enums_that_travel(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            found.extend(enums_in(&text));
        }
    }
    found
}

fn enums_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut derives = String::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[derive(") {
            line.clone_into(&mut derives);
        } else if !derives.is_empty() && !derives.ends_with(")]") {
            derives.push_str(line);
        } else if !line.starts_with("#[") && !line.starts_with("///") {
            let words: Vec<&str> = line.split_whitespace().collect();
            let at = words.iter().position(|word| *word == "enum");
            if let Some(name) = at
                .and_then(|at| words.get(at + 1))
                .filter(|_| derives.contains("Deserialize"))
            {
                found.push(name.trim_end_matches(|c: char| !c.is_alphanumeric()).to_owned());
            }
            derives.clear();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enums_that_can_be_read_are_found_and_others_are_not() {
        let text = "#[derive(Clone, Deserialize)]\n#[serde(tag = \"k\")]\npub enum One {\n}\n#[derive(Clone)]\n\
                    enum Two {}\n#[derive(\n    Deserialize,\n)]\n/// Words.\npub(super) enum Three {}\n\
                    #[derive(Deserialize)]\nstruct Four;";
        assert_eq!(enums_in(text), ["One", "Three"]);
    }
}
