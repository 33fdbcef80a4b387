//! The page for users of other launchers: each of its commands is run, in the order of the page.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};
use tests::{
    binaries::built,
    cluster::{Cluster, LIMIT},
    limited, pieces, wait,
};

const PAGE: &str = "coming-from.md";

/// A command of the page: variables that stand before `pcmctl`, and the words after it.
struct Command {
    variables: Vec<(String, String)>,
    words: Vec<String>,
}

fn commands() -> Vec<Command> {
    let boxes = pieces::pieces(PAGE, "sh");
    let lines = boxes
        .iter()
        .flat_map(|code| code.lines())
        .filter(|line| !line.is_empty());
    let command = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let mut variables = Vec::new();
        for word in words.by_ref().take_while(|word| word != "pcmctl") {
            let (name, value) = word.split_once('=').expect("a variable before pcmctl");
            variables.push((name.to_owned(), value.to_owned()));
        }
        let words = words.collect();
        Command { variables, words }
    };
    lines.map(command).collect()
}

/// What the page calls a program: the heat equation, for so many iterations.
fn write_program(path: &Path, iterations: &str) {
    let heat2d = built("heat2d-c");
    let size = "--rows 64 --cols 64 --iterations";
    let script = format!("#!/bin/sh\nexec '{}' {size} {iterations}\n", heat2d.display());
    fs::write(path, script).expect("a file of the test");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it may be run");
}

#[test]
fn each_command_of_the_page_for_users_of_other_launchers_works() {
    let mut cluster = Cluster::place();
    let folder = cluster.files().to_owned();
    fs::write(folder.join("hosts"), "node1 127.0.0.1\nnode2 127.0.0.1\n").expect("a host file");
    write_program(&folder.join("program"), "20");
    write_program(&folder.join("solver"), "100000000");
    let commands = commands();
    assert!(commands.len() >= 12, "{} commands", commands.len());
    for Command { variables, words } in &commands {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = cluster.pcmctl(&words);
        command.current_dir(&folder).envs(variables.iter().cloned());
        let outcome = limited::run(&mut command, LIMIT);
        assert!(outcome.status.success(), "{words:?}: {outcome:?}\n{}", cluster.logs());
        match words[0] {
            "up" => cluster.note_id(),
            "run" if words.contains(&"--detach") => cluster.wait_until_ranks_of_iterate("solver"),
            "run" => assert!(outcome.stdout.contains("checksum"), "{words:?}: {outcome:?}"),
            "kill" => wait::until("the job's end", LIMIT, || {
                let jobs = cluster.json(&["jobs"]);
                let ended = |job: &serde_json::Value| job["state"] == "ended";
                jobs.as_array()?.iter().all(ended).then_some(())
            }),
            _ => {}
        }
    }
    cluster.assert_nothing_left();
}

#[test]
fn input_goes_to_rank_0() {
    let cluster = Cluster::up(2);
    let arguments = ["run", "-n", "2", "--label", "--", "cat"];
    let outcome = cluster.run_with_input(&arguments, b"a line\n");
    assert_eq!(outcome.stdout, "[0] a line\n", "{outcome:?}");
    cluster.down();
}
