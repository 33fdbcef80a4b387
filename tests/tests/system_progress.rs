//! Progress lines: on a terminal, and nowhere else.

use std::{path::Path, process::Command};
use tests::{
    binaries::built,
    cluster::{Cluster, LIMIT},
    limited::{self, Outcome},
    skip,
};

const ITERATIONS: &str = "1500";

fn words(cluster: &Cluster) -> Vec<String> {
    let arguments = ["run", "-n", "2", "--progress", "--"];
    let mut command = cluster.pcmctl(&arguments);
    command.arg(built("heat2d-c"));
    command.args([
        "--rows",
        "64",
        "--cols",
        "64",
        "--sleep-us",
        "1000",
        "--iterations",
        ITERATIONS,
    ]);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Runs words of a command on a terminal of its own, which `script` of util-linux makes.
fn on_a_terminal(cluster: &Cluster, words: &[String]) -> Outcome {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let mut command = cluster.command("script");
    command
        .args(["-qec", &quoted.join(" "), "/dev/null"])
        .env("TERM", "xterm");
    limited::run(&mut command, LIMIT)
}

#[test]
fn a_run_tells_how_far_it_is_on_a_terminal_and_nowhere_else() {
    if !Path::new("/usr/bin/script").exists() {
        return skip::cannot_run("no script of util-linux");
    }
    let cluster = Cluster::up(1);
    let words = words(&cluster);
    let seen = on_a_terminal(&cluster, &words);
    assert!(seen.status.success(), "{seen:?}");
    assert!(
        seen.stdout.contains("\riteration ") && seen.stdout.contains(" a second"),
        "{seen:?}"
    );
    assert!(
        seen.stdout.contains("\u{1b}[Kheat2d: iterations 1500"),
        "output has lines of its own: {seen:?}"
    );
    assert!(
        seen.stdout.ends_with("\r\u{1b}[K"),
        "the line was not taken away: {seen:?}"
    );

    let mut piped: Command = cluster.command(&words[0]);
    let piped = limited::run(piped.args(&words[1..]), LIMIT);
    assert!(piped.status.success(), "{piped:?}");
    assert!(piped.stderr.is_empty() && !piped.stdout.contains('\r'), "{piped:?}");
    assert_eq!(piped.stdout.lines().count(), 1, "{piped:?}");
    cluster.down();
}
