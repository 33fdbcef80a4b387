//! Bad input and a bad environment: a clear error within its deadline, the right exit code, nothing left running.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    process::Command,
    time::{Duration, Instant},
};
use tests::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    limited::{self, Outcome},
    skip::cannot_run,
    wait,
};

/// What any of these errors may take; most take milliseconds.
const ERROR_MAX: Duration = Duration::from_secs(15);

/// One line from pcmctl with this code, this exit code, and all of these words.
fn assert_error(outcome: &Outcome, exit: i32, code: &str, words: &[&str]) {
    assert_eq!(outcome.status.code(), Some(exit), "{outcome:?}");
    let lines: Vec<&str> = outcome
        .stderr
        .lines()
        .filter(|line| line.starts_with("pcmctl: "))
        .collect();
    assert_eq!(lines.len(), 1, "one line of error is wanted: {outcome:?}");
    assert!(
        lines[0].ends_with(&format!("[{code}] (docs/errors.md#{code})")),
        "{code} is wanted: {outcome:?}"
    );
    for word in words {
        assert!(lines[0].contains(word), "{word:?} is wanted: {outcome:?}");
    }
    assert!(outcome.stdout.is_empty(), "nothing on stdout is wanted: {outcome:?}");
}

fn timed(cluster: &Cluster, arguments: &[&str]) -> Outcome {
    let begun = Instant::now();
    let outcome = cluster.run(arguments);
    assert!(
        begun.elapsed() < ERROR_MAX,
        "{arguments:?} took {:?}: {outcome:?}",
        begun.elapsed()
    );
    outcome
}

#[test]
fn without_a_cluster_every_verb_says_how_to_get_one() {
    let cluster = Cluster::place();
    for arguments in [
        &["run", "--", "true"][..],
        &["nodes"],
        &["jobs", "--json"],
        &["ps", "1"],
        &["kill", "1"],
        &["ping"],
        &["events"],
        &["down"],
        &["join", "x"],
    ] {
        assert_error(&timed(&cluster, arguments), 3, "no_cluster", &["pcmctl up --local"]);
    }
    cluster.assert_nothing_left();
}

#[test]
fn a_wrong_command_line_is_named_and_starts_nothing() {
    let cluster = Cluster::place();
    let host_file = cluster.files().join("hosts");
    fs::write(&host_file, "a 127.0.0.1\nb 127.0.0.1 cpu=0\n").expect("a file of the test");
    let host_file = host_file.to_str().expect("a UTF-8 path");
    for (arguments, words) in [
        (&["up"][..], &["--local", "--help"][..]),
        (&["up", "--local", "0"], &["0"]),
        (&["up", "--local", "2", "--cpus", "0;1;2"], &["3 CPU lists for 2 nodes"]),
        (&["up", "--local", "2", "--cpus", "0;x"], &["\"x\""]),
        (&["up", "--hosts", "missing"], &["missing"]),
        (&["up", "--hosts", host_file], &["line 2", "cpu=0"]),
        (&["run", "-n", "0", "true"], &["--ranks", "1..=4096"]),
        (&["run", "-n", "5", "--max", "4", "true"], &["-n 5", "--max 4"]),
        (&["run"], &["PROGRAM"]),
        (&["signal", "1", "NOPE"], &["NOPE"]),
        (&["nodse"], &["nodes"]),
    ] {
        assert_error(&timed(&cluster, arguments), 2, "usage", words);
    }
    cluster.assert_nothing_left();
}

#[test]
fn what_cannot_be_started_is_refused_with_its_reason() {
    let cluster = Cluster::up(2);
    let folder = cluster.files().to_path_buf();
    fs::write(folder.join("text"), "not a program").expect("a file of the test");
    fs::write(folder.join("script"), "#!/no/such/interpreter\n").expect("a file of the test");
    fs::write(folder.join("other"), b"\x7fELF\x02\x01\x01\0garbage").expect("a file of the test");
    for name in ["script", "other"] {
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).expect("our own file");
    }
    for (program, exit, code) in [
        ("./no-such-program", 127, "unknown_program"),
        ("no-such-program-in-path", 127, "unknown_program"),
        ("./script", 127, "unknown_program"),
        ("./text", 126, "not_executable"),
        ("/", 126, "not_executable"),
        ("./other", 126, "not_executable"),
    ] {
        for options in [&["-n", "1"][..], &["-n", "4"], &["-n", "2", "--detach"]] {
            let outcome = timed(&cluster, &[&["run"], options, &["--", program]].concat());
            assert_eq!(outcome.status.code(), Some(exit), "{outcome:?}");
            let name = program.trim_start_matches("./");
            for word in ["pcmctl: job", &format!("({code})"), name] {
                assert!(outcome.stderr.contains(word), "{word:?} is wanted: {outcome:?}");
            }
            assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
        }
    }
    let jobs = cluster.json(&["jobs"]);
    let alive = jobs
        .as_array()
        .expect("a list")
        .iter()
        .filter(|job| job["state"] != "ended")
        .count();
    assert_eq!(alive, 0, "{jobs}");
    assert!(cluster.run(&["run", "-n", "2", "--", "true"]).status.success());
    cluster.down();
}

#[test]
fn a_checkpoint_of_a_program_that_never_iterates_says_what_it_waits_for() {
    let cluster = Cluster::up(1);
    assert!(cluster.run(&["run", "--detach", "--", "sleep", "60"]).status.success());
    let asked = Background::start(&mut cluster.pcmctl(&["checkpoint", "1"]));
    wait::until("the reason of the wait", ERROR_MAX, || {
        asked
            .stderr()
            .contains("when its ranks next call pcm_iterate")
            .then_some(())
    });
    assert!(cluster.run(&["kill", "1"]).status.success());
    let outcome = asked.end(ERROR_MAX);
    assert_eq!(outcome.status.code(), Some(4), "{outcome:?}");
    assert!(outcome.stderr.contains("[job_ended]"), "{outcome:?}");
    cluster.down();
}

#[test]
fn unknown_names_are_refused_and_say_where_to_look() {
    let cluster = Cluster::up(1);
    for (arguments, code) in [
        (&["ps", "77"][..], "unknown_job"),
        (&["ps", "nobody"], "unknown_job"),
        (&["kill", "77"], "unknown_job"),
        (&["signal", "77", "TERM"], "unknown_job"),
        (&["drain", "n7"], "unknown_node"),
        (&["remove", "n7"], "unknown_node"),
        (&["logs", "n7"], "unknown_node"),
        (&["run", "--nodes", "n7", "--", "true"], "unknown_node"),
        (&["remove", "n0"], "last_node"),
    ] {
        assert_error(&timed(&cluster, arguments), 4, code, &["pcmctl"]);
    }
    cluster.down();
}

#[test]
fn a_large_environment_is_passed_on_and_what_the_kernel_would_not_take_is_refused() {
    let cluster = Cluster::up(1);
    let mut large = cluster.pcmctl(&["run", "--", "sh", "-c", "echo ${#LARGE_2}"]);
    for number in 0..3 {
        large.env(format!("LARGE_{number}"), "x".repeat(100_000));
    }
    assert_eq!(limited::run(&mut large, LIMIT).stdout, "100000\n");
    let detached = cluster.run(&["run", "--detach", "--name", "other", "--", "sleep", "600"]);
    assert!(detached.status.success(), "{detached:?}");
    // One argument of more than 128 KiB reaches nobody: pcmctl itself could not be started with it.
    let mut arguments = cluster.pcmctl(&["run", "--", "true"]);
    arguments.args((0..200).map(|_| "x".repeat(9_000)));
    let outcome = limited::run(&mut arguments, LIMIT);
    assert_error(&outcome, 4, "environment_too_large", &["1536 KiB"]);
    let jobs = cluster.json(&["jobs"]);
    let other = jobs
        .as_array()
        .expect("a list")
        .iter()
        .find(|job| job["name"] == "other");
    assert_eq!(other.expect("the other job")["state"], "running", "{jobs}");
    assert!(cluster.run(&["run", "--", "true"]).status.success());
    cluster.down();
}

#[test]
fn an_unreachable_host_fails_the_boot_within_its_deadline_and_leaves_nothing() {
    let mut cluster = Cluster::place();
    let host_file = cluster.files().join("hosts");
    // An address of the range for documentation: nobody has it.
    fs::write(&host_file, "here 127.0.0.1\nfar 192.0.2.1\n").expect("a file of the test");
    let host_file = host_file.to_str().expect("a UTF-8 path").to_owned();
    let begun = Instant::now();
    let outcome = cluster.boot(&["--hosts", &host_file]);
    assert!(begun.elapsed() < Duration::from_secs(30), "took {:?}", begun.elapsed());
    assert_error(&outcome, 6, "boot_failed", &["far", "ssh"]);
    cluster.assert_nothing_left();
    let outcome = cluster.boot(&["--hosts", &host_file, "--allow-missing"]);
    assert!(outcome.status.success(), "{outcome:?}");
    assert!(outcome.stdout.contains("missing"), "{outcome:?}");
    assert!(cluster.run(&["run", "--", "true"]).status.success());
    cluster.down();
}

#[test]
fn a_missing_daemon_fails_the_boot_and_names_it() {
    let cluster = Cluster::place();
    let mut command = cluster.pcmctl(&["up", "--local", "2"]);
    let outcome = limited::run(command.env("PCM_DAEMON", "/no/such/daemon"), LIMIT);
    assert_error(&outcome, 6, "boot_failed", &["/no/such/daemon"]);
    cluster.assert_nothing_left();
}

#[test]
fn a_wrong_key_is_told_and_gets_nothing() {
    let cluster = Cluster::up(1);
    let key = cluster.dir().join("key");
    let right = fs::read_to_string(&key).expect("the key");
    let (head, secret) = right.trim_end().rsplit_once(' ').expect("a key file");
    let wrong: String = secret.chars().rev().collect();
    fs::write(&key, format!("{head} {wrong}\n")).expect("the key is ours");
    assert_error(&timed(&cluster, &["nodes"]), 4, "wrong_key", &["key"]);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("the key is ours");
    assert_error(&timed(&cluster, &["nodes"]), 4, "wrong_key", &["0644"]);
    fs::write(&key, "rubbish").expect("the key is ours");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("the key is ours");
    assert_error(&timed(&cluster, &["nodes"]), 4, "wrong_key", &["not a cluster key"]);
    // `down` does not need the key to end what is there.
    assert!(cluster.run(&["down"]).status.success());
    cluster.assert_nothing_left();
}

#[test]
fn a_port_taken_by_a_stranger_is_told_apart_from_a_daemon() {
    let cluster = Cluster::up(1);
    let stranger = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = stranger.local_addr().expect("its address").to_string();
    std::thread::spawn(move || {
        for connection in stranger.incoming().flatten() {
            use std::io::Write;
            let _ = (&connection).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let published = cluster.dir().join("nodes/n0/address");
    let right = fs::read_to_string(&published).expect("the daemon published its address");
    fs::write(&published, &address).expect("the folder is ours");
    let outcome = timed(&cluster, &["nodes"]);
    assert!(matches!(outcome.status.code(), Some(3 | 7)), "{outcome:?}");
    assert!(outcome.stderr.contains(&address), "{outcome:?}");
    fs::write(&published, right).expect("the folder is ours");
    cluster.down();
}

#[test]
fn a_full_shared_memory_ends_the_job_with_a_reason_and_spares_the_cluster() {
    // A mount namespace of its own, with a /dev/shm that is nearly full.
    let isolated = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c", script]);
        command
    };
    let works = limited::run(&mut isolated("mount -t tmpfs -o size=64k none /dev/shm"), LIMIT);
    if !works.status.success() {
        return cannot_run(&format!("no mount namespace of one's own: {}", works.stderr));
    }
    let cluster = Cluster::place();
    let (pcmctl, trial) = (built("pcmctl"), built("pcm-trial"));
    let script = format!(
        "mount -t tmpfs -o size=64k none /dev/shm && '{ctl}' up --local 1 >/dev/null && \
         '{ctl}' run -n 2 -- '{trial}' ring 1; code=$?; '{ctl}' run -- true && '{ctl}' down >/dev/null; exit $code",
        ctl = pcmctl.display(),
        trial = trial.display()
    );
    let mut command = cluster.command("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", &script]);
    let outcome = limited::run(&mut command, LIMIT);
    assert_ne!(outcome.status.code(), Some(0), "{outcome:?}");
    let told = outcome.stderr.to_lowercase();
    assert!(
        told.contains("/dev/shm") || told.contains("shared memory"),
        "{outcome:?}"
    );
    cluster.assert_nothing_left();
}
