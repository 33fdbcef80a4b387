//! What `pcm-daemon` does for each way of calling it.

use crate::keeper::Stance;
use crate::{join, keeper, node_end, serve};
use pcm_proto::node_end::END_VARIABLE;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

const HELP: &str = "\
pcm-daemon: the daemon of a node, and the keeper above it

`pcmctl up` starts it; users call only `join` themselves.

  pcm-daemon            becomes the node's keeper; reads a boot specification (JSON) on standard input,
                        reports on standard output, logs to DIR/nodes/NAME/daemon.log
  pcm-daemon --foreground [--ends AT]
                        the same without leaving its session: for engines that watch the process they start;
                        SIGTERM is a notice that the node will be taken away; AT says when it will be at the latest
                        (seconds since 1970 or RFC 3339; PCM_NODE_ENDS says the same)
  pcm-daemon join       joins a cluster by itself, in the foreground; 'pcm-daemon join --help' says how
  pcm-daemon serve      the daemon proper, started by a keeper
  pcm-daemon stacks     reads stacks of ranks for the daemon that starts it
  pcm-daemon sweep ID   ends what the cluster with this id left here; for `pcmctl down` where no daemon answers
  pcm-daemon --help     this text
  pcm-daemon --version  the version

Exit codes: 0 ended on purpose; 1 ended because the daemon could not be kept alive; 2 called wrongly;
78 must not be started again as it is (a line on standard error or in the log says why). In the foreground:
0 the cluster is down or the node was removed; 75 left because of a notice or its end; 1 failed.

Example:  pcmctl up --local 4
";

/// Keeps a node; the exit code. `refused` is that of a keeper that cannot even begin.
fn keep(stance: Stance, refused: i32) -> i32 {
    match keeper::become_keeper(stance) {
        Ok(booted) => keeper::run(booted),
        Err(error) => {
            eprintln!("pcm-daemon: {error}");
            refused
        }
    }
}

/// The same in the foreground. Where it finds out when the node ends, the process starts itself again with the answer
/// in its environment, which its daemons inherit.
fn keep_in_foreground(ends: Option<&str>) -> i32 {
    let variable = |name: &str| std::env::var(name).ok();
    let found = match node_end::for_keeper(ends, variable) {
        Ok(found) => found.filter(|found| variable(END_VARIABLE).as_ref() != Some(found)),
        Err(error) => {
            eprintln!("pcm-daemon: {error}");
            return 2;
        }
    };
    let Some(found) = found else {
        return keep(Stance::Foreground { has_joined: false }, 1);
    };
    let start_again = |program: PathBuf| {
        Command::new(program)
            .arg("--foreground")
            .env(END_VARIABLE, found)
            .exec()
    };
    let error = std::env::current_exe().map_or_else(|error| error, start_again);
    eprintln!("pcm-daemon: the keeper cannot be started: {error}");
    1
}

/// Ends what a cluster left on this machine; the exit code.
fn sweep(cluster_id: &str) -> i32 {
    let (_, left) = cluster_sweep::end_all(cluster_id);
    if left > 0 {
        eprintln!("pcm-daemon: {left} processes of cluster {cluster_id} cannot be ended: they wait in the kernel");
    }
    i32::from(left > 0)
}

/// Runs what the arguments (without the program's name) say; the exit code.
pub fn run(arguments: impl Iterator<Item = std::ffi::OsString>) -> i32 {
    let arguments: Vec<String> = arguments
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => keep(Stance::Detached, pcm_proto::keeper::DAEMON_EXIT_FINAL),
        ["--foreground"] => keep_in_foreground(None),
        ["--foreground", "--ends", ends] => keep_in_foreground(Some(ends)),
        // What `join` becomes.
        ["--foreground", "--joined"] => keep(Stance::Foreground { has_joined: true }, 1),
        ["join", ref options @ ..] => join::run(options),
        ["serve"] => {
            // The keeper starts us through a link that bears another name. A refusal leaves a worse name in `ps`.
            let _ = rustix::thread::set_name(c"pcm-daemon");
            serve::run()
        }
        ["stacks"] => pcm_stacks::run(),
        ["sweep", cluster_id] => sweep(cluster_id),
        ["-h" | "--help"] => {
            print!("{HELP}");
            0
        }
        ["-V" | "--version"] => {
            println!("pcm-daemon {}", env!("CARGO_PKG_VERSION"));
            0
        }
        _ => {
            eprintln!(
                "pcm-daemon: unknown arguments {}; `pcm-daemon --help` lists the known ones",
                words.join(" ")
            );
            2
        }
    }
}
