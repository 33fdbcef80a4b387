//! Planted hangs in programs without frame pointers: the culprit's line is named from outside, and where it cannot be
//! told, no wrong one is.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};
use tests::{background::Background, cluster::Cluster, example::mpi_compiler, skip::cannot_run, wait};

/// Kind of hang, and the places that must be named.
type Hang = (&'static str, &'static [&'static str]);

const HANGS_OF_C: [Hang; 27] = [
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
    ("semaphore", &["meet", "wait_semaphore"]),
    ("file", &["meet", "wait_file"]),
    // What a debugger holds cannot be read, and the state is said in place of the line.
    ("debugger", &["meet"]),
    ("all", &["meet", "wait_for_all"]),
    ("probe", &["meet", "look_first"]),
    ("shared", &["meet", "spin_shared"]),
    ("kinds", &["meet", "add_up"]),
    ("root", &["collect"]),
    ("tag", &["exchange"]),
    ("cycle", &["exchange"]),
    ("communicators", &["exchange"]),
    ("gone", &["exchange"]),
    ("sends", &["send_first"]),
    ("later", &["meet_later", "poll_nothing"]),
    ("split", &["divide", "exchange"]),
    // Which ranks take part in a call on a window is not known: nothing is said, also nothing wrong.
    ("epoch", &[]),
    ("unmet", &["meet", "exchange"]),
];

const HANGS_OF_CPP: [Hang; 8] = [
    ("cache", &["meet", "store::Cache<int>::refill"]),
    ("queue", &["meet", "store::Queue::pop"]),
    ("worker", &["meet", "Threaded::finish"]),
    ("future", &["meet", "await_answer"]),
    ("atomic", &["meet", "spin"]),
    ("stream", &["meet", "read_settings"]),
    ("destructor", &["meet", "Timer::~Timer"]),
    ("exception", &["meet", "recover"]),
];

const HANGS_OF_FORTRAN: [Hang; 7] = [
    ("ring", &["waits::exchange"]),
    ("input", &["waits::meet", "waits::read_input"]),
    ("loop", &["waits::meet", "waits::spin"]),
    ("sum", &["waits::meet", "waits::add_up"]),
    ("unsent", &["waits::meet", "waits::exchange"]),
    ("tool", &["waits::meet", "waits::run_tool"]),
    ("contained", &["waits::meet", "pause_between"]),
];

/// Jobs that hang beside each other; a spinning rank takes a CPU.
const BESIDE: usize = 4;

const RANKS: &str = "4";

/// Time a rank may be stopped, in the middle and in microseconds.
const STOPPED_US_MAX: u64 = 2000;

/// Programs that hang, in one language.
struct Programs {
    source: PathBuf,
    /// The line of each place, from the comments of the program.
    lines: BTreeMap<String, usize>,
}

impl Programs {
    fn new(name: &str, begin: &str) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name);
        let text = fs::read_to_string(&source).expect("the program's source");
        let place = |(number, line): (usize, &str)| {
            let (_, name) = line.split_once(begin)?;
            Some((name.split(' ').next()?.to_owned(), number + 1))
        };
        let lines = text.lines().enumerate().filter_map(place).collect();
        Self { source, lines }
    }

    fn c() -> Self {
        Self::new("hangs.c", "/* at: ")
    }

    /// `function` and `file:line`, as sentences have them.
    fn place(&self, function: &str) -> (String, String) {
        (function.to_owned(), format!("{}:{}", self.file(), self.lines[function]))
    }

    fn file(&self) -> &str {
        let name = self.source.file_name().and_then(|name| name.to_str());
        name.expect("a name in UTF-8")
    }

    /// The program, compiled with these options more.
    fn compiled(&self, compiler: &Path, folder: &Path, name: &str, options: &[&str]) -> PathBuf {
        let program = folder.join(name);
        let mut compile = Command::new(compiler);
        compile.current_dir(folder);
        if self.file().ends_with(".f90") {
            // mpicc calls this program.
            compile.env("MPICH_CC", "gfortran");
        }
        compile.args(["-O2", "-fomit-frame-pointer", "-pthread"]).args(options);
        compile.arg(&self.source).arg("-o").arg(&program);
        let status = compile.status().expect("a compiler");
        assert!(status.success(), "{compile:?}");
        program
    }

    /// Every line that sentences name, as `function() file:line`.
    fn named(&self, text: &str) -> Vec<(String, String)> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let pairs = words
            .windows(2)
            .filter(|pair| pair[0].ends_with("()") && pair[1].contains(self.file()));
        pairs
            .map(|pair| {
                (
                    pair[0].trim_end_matches("()").to_owned(),
                    pair[1].trim_end_matches([',', ';']).to_owned(),
                )
            })
            .collect()
    }

    /// The sentences about a hang once they name all places.
    fn explained(&self, cluster: &Cluster, mode: &str, expected: &[&str]) -> String {
        let mut text = String::new();
        let found = wait::within(Duration::from_secs(20), || {
            text = judgement(cluster, mode)
                .map(|one| places(&one).join("\n"))
                .unwrap_or_default();
            let said = self.named(&text);
            let is_whole = expected.iter().all(|place| said.contains(&self.place(place)));
            is_whole.then_some(())
        });
        assert!(found.is_some(), "{mode} is not explained: {text}");
        text
    }

    fn assert_no_wrong_line(&self, mode: &str, text: &str) {
        for (function, place) in self.named(text) {
            let is_right =
                place == self.file() || self.lines.contains_key(&function) && self.place(&function).1 == place;
            assert!(
                is_right || function == "main",
                "{mode}: {function} is not at {place}: {text}"
            );
        }
    }

    /// Each hang is explained; returns for how long ranks were stopped by looks.
    fn hang(&self, cluster: &Cluster, program: &Path, hangs: &[Hang]) -> Vec<u64> {
        let mut stopped = Vec::new();
        for group in hangs.chunks(BESIDE) {
            let jobs: Vec<_> = group.iter().map(|(mode, _)| start(cluster, program, mode)).collect();
            for (mode, expected) in group {
                let text = self.explained(cluster, mode, expected);
                println!("{mode}: {text}");
                self.assert_no_wrong_line(mode, &text);
                let is_debugged = text.contains("stopped by a debugger");
                assert_eq!(is_debugged, *mode == "debugger", "{text}");
                stopped.extend(stops(cluster, mode, 3));
            }
            for (running, (mode, _)) in jobs.into_iter().zip(group) {
                end(cluster, running, mode);
            }
        }
        stopped
    }
}

/// A file for each hang that reads a file without an end.
fn make_fifo(cluster: &Cluster, mode: &str) {
    let file = cluster.files().join(format!("{mode}.file"));
    let made = Command::new("mkfifo").arg(file).status();
    assert!(made.expect("mkfifo").success());
}

fn assert_stopped_briefly(mut stopped: Vec<u64>, looks: usize) {
    stopped.sort_unstable();
    let (median, longest) = (stopped[stopped.len() / 2], stopped[stopped.len() - 1]);
    println!(
        "a look stopped a rank for {median} us (median), {longest} us at most, of {}",
        stopped.len()
    );
    assert!(stopped.len() >= looks && median <= STOPPED_US_MAX);
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

fn end(cluster: &Cluster, running: Background, job: &str) {
    let outcome = cluster.run(&["kill", job]);
    assert!(outcome.status.success(), "{outcome:?}");
    running.end(Duration::from_secs(20));
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
    stops
}

#[test]
fn each_planted_hang_is_named_by_its_line_and_no_wrong_line_is() {
    let cluster = Cluster::up(2);
    let programs = Programs::c();
    let program = programs.compiled(&mpi_compiler("mpicc"), cluster.files(), "hangs", &["-g"]);
    make_fifo(&cluster, "fifo");
    let stopped = programs.hang(&cluster, &program, &HANGS_OF_C);
    assert_stopped_briefly(stopped, HANGS_OF_C.len() * 3);
    cluster.down();
}

#[test]
fn hangs_in_cpp_and_fortran_are_named_by_the_programs_own_functions() {
    let cluster = Cluster::up(2);
    for (file, begin, compiler, needs, fifo, hangs) in [
        ("hangs.cpp", "// at: ", "mpicxx", "g++", "stream", &HANGS_OF_CPP[..]),
        (
            "hangs.f90",
            "! at: ",
            "mpicc",
            "gfortran",
            "input",
            &HANGS_OF_FORTRAN[..],
        ),
    ] {
        if Command::new(needs).arg("--version").output().is_err() {
            cannot_run(&format!("there is no {needs}: install it"));
            continue;
        }
        let programs = Programs::new(file, begin);
        let program = programs.compiled(&mpi_compiler(compiler), cluster.files(), needs, &["-g"]);
        make_fifo(&cluster, fifo);
        let stopped = programs.hang(&cluster, &program, hangs);
        assert_stopped_briefly(stopped, hangs.len() * 3);
    }
    cluster.down();
}

/// Modes of the Python program, where rank 1 is, from the innermost frame on, and how many frames it has.
const PYTHON_HANGS: [(&str, &[&str], usize); 6] = [
    ("pipe", &["Reader.read_pipe", "main", "<module>"], 3),
    ("spin", &["spin"], 3),
    ("deep", &["descend"], 33),
    ("lock", &["take_twice"], 3),
    ("flock", &["lock_twice"], 3),
    ("generator", &["results", "add_results"], 4),
];

/// Hangs within the library of Python: the line of the program that called it is named.
const PYTHON_CALLERS: [(&str, &str); 2] = [("queue", "fetch"), ("tool", "run_tool")];

/// Where all others are.
const PYTHON_MEETS: &str = "meet.<locals>.wait";

/// Whether `python3` is one whose frames are read.
fn is_python_read() -> bool {
    let minor = "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))";
    Command::new("python3")
        .args(["-c", minor])
        .status()
        .is_ok_and(|status| status.success())
}

fn start_python(cluster: &Cluster, programs: &Programs, mode: &str) -> Background {
    let mut command = cluster.pcmctl(&["run", "-n", RANKS, "--name", mode, "--", "python3"]);
    Background::start(command.arg(&programs.source).arg(mode))
}

/// The sentences about a hang once they have all of these.
fn python_explained(cluster: &Cluster, mode: &str, said: &[String]) -> String {
    let mut text = String::new();
    let found = wait::within(Duration::from_secs(30), || {
        text = places(&judgement(cluster, mode)?).join("\n");
        said.iter().all(|place| text.contains(place)).then_some(())
    });
    println!("{mode}: {text}");
    assert!(found.is_some(), "{mode}: {said:?} is not in: {text}");
    text
}

/// Function and line of a frame of the Python program.
fn python_frame(frame: &Value, source: &Path) -> (String, usize) {
    let text = |name: &str| frame[name].as_str().unwrap_or_default();
    assert_eq!(Path::new(text("file")), source, "{frame}");
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
    let programs = Programs::new("hangs.py", "# at: ");
    let lines = &programs.lines;
    for (mode, function) in PYTHON_CALLERS {
        let running = start_python(&cluster, &programs, mode);
        let said = format!(", called by {function}() hangs.py:{}", lines[function]);
        python_explained(&cluster, mode, &[said]);
        end(&cluster, running, mode);
    }
    for (mode, expected, depth) in PYTHON_HANGS {
        let running = start_python(&cluster, &programs, mode);
        let said = [PYTHON_MEETS, expected[0]].map(|place| format!("in {place}() hangs.py:{}", lines[place]));
        let text = python_explained(&cluster, mode, &said);
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
                .map(|frame| python_frame(frame, &programs.source))
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
        assert_stopped_briefly(stops(&cluster, mode, 10), 40);
        end(&cluster, running, mode);
    }
    cluster.down();
}

#[test]
fn a_stripped_program_and_a_slow_one_get_no_line_that_is_wrong() {
    let cluster = Cluster::up(2);
    let (programs, compiler) = (Programs::c(), mpi_compiler("mpicc"));
    let stripped = programs.compiled(&compiler, cluster.files(), "stripped", &["-s"]);
    let running = start(&cluster, &stripped, "poll");
    let text = wait::until("the wait is seen", Duration::from_secs(20), || {
        let text = places(&judgement(&cluster, "poll")?).join("\n");
        text.contains("for rank 1").then_some(text)
    });
    assert!(text.contains("a function without a name of stripped"), "{text}");
    assert_eq!(programs.named(&text), [], "{text}");
    let tree = cluster.run(&["stacks", "poll"]).stdout;
    assert!(tree.contains("no debug information: compile with -g"), "{tree}");
    let one = cluster.run(&["stacks", "poll", "--rank", "1"]).stdout;
    assert!(one.contains("rank 1") && !one.contains("rank 0"), "{one}");
    let none = cluster.run(&["stacks", "poll", "--rank", "9"]);
    assert!(!none.status.success() && none.stderr.contains("no rank 9"), "{none:?}");
    end(&cluster, running, "poll");

    let program = programs.compiled(&compiler, cluster.files(), "slow", &["-g"]);
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
    let program = Programs::c().compiled(&mpi_compiler("mpicc"), cluster.files(), "hangs", &["-g"]);
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
