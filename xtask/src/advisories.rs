//! `cargo xtask advisories`: compares the packages in the lock file with a copy of RustSec's advisory database. Needs
//! no network; whoever runs it brings the copy.

use crate::{
    failure::{Failure, OnPath},
    repository::Repository,
};
use semver::{Version, VersionReq};
use std::{
    fs,
    path::{Path, PathBuf},
};
use toml::{Table, Value};

/// Fails with the advisories that hold for a package of the lock file. Those that only inform, for instance that
/// a package has no maintainer any more, are printed.
pub(crate) fn run(repository: &Repository, database: &Path) -> Result<(), Failure> {
    let packages = locked(&repository.root.join("Cargo.lock"))?;
    let (mut looked_at, mut found, mut told) = (0, 0, 0);
    for (name, version) in &packages {
        for advisory in advisories(&database.join("crates").join(name))? {
            looked_at += 1;
            if advisory.is_withdrawn || !advisory.holds_for(version) {
                continue;
            }
            println!("{name} {version}: {} {}", advisory.id, advisory.kind);
            if advisory.is_defect() {
                found += 1;
            } else {
                told += 1;
            }
        }
    }
    if looked_at == 0 {
        return Err(Failure::Missing {
            what: format!("an advisory about any of {} packages", packages.len()),
            advice: "name a checkout of RustSec's advisory database: it has a folder `crates`".to_owned(),
        });
    }
    println!(
        "advisories: {looked_at} about {} packages of the lock file; {found} hold, {told} only inform",
        packages.len()
    );
    match found {
        0 => Ok(()),
        count => Err(Failure::Style { count }),
    }
}

/// What an advisory says of versions.
struct Advisory {
    id: String,
    /// Empty for a vulnerability.
    kind: String,
    is_withdrawn: bool,
    /// Versions that it does not hold for.
    sound: Vec<Option<VersionReq>>,
}

impl Advisory {
    /// A range that cannot be read excuses no version.
    fn holds_for(&self, version: &Version) -> bool {
        !self.sound.iter().flatten().any(|sound| sound.matches(version))
    }

    fn is_defect(&self) -> bool {
        self.kind.is_empty() || self.kind == "unsound"
    }

    fn read(text: &str) -> Option<Self> {
        let (_, table) = text.split_once("```toml")?;
        let table: Table = table.split_once("```")?.0.parse().ok()?;
        let (about, versions) = (table.get("advisory")?, table.get("versions"));
        let words = |key: &str| about.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let listed = |key: &str| {
            let list = versions.and_then(|versions| versions.get(key)?.as_array());
            list.cloned().unwrap_or_default()
        };
        let sound = listed("patched").into_iter().chain(listed("unaffected"));
        Some(Self {
            id: words("id"),
            kind: words("informational"),
            is_withdrawn: about.get("withdrawn").is_some(),
            sound: sound.map(|sound| sound.as_str()?.parse().ok()).collect(),
        })
    }
}

/// The advisories in a folder; most packages have none.
fn advisories(folder: &Path) -> Result<Vec<Advisory>, Failure> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).on("read", &path)?;
        Advisory::read(&text).ok_or_else(|| Failure::Answer {
            program: path.display().to_string(),
            problem: "it is no advisory".to_owned(),
        })
    };
    entries.flatten().map(|entry| read(entry.path())).collect()
}

/// Names and versions in a lock file.
fn locked(path: &Path) -> Result<Vec<(String, Version)>, Failure> {
    let text = fs::read_to_string(path).on("read", path)?;
    let packages = text.parse::<Table>().ok().and_then(|mut lock| lock.remove("package"));
    let package = |package: &Value| {
        let name = package.get("name")?.as_str()?.to_owned();
        Some((name, package.get("version")?.as_str()?.parse().ok()?))
    };
    let packages = packages.as_ref().and_then(Value::as_array);
    let packages: Option<Vec<_>> = packages.and_then(|packages| packages.iter().map(package).collect());
    packages.ok_or_else(|| Failure::Answer {
        program: path.display().to_string(),
        problem: "it is no lock file".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADVISORY: &str = r#"```toml
[advisory]
id = "RUSTSEC-1"
package = "a"
[versions]
patched = [">= 1.2.3, < 2.0.0", "^ 2.1"]
unaffected = ["< 1.0.0"]
```

# Words"#;

    #[test]
    fn an_advisory_holds_for_what_is_neither_patched_nor_unaffected() {
        let advisory = Advisory::read(ADVISORY).unwrap();
        assert!(advisory.is_defect() && !advisory.is_withdrawn);
        for (version, holds) in [
            ("0.9.9", false),
            ("1.0.0", true),
            ("1.2.2", true),
            ("1.2.3", false),
            ("2.0.0", true),
            ("2.4.0", false),
        ] {
            assert_eq!(advisory.holds_for(&version.parse().unwrap()), holds, "{version}");
        }
    }

    #[test]
    fn what_informs_is_no_defect_and_versions_that_cannot_be_read_excuse_nothing() {
        let informs = ADVISORY.replace(
            "package =",
            "informational = \"unmaintained\"\nwithdrawn = \"2020\"\npackage =",
        );
        let informs = Advisory::read(&informs).unwrap();
        assert!(!informs.is_defect() && informs.is_withdrawn);
        let odd = ADVISORY.replace("^ 2.1", "some").replace(">= 1.2.3, < 2.0.0", "");
        assert!(Advisory::read(&odd).unwrap().holds_for(&"2.4.0".parse().unwrap()));
        assert!(Advisory::read("# Words").is_none());
    }

    #[test]
    fn a_lock_file_names_packages_and_a_folder_without_advisories_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let lock = home.path().join("Cargo.lock");
        fs::write(&lock, "version = 4\n[[package]]\nname = \"a\"\nversion = \"1.1.0\"\n").unwrap();
        assert_eq!(locked(&lock).unwrap(), [("a".to_owned(), Version::new(1, 1, 0))]);
        fs::write(&lock, "nothing").unwrap();
        assert!(locked(&lock).is_err() && locked(&home.path().join("none")).is_err());
        assert!(advisories(&home.path().join("none")).unwrap().is_empty());
    }
}
