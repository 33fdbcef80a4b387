//! Examples in a plain and a malleable version, run as a user does: both compute the same, and the malleable one does
//! under changes, kill -9 of ranks, and a restart from files. `PCM_CHAOS_ROUNDS` (`cargo xtask
//! test system --rounds N`) asks for another number of changes, `PCM_CHAOS_SEED` for others.

use crate::{
    asked,
    background::Background,
    binaries::{built, mpiexec},
    cluster::{Cluster, LIMIT},
    limited::{self, Outcome},
    processes,
    skip::cannot_run,
    wait,
};
use pcm_proto::random::Random;
use rustix::process::Signal;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

pub const NODES: usize = 4;
const RANKS_MAX: usize = 6;

/// Changes of a program's job in a normal run. They take a third of a second each, a second in Python, so that fifty
/// fit into the time that a run may take.
pub const MANY_CHANGES: u64 = 50;

/// The same for a program that is no example.
pub const SOME_CHANGES: u64 = 6;

/// So many changes bring one more kill.
const CHANGES_PER_KILL: u64 = 25;

/// One change of so many is asked for as a relaunch.
const RELAUNCH_ONE_IN: usize = 6;

/// Where ranks are killed in changes: in one of so many, and when.
const KILL_ONE_IN: usize = 5;
const KILL_WITHIN_MS: usize = 120;

/// What is said of shares that change nothing.
const MOVES_NOTHING: [&str; 2] = ["nothing would move", "no array of the program follows shares"];

/// What is said where a job comes to its end before a change.
const ENDS: &str = "the job is ending";

/// Pause of a rank in each iteration.
const SLEEP: Duration = Duration::from_millis(10);

/// How long a job may take after its last change: 30 s alone on two cores, ten times that where others compute.
const END_LIMIT: Duration = Duration::from_secs(480);

/// Relative difference of results that are not the same bit for bit.
const TOLERANCE: f64 = 1e-9;

/// An example, built.
pub struct Example {
    pub name: &'static str,
    pub plain: Vec<OsString>,
    pub malleable: Vec<OsString>,
    /// The arguments for so many iterations with such a pause.
    pub arguments: fn(&Path, u64, Duration) -> Vec<String>,
    pub variables: Vec<(&'static str, OsString)>,
    /// Changes of one job in a normal run.
    pub changes: u64,
    /// Iterations for one change or kill: each takes as long as some tens of iterations, and a new rank that is a
    /// Python program begins a second or two after it is asked for.
    pub iterations_each: u64,
    pub is_exact: bool,
    /// Its checkpoints have a custom region that gives data of one rank to several.
    pub restarts_on_the_same_number: bool,
    /// Of `pcmctl run`.
    pub options: &'static [&'static str],
}

/// A line at its end.
#[derive(Debug)]
pub struct Closing {
    pub iterations: u64,
    pub ranks: usize,
    pub checksum: String,
}

pub fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(path)
}

pub fn mpi_compiler(name: &str) -> PathBuf {
    let mpicc = env::var_os("MPICC").map_or_else(|| PathBuf::from("mpicc"), PathBuf::from);
    mpicc.with_file_name(name)
}

pub fn micros(pause: Duration) -> String {
    pause.as_micros().to_string()
}

impl Example {
    /// What it prints under plain mpiexec.
    pub fn under_mpiexec(&self, program: &[OsString], folder: &Path, ranks: usize, iterations: u64) -> Closing {
        let mut command = Command::new(mpiexec());
        // Ranks outnumber CPUs; the default collectives then take milliseconds.
        command.env("MPIR_CVAR_COLL_SHM_LIMIT_PER_NODE", "0");
        command.args(["-n", &ranks.to_string()]).args(program);
        command.args((self.arguments)(folder, iterations, Duration::ZERO));
        command.envs(self.variables.iter().cloned()).current_dir(folder);
        let outcome = limited::run(&mut command, END_LIMIT);
        assert!(outcome.status.success(), "{outcome:?}");
        self.closing(&outcome.stdout)
    }

    /// The last closing line. After a crash between one and the end it comes again, and must be the same.
    fn closing(&self, stdout: &str) -> Closing {
        let begin = format!("{}: iterations ", self.name);
        let lines: Vec<String> = stdout
            .lines()
            .filter_map(|line| line.strip_prefix(&begin))
            .map(without_seconds)
            .collect();
        assert!(lines.windows(2).all(|pair| pair[0] == pair[1]), "{stdout}");
        let words: Vec<&str> = lines.last().map_or("", String::as_str).split(' ').collect();
        let [iterations, "ranks", ranks, "checksum", checksum] = words[..] else {
            panic!("no closing line of {} in:\n{stdout}", self.name);
        };
        Closing {
            iterations: iterations.parse().expect("a number"),
            ranks: ranks.parse().expect("a number"),
            checksum: checksum.to_owned(),
        }
    }

    fn assert_same(&self, found: &Closing, expected: &Closing) {
        assert_eq!(found.iterations, expected.iterations);
        if self.is_exact {
            assert_eq!(found.checksum, expected.checksum, "{}", self.name);
            return;
        }
        let number = |closing: &Closing| closing.checksum.parse::<f64>().expect("a number");
        let difference = (number(found) - number(expected)).abs() / number(expected).abs();
        assert!(difference <= TOLERANCE, "{}: {found:?}, {expected:?}", self.name);
    }
}

pub fn compile(compiler: &mut Command) {
    let outcome = limited::run(compiler, LIMIT);
    assert!(outcome.status.success(), "{compiler:?}: {outcome:?}");
}

/// What Python needs to find the package pcm, mpi4py, numpy and the libraries; None, which says so, where they are not
/// there.
pub fn for_python() -> Option<Vec<(&'static str, OsString)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tools = root.join(".tools");
    let paths = [root.join("python"), tools.join("mpi4py/lib"), tools.join("numpy")];
    if let Some(missing) = paths.iter().find(|path| !path.exists()) {
        let missing = missing.display();
        cannot_run(&format!(
            "{missing} is not there: it comes from PyPI with `cargo xtask test`"
        ));
        return None;
    }
    let mpi = env::var_os("PCM_MPI_LIB").map(PathBuf::from);
    let mpi = mpi.expect("PCM_MPI_LIB is not set: test through `cargo xtask test`");
    let own = built("libpcm.so");
    let libraries = [mpi, own.parent().expect("a folder").to_owned()];
    Some(vec![
        ("PYTHONPATH", env::join_paths(paths).expect("paths")),
        ("PYTHONDONTWRITEBYTECODE", "1".into()),
        ("PCM_SPARES", "2".into()),
        ("LD_LIBRARY_PATH", env::join_paths(libraries).expect("paths")),
    ])
}

/// A node of every rank of the cluster's first job, and its process.
pub fn ranks(cluster: &Cluster) -> Vec<(String, u32)> {
    let rank = |rank: &Value| {
        Some((
            rank["node"].as_str()?.to_owned(),
            u32::try_from(rank["pid"].as_u64()?).ok()?,
        ))
    };
    wait::until("the ranks of the job", LIMIT, || {
        let told: Value = serde_json::from_str(&cluster.run(&["ps", "1", "--json"]).stdout).ok()?;
        let ranks: Vec<_> = told["ranks"].as_array()?.iter().filter_map(rank).collect();
        (!ranks.is_empty()).then_some(ranks)
    })
}

/// A change that is possible.
fn change(random: &mut Random, ranks: &[(String, u32)]) -> Vec<String> {
    let count = ranks.len();
    let words = match random.index(4) {
        0 if count < RANKS_MAX => {
            let to = count + 1 + random.index(RANKS_MAX - count);
            format!("expand 1 --to {to}")
        }
        1 if count > 1 => format!("shrink 1 --to {}", 1 + random.index(count - 1)),
        2 if count > 1 => {
            let shares: Vec<String> = ranks.iter().map(|_| (1 + random.index(4)).to_string()).collect();
            format!("rebalance 1 --shares {}", shares.join(","))
        }
        _ => {
            let rank = random.index(count);
            let others = (0..NODES).map(|node| format!("n{node}"));
            let others: Vec<String> = others.filter(|node| *node != ranks[rank].0).collect();
            format!("migrate 1 --rank {rank} --to {}", others[random.index(others.len())])
        }
    };
    let mode = if random.index(RELAUNCH_ONE_IN) == 0 {
        " --mode relaunch"
    } else {
        ""
    };
    format!("{words}{mode}").split(' ').map(str::to_owned).collect()
}

/// A rank is killed while the job changes: the change may be done before, or given up.
fn change_and_kill(cluster: &Cluster, change: &[&str], random: &mut Random) -> Outcome {
    wait_for_a_checkpoint(cluster);
    let ranks = ranks(cluster);
    let (rank, after) = (random.index(ranks.len()), random.index(KILL_WITHIN_MS) as u64);
    eprintln!("kill -9 of rank {rank} after {after} ms");
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(after));
            processes::send(ranks[rank].1, Signal::KILL);
        });
        cluster.run(change)
    })
}

fn wait_for_a_checkpoint(cluster: &Cluster) {
    wait::until("a checkpoint", LIMIT, || {
        let made = cluster.events(Some("1"), "checkpoint_complete");
        (!made.is_empty()).then_some(())
    });
}

/// Waits until every rank iterates; false where the job has come to its end instead.
fn iterates(cluster: &Cluster, job: &Background) -> bool {
    let look = || {
        if job.stdout().contains(" checksum ") {
            return Some(false);
        }
        cluster.is_iterating("1").then_some(true)
    };
    let found = wait::within(LIMIT, look);
    found.unwrap_or_else(|| panic!("the ranks do not iterate\n{}\n{}", job.stderr(), cluster.logs()))
}

fn kill_a_rank(cluster: &Cluster, random: &mut Random, is_rank_0: bool) {
    let recovered = || cluster.events(Some("1"), "recovered").len();
    let before = recovered();
    wait_for_a_checkpoint(cluster);
    // One that is just being replaced is gone.
    wait::until("a rank to kill", LIMIT, || {
        let ranks = ranks(cluster);
        let rank = if is_rank_0 { 0 } else { random.index(ranks.len()) };
        eprintln!("kill -9 of rank {rank}");
        processes::send(ranks[rank].1, Signal::KILL).then_some(())
    });
    wait::until("the job to recover", LIMIT, || (recovered() > before).then_some(()));
}

/// Newest complete checkpoint in files.
fn newest_checkpoint(directory: &Path) -> String {
    let entries = fs::read_dir(directory).expect("a directory of checkpoints").flatten();
    let made = entries.map(|entry| entry.path());
    let newest = made.filter(|path| path.join("SEAL").is_file() && !path.to_string_lossy().contains(".partial-"));
    let newest = newest.max().expect("a checkpoint in files");
    newest.to_str().expect("UTF-8").to_owned()
}

/// The numbers of each line of a log, with the last word that was written for them: iterations after a crash or restart
/// are written again.
fn log(folder: &Path) -> BTreeMap<Vec<u64>, String> {
    let text = fs::read_to_string(folder.join("log")).expect("a log");
    let entry = |line: &str| {
        let (numbers, word) = line.rsplit_once(' ')?;
        let numbers = numbers.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        Some((numbers, word.to_owned()))
    };
    text.lines()
        .map(|line| entry(line).unwrap_or_else(|| panic!("{line:?}")))
        .collect()
}

/// The time differs when a job that crashed at its end prints its closing line again.
fn without_seconds(line: &str) -> String {
    match line.split_once(" seconds ") {
        Some((before, after)) => format!("{before} {}", after.split_once(' ').map_or("", |(_, rest)| rest)),
        None => line.to_owned(),
    }
}

/// What happens to a job.
pub struct Course {
    pub changes: u64,
    pub seed: u64,
    /// Ranks are killed during changes, too.
    pub kills_in_changes: bool,
}

/// Changes and kills at random, the last one of rank 0, then a restart from files: result and log are those of the
/// undisturbed plain program.
pub fn assert_survives(example: &Example, cluster: Cluster) {
    let course = Course {
        changes: asked::number("PCM_CHAOS_ROUNDS").unwrap_or(example.changes),
        seed: asked::number("PCM_CHAOS_SEED").unwrap_or(1),
        kills_in_changes: false,
    };
    assert_survives_all(example, cluster, &course);
}

/// The same, on such a course.
pub fn assert_survives_all(example: &Example, cluster: Cluster, course: &Course) {
    let folder = cluster.files().to_owned();
    let Course { changes, seed, .. } = *course;
    let kills = 1 + changes / CHANGES_PER_KILL;
    let iterations = (changes + 2 * kills) * example.iterations_each;
    let expected = example.under_mpiexec(&example.plain, &folder, 1, iterations);
    let expected_log = folder.join("log").exists().then(|| log(&folder));

    let kept = folder.join("kept");
    let mut command = cluster.pcmctl(&["run", "-n", "3", "--checkpoint-every", "0.3", "--checkpoint-dir"]);
    command
        .arg(&kept)
        .args(example.options)
        .arg("--")
        .args(&example.malleable)
        .args((example.arguments)(&folder, iterations, SLEEP));
    command.envs(example.variables.iter().cloned()).current_dir(&folder);
    let job = Background::start(&mut command);
    let mut random = Random::new(seed);
    let (mut done, mut not_made, mut was_killed) = (0, 0, false);
    // Where others compute, a job can come to its end before the last change.
    while done < changes && iterates(&cluster, &job) {
        let change = change(&mut random, &ranks(&cluster));
        eprintln!("{}: {}", example.name, change.join(" "));
        let words: Vec<&str> = change.iter().map(String::as_str).collect();
        let is_killed = course.kills_in_changes && random.index(KILL_ONE_IN) == 0;
        let outcome = if is_killed {
            change_and_kill(&cluster, &words, &mut random)
        } else {
            cluster.run(&words)
        };
        // A job that is coming back from a kill refuses a change, and a kill in a change can end that.
        was_killed |= is_killed;
        let is_refused = MOVES_NOTHING.iter().any(|text| outcome.stderr.contains(text));
        let is_refused = is_refused || outcome.stderr.contains(ENDS) || (was_killed && !outcome.stderr.is_empty());
        if !outcome.status.success() {
            println!("not made: {}", outcome.stderr.trim_end());
            not_made += 1;
        }
        assert!(
            outcome.status.success() || is_refused,
            "{outcome:?}\n{}\n{}",
            job.stdout(),
            job.stderr()
        );
        let kill = (done + 1) * kills / changes;
        if !is_killed && kill > done * kills / changes && iterates(&cluster, &job) {
            kill_a_rank(&cluster, &mut random, kill == kills);
        }
        done += 1;
    }
    println!(
        "{}: {done} of {changes} changes asked for, {not_made} of them not made",
        example.name
    );
    assert!(2 * done >= changes, "the job has ended\n{}", job.stderr());
    let outcome = job.end(END_LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    example.assert_same(&example.closing(&outcome.stdout), &expected);
    assert_eq!(expected_log, folder.join("log").exists().then(|| log(&folder)));

    assert_restarts(example, &cluster, (&newest_checkpoint(&kept), &expected), &mut random);
    cluster.down();
}

fn assert_restarts(
    example: &Example,
    cluster: &Cluster,
    (checkpoint, expected): (&str, &Closing),
    random: &mut Random,
) {
    let made_by = cluster.json(&["checkpoints", "show", checkpoint])["ranks"]
        .as_u64()
        .expect("a number") as usize;
    for on in restarts(example, made_by, random) {
        let mut command = cluster.pcmctl(&["restart", checkpoint, "-n", &on.to_string()]);
        command.envs(example.variables.iter().cloned());
        let outcome = limited::run(&mut command, END_LIMIT);
        assert!(outcome.status.success(), "from {made_by} ranks on {on}: {outcome:?}");
        let closing = example.closing(&outcome.stdout);
        example.assert_same(&closing, expected);
        assert_eq!(closing.ranks, on);
    }
}

/// The numbers of ranks to restart on: another than that of the checkpoint, or all when more is asked for.
fn restarts(example: &Example, made_by: usize, random: &mut Random) -> Vec<usize> {
    if example.restarts_on_the_same_number {
        return vec![made_by];
    }
    if asked::number("PCM_CHAOS_ROUNDS").is_some() {
        return (1..=RANKS_MAX).collect();
    }
    vec![1 + (made_by + random.index(RANKS_MAX - 1)) % RANKS_MAX]
}

/// The malleable version under mpiexec is a plain program, and both compute the same on any number of ranks.
pub fn assert_agrees(example: &Example, folder: &Path) {
    let expected = example.under_mpiexec(&example.plain, folder, 1, 3);
    for program in [&example.plain, &example.malleable] {
        for ranks in [2, 3] {
            let found = example.under_mpiexec(program, folder, ranks, 3);
            assert_eq!(found.ranks, ranks);
            example.assert_same(&found, &expected);
        }
    }
    let more = example.under_mpiexec(&example.plain, folder, 1, 4);
    assert_ne!(more.checksum, expected.checksum, "another result has another checksum");
}
