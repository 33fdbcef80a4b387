//! Planted hangs in a program without frame pointers: the culprit's line is named from outside, and where it cannot be
//! told, no wrong one is.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};
use tests::{background::Background, cluster::Cluster, skip::cannot_run, wait};

/// Mode, kind of hang, and the places that must be named.
const HANGS: [(&str, &[&str]); 16] = [
    ("fifo", &["meet", "read_fifo"]),
    ("pipe", &["meet", "write_file"]),
    ("flock", &["meet", "lock_file"]),
    ("mutex", &["meet", "take_lock"]),
    ("condition", &["meet", "wait_signal"]),
    ("join", &["meet", "join_thread"]),
    ("spin", &["meet", "spin"]),
    ("poll", &["meet", "poll_nothing"]),
    ("child", &["meet", "wait_child"]),
    ("stop", &["meet", "stop_here"]),
    ("kinds", &["meet", "add_up"]),
    ("root", &["collect"]),
    ("tag", &["exchange"]),
    ("cycle", &["exchange"]),
    ("communicators", &["exchange"]),
    ("gone", &["exchange"]),
];

/// Jobs that hang beside each other; a spinning rank takes a CPU.
const BESIDE: usize = 4;

const RANKS: &str = "4";

/// Time a rank may be stopped, in the middle and in microseconds.
const STOPPED_US_MAX: u64 = 2000;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/hangs.c")
}

/// The program, compiled with these options more.
fn compiled(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let mut compile = Command::new(env::var_os("MPICC").unwrap_or_else(|| "mpicc".into()));
    compile.args(["-O2", "-fomit-frame-pointer", "-pthread"]).args(options);
    let status = compile.arg(source()).arg("-o").arg(&program).status().expect("mpicc");
    assert!(status.success(), "{compile:?}");
    program
}

/// The line of each place, from the comments of the program.
fn lines() -> BTreeMap<String, usize> {
    let text = fs::read_to_string(source()).expect("the program's source");
    places_of(&text, "/* at: ")
}

fn places_of(text: &str, begin: &str) -> BTreeMap<String, usize> {
    let place = |(number, line): (usize, &str)| {
        let (_, name) = line.split_once(begin)?;
        Some((name.split(' ').next()?.to_owned(), number + 1))
    };
    text.lines().enumerate().filter_map(place).collect()
}

fn start(cluster: &Cluster, program: &Path, mode: &str) -> Background {
    let mut command = cluster.pcmctl(&["run", "-n", RANKS, "--name", mode, "--"]);
    command
        .arg(program)
        .arg(mode)
        .arg(cluster.files().join(format!("{mode}.file")));
    Background::start(&mut command)
}

fn judgement(cluster: &Cluster, job: &str) -> Option<Value> {
    let outcome = cluster.run(&["ps", job, "--stuck", "--json"]);
    serde_json::from_str(&outcome.stdout).ok()
}

fn places(judgement: &Value) -> Vec<String> {
    let places = judgement["places"].as_array().into_iter().flatten();
    places.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Every line that sentences name, as `function() file:line`.
fn named(text: &str) -> Vec<(String, String)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words
        .windows(2)
        .filter(|pair| pair[0].ends_with("()") && pair[1].contains("hangs.c"));
    pairs
        .map(|pair| {
            (
                pair[0].trim_end_matches("()").to_owned(),
                pair[1].trim_end_matches([',', ';']).to_owned(),
            )
        })
        .collect()
}

fn end(cluster: &Cluster, running: Background, job: &str) {
    let outcome = cluster.run(&["kill", job]);
    assert!(outcome.status.success(), "{outcome:?}");
    running.end(Duration::from_secs(20));
}

/// The sentences about a hang once they name all places.
fn explained(cluster: &Cluster, mode: &str, expected: &[&str], lines: &BTreeMap<String, usize>) -> String {
    let mut text = String::new();
    let is_whole = |text: &str| {
        let said = named(text);
        let wanted = |place: &&str| (place.to_string(), format!("hangs.c:{}", lines[*place]));
        expected.iter().all(|place| said.contains(&wanted(place)))
    };
    let found = wait::within(Duration::from_secs(20), || {
        text = judgement(cluster, mode)
            .map(|one| places(&one).join("\n"))
            .unwrap_or_default();
        is_whole(&text).then_some(())
    });
    assert!(found.is_some(), "{mode} is not explained: {text}");
    text
}

fn assert_no_wrong_line(mode: &str, text: &str, lines: &BTreeMap<String, usize>) {
    for (function, place) in named(text) {
        let is_right = place == "hangs.c"
            || lines
                .get(&function)
                .is_some_and(|line| place == format!("hangs.c:{line}"));
        assert!(
            is_right || function == "main",
            "{mode}: {function} is not at {place}: {text}"
        );
    }
}

/// For how long ranks of a job were stopped by each look.
fn stops(cluster: &Cluster, job: &str, looks: usize) -> Vec<u64> {
    let mut stops = Vec::new();
    for _ in 0..looks {
        let outcome = cluster.run(&["stacks", job, "--json"]);
        let document: Value = serde_json::from_str(&outcome.stdout).expect("a JSON document");
        let ranks = document["ranks"].as_array().into_iter().flatten();
        stops.extend(ranks.filter_map(|rank| rank["stack"]["stopped_us"].as_u64()));
    }
    stops.sort_unstable();
    stops
}

#[test]
fn each_planted_hang_is_named_by_its_line_and_no_wrong_line_is() {
    let cluster = Cluster::up(2);
    let folder = cluster.files().to_owned();
    let program = compiled(&folder, "hangs", &["-g"]);
    for (mode, _) in HANGS.iter().filter(|(mode, _)| *mode == "fifo") {
        let made = Command::new("mkfifo").arg(folder.join(format!("{mode}.file"))).status();
        assert!(made.expect("mkfifo").success());
    }
    let lines = lines();
    let mut stopped = Vec::new();
    for group in HANGS.chunks(BESIDE) {
        let jobs: Vec<_> = group.iter().map(|(mode, _)| start(&cluster, &program, mode)).collect();
        for (mode, expected) in group {
            let text = explained(&cluster, mode, expected, &lines);
            println!("{mode}: {text}");
            assert_no_wrong_line(mode, &text, &lines);
            stopped.extend(stops(&cluster, mode, 3));
        }
        for (running, (mode, _)) in jobs.into_iter().zip(group) {
            end(&cluster, running, mode);
        }
    }
    stopped.sort_unstable();
    let (median, longest) = (stopped[stopped.len() / 2], stopped[stopped.len() - 1]);
    println!(
        "a look stopped a rank for {median} us (median), {longest} us at most, of {}",
        stopped.len()
    );
    assert!(stopped.len() >= HANGS.len() * 3 && median <= STOPPED_US_MAX);
    cluster.down();
}

/// Modes of the Python program, where rank 1 is, from the innermost frame on, and how many frames it has.
const PYTHON_HANGS: [(&str, &[&str], usize); 3] = [
    ("pipe", &["Reader.read_pipe", "main", "<module>"], 3),
    ("spin", &["spin"], 3),
    ("deep", &["descend"], 33),
];

/// Where all others are.
const PYTHON_MEETS: &str = "meet.<locals>.wait";

fn python_source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/hangs.py")
}

/// Whether `python3` is one whose frames are read.
fn is_python_read() -> bool {
    let minor = "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))";
    Command::new("python3")
        .args(["-c", minor])
        .status()
        .is_ok_and(|status| status.success())
}

/// Function and line of a frame of the Python program.
fn python_frame(frame: &Value) -> (String, usize) {
    let text = |name: &str| frame[name].as_str().unwrap_or_default();
    assert_eq!(text("file"), python_source().to_str().unwrap_or_default(), "{frame}");
    let line = frame["line"].as_u64().expect("a line");
    (text("function").to_owned(), usize::try_from(line).expect("a line"))
}

#[test]
fn hangs_of_python_are_named_by_function_and_line() {
    if !is_python_read() {
        cannot_run("python3 is none of Python 3.11 to 3.13, whose frames are read");
        return;
    }
    let cluster = Cluster::up(2);
    let source = fs::read_to_string(python_source()).expect("the program's source");
    let lines = places_of(&source, "# at: ");
    for (mode, expected, depth) in PYTHON_HANGS {
        let mut command = cluster.pcmctl(&["run", "-n", RANKS, "--name", mode, "--", "python3"]);
        let running = Background::start(command.arg(python_source()).arg(mode));
        let inner = expected[0];
        let said = [PYTHON_MEETS, inner].map(|place| format!("in {place}() hangs.py:{}", lines[place]));
        let mut text = String::new();
        let found = wait::within(Duration::from_secs(30), || {
            text = places(&judgement(&cluster, mode)?).join("\n");
            said.iter().all(|place| text.contains(place)).then_some(())
        });
        println!("{mode}: {text}");
        assert!(found.is_some(), "{mode}: {said:?} is not in: {text}");
        assert!(
            text.contains("ranks 0, 2, 3 wait") && text.contains("for rank 1"),
            "{mode}: {text}"
        );

        let document = cluster.json(&["stacks", mode]);
        let ranks = document["ranks"].as_array().expect("ranks");
        for (rank, stack) in ranks.iter().enumerate() {
            let thread = &stack["stack"]["threads"][0];
            assert_eq!(thread["is_interpreted"], false, "{document}");
            assert_eq!(thread["is_in_mpi"], rank != 1, "{document}");
            let frames: Vec<_> = thread["frames"]
                .as_array()
                .expect("frames")
                .iter()
                .map(python_frame)
                .collect();
            let own = [PYTHON_MEETS, "meet", "main", "<module>"];
            let wanted = if rank == 1 { expected } else { &own };
            for (frame, wanted) in frames.iter().zip(wanted) {
                assert_eq!(frame.0, *wanted, "{document}");
                let line = lines.get(*wanted).filter(|_| rank == 1 || frame.0 != "main");
                assert!(line.is_none_or(|line| *line == frame.1), "{document}");
            }
            let depth = if rank == 1 { depth } else { own.len() };
            assert_eq!((frames.len(), &thread["note"]), (depth, &Value::Null), "{document}");
        }
        let tree = cluster.run(&["stacks", mode]).stdout;
        assert!(said.iter().all(|place| tree.contains(&place[3..])), "{tree}");
        let stopped = stops(&cluster, mode, 10);
        let (median, longest) = (stopped[stopped.len() / 2], stopped[stopped.len() - 1]);
        println!("{mode}: a look stopped a rank for {median} us (median), {longest} us at most");
        assert!(stopped.len() >= 40 && median <= STOPPED_US_MAX);
        end(&cluster, running, mode);
    }
    cluster.down();
}

#[test]
fn a_stripped_program_and_a_slow_one_get_no_line_that_is_wrong() {
    let cluster = Cluster::up(2);
    let folder = cluster.files().to_owned();
    let stripped = compiled(&folder, "stripped", &["-s"]);
    let running = start(&cluster, &stripped, "poll");
    let text = wait::until("the wait is seen", Duration::from_secs(20), || {
        let text = places(&judgement(&cluster, "poll")?).join("\n");
        text.contains("for rank 1").then_some(text)
    });
    assert!(text.contains("a function without a name of stripped"), "{text}");
    assert_eq!(named(&text), [], "{text}");
    let tree = cluster.run(&["stacks", "poll"]).stdout;
    assert!(tree.contains("no debug information: compile with -g"), "{tree}");
    let one = cluster.run(&["stacks", "poll", "--rank", "1"]).stdout;
    assert!(one.contains("rank 1") && !one.contains("rank 0"), "{one}");
    let none = cluster.run(&["stacks", "poll", "--rank", "9"]);
    assert!(!none.status.success() && none.stderr.contains("no rank 9"), "{none:?}");
    end(&cluster, running, "poll");

    let program = compiled(&folder, "slow", &["-g"]);
    let running = start(&cluster, &program, "slow");
    let until = Instant::now() + Duration::from_secs(6);
    let mut looks = 0;
    while Instant::now() < until {
        let Some(judgement) = judgement(&cluster, "slow") else {
            continue;
        };
        assert_eq!(judgement["stuck"], serde_json::json!([]), "{judgement}");
        looks += 1;
    }
    assert!(looks >= 2, "{looks} looks");
    end(&cluster, running, "slow");
    cluster.down();
}

#[test]
fn sixty_four_ranks_are_read_within_the_deadline() {
    let cluster = Cluster::up(2);
    let program = compiled(cluster.files(), "hangs", &["-g"]);
    let mut command = cluster.pcmctl(&["run", "-n", "64", "--name", "many", "--wait", "sleep", "--"]);
    let running = Background::start(command.arg(&program).arg("poll"));
    let mut took = Vec::new();
    let whole = wait::within(Duration::from_secs(60), || {
        let begin = Instant::now();
        let outcome = cluster.run(&["stacks", "many", "--json"]);
        let document: Value = serde_json::from_str(&outcome.stdout).ok()?;
        let ranks = document["ranks"].as_array()?;
        let lasted = begin.elapsed();
        let is_read = |rank: &&Value| rank["stack"]["threads"][0]["frames"][0]["function"].is_string();
        let count = ranks.iter().filter(is_read).count();
        println!("{count} of 64 stacks in {} ms", lasted.as_millis());
        took.push(lasted);
        (count == 64).then_some(())
    });
    assert!(
        whole.is_some() && took.iter().all(|one| *one < Duration::from_secs(3)),
        "{took:?}"
    );
    end(&cluster, running, "many");
    cluster.down();
}
