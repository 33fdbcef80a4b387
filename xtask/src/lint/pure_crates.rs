//! The crates that decide know no clock, socket, file, thread, randomness, process or environment: each has a
//! `clippy.toml` that bans them. Clippy reads the nearest one only, so it repeats the settings of the workspace.

use super::complaint::Complaint;
use crate::source_tree::Tree;

/// Of `ios-agent` the modules that decide are pure; its `lib.rs` names the others.
const CRATES: [&str; 3] = ["ios-agent", "pcm-core", "pcm-proto"];

const OF_THE_WORKSPACE: &str = "clippy.toml";

/// At least these; a crate may ban more.
const BANNED: [&str; 18] = [
    "std::collections::HashMap",
    "std::collections::HashSet",
    "std::collections::hash_map::RandomState",
    "std::env::var",
    "std::env::var_os",
    "std::fs::File",
    "std::fs::read",
    "std::fs::write",
    "std::net::TcpStream",
    "std::net::UdpSocket",
    "std::os::unix::net::UnixStream",
    "std::process::Command",
    "std::process::exit",
    "std::sync::Mutex",
    "std::thread::sleep",
    "std::thread::spawn",
    "std::time::Instant::now",
    "std::time::SystemTime::now",
];

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let settings = tree.file(OF_THE_WORKSPACE).map_or("", |file| file.text.as_str());
    let mut complaints = Vec::new();
    for name in CRATES
        .iter()
        .filter(|name| tree.crates().iter().any(|one| one == *name))
    {
        let path = format!("{name}/clippy.toml");
        let text = tree.file(&path).map_or("", |file| file.text.as_str());
        let mut miss = |what: String| {
            complaints.push(Complaint {
                path: path.clone(),
                line: 1,
                rule: "pure-crate",
                advice: format!("add {what}"),
            });
        };
        for banned in BANNED {
            if !text.contains(&format!("{{ path = \"{banned}\",")) {
                miss(format!("{banned} to what is disallowed"));
            }
        }
        for setting in settings.lines().filter(|line| line.contains(" = ")) {
            if !text.lines().any(|line| line == setting) {
                miss(format!("the workspace's `{setting}`, which this file replaces"));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::source_tree::planted::planted;
    use std::{fs, path::Path, process::Command};

    fn bans() -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pcm-core/clippy.toml");
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_ban_that_is_missing_is_found_and_so_is_a_setting_of_the_workspace() {
        let found = |text: &str| {
            let files = [
                ("pcm-core/Cargo.toml", "[package]\n"),
                ("pcm-core/clippy.toml", text),
                ("clippy.toml", "allow-unwrap-in-tests = true\n"),
            ];
            check(&planted(&files))
                .into_iter()
                .map(|one| one.advice)
                .collect::<Vec<_>>()
        };
        assert!(found(&bans()).is_empty());
        let holes = bans()
            .replace("allow-unwrap-in-tests = true", "")
            .replace("std::time::Instant::now", "std::time::Instant::then");
        assert_eq!(
            found(&holes),
            [
                "add std::time::Instant::now to what is disallowed",
                "add the workspace's `allow-unwrap-in-tests = true`, which this file replaces"
            ]
        );
        assert_eq!(found("").len(), super::BANNED.len() + 1);
    }

    /// Clippy's own words about a crate of one file with the bans of the pure crates.
    fn clippy_on(source: &str) -> (bool, String) {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| fs::write(folder.path().join(path), text).unwrap();
        put(
            "Cargo.toml",
            "[package]\nname = \"planted\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\npath = \
             \"lib.rs\"\n[workspace]\n[lints.clippy]\nunwrap_used = \"deny\"\n",
        );
        put("clippy.toml", &bans());
        put("lib.rs", source);
        let mut clippy = Command::new(env!("CARGO"));
        clippy
            .args([
                "clippy",
                "--quiet",
                "--offline",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ])
            .current_dir(folder.path())
            .env("CARGO_TARGET_DIR", folder.path().join("target"))
            .env_remove("CLIPPY_CONF_DIR");
        let output = clippy.output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    }

    #[test]
    fn clippy_refuses_clocks_files_threads_and_tables_without_order_by_these_bans() {
        let (passes, text) = clippy_on(
            "pub fn planted() -> std::collections::HashMap<u8, u8> {\n    let _ = std::time::SystemTime::now();\n    \
             let _ = std::fs::read(\"a\");\n    std::thread::spawn(|| ());\n    println!();\n    \
             Default::default()\n}\n",
        );
        assert!(!passes, "{text}");
        let banned = [
            "type `std::collections::HashMap`",
            "method `std::time::SystemTime::now`",
            "method `std::fs::read`",
            "method `std::thread::spawn`",
            "macro `std::println`",
        ];
        for banned in banned {
            assert!(
                text.contains(&format!("use of a disallowed {banned}")),
                "{banned}: {text}"
            );
        }
    }

    #[test]
    fn clippy_knows_every_name_of_these_bans_and_keeps_the_settings_of_the_workspace() {
        let test =
            "#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {\n        \"1\".parse::<u8>().unwrap();\n    }\n}\n";
        let (passes, text) = clippy_on(&format!("pub fn pure(now: u64) -> u64 {{\n    now + 1\n}}\n{test}"));
        assert!(passes, "{text}");
        let (passes, text) = clippy_on("pub fn pure(now: Option<u64>) -> u64 {\n    now.unwrap()\n}\n");
        assert!(!passes && text.contains("unwrap"), "{text}");
    }
}
