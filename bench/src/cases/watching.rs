//! Bench `watching`: what it costs a job to be looked at. One job of heat2d in C; its iterations per second are counted
//! in windows that alternate: unwatched, and under `top`, an open dashboard and metrics every second; or with every MPI
//! call traced. The watchers run on the CPUs of the job, which is the worst place for them.

use super::{
    bench::{Bench, Context, run_all},
    cpu_taken, events,
    interleave::{self, Variant},
};
use pcm_bench::{Failure, OwnCluster, Ratio, Report, Samples, heat2d, running::Running, trial};
use serde_json::Value;
use std::{
    cell::RefCell,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// The parts; each takes less than four minutes.
pub(super) const PARTS: [Bench; 2] = [
    Bench {
        name: "watching-shown",
        about: "iterations per second of a job under top, dashboard and metrics, against unwatched",
        run: shown,
    },
    Bench {
        name: "watching-traced",
        about: "iterations per second of a job of which every MPI call is traced, against unwatched",
        run: traced,
    },
];

pub(super) const BENCH: Bench = Bench {
    name: "watching",
    about: "all benches watching-*, one after the other",
    run: |context| run_all(&PARTS, context),
};

const JOB: &str = "watched";

const RANKS: u32 = 2;

/// Rows and columns: about 10,000 MPI calls a second and rank on a machine of 2026, of which the figure is printed.
const SIDE: u32 = 800;

/// Any answer of `pcmctl` comes far sooner.
const LIMIT: Duration = Duration::from_secs(60);

/// What watchers need to come up; an unwatched window begins as late.
const SETTLED_AFTER: Duration = Duration::from_millis(700);

/// Pairs of windows: the ratio of one pair scatters by some hundredths on a machine that others share, its median by
/// less than what is asked for.
const PAIRS: usize = 28;

fn shown(context: &Context) -> Result<Report, Failure> {
    let (cluster, _job) = watched(context)?;
    let watch = |window, taken: &Taken| {
        let _watchers = Watchers::start(&cluster)?;
        rate(&cluster, window, taken)
    };
    let series = compared(context, &cluster, "top, dashboard, metrics", watch)?;
    Ok(report(series, "under top, dashboard and metrics", ">= 0.995"))
}

fn traced(context: &Context) -> Result<Report, Failure> {
    let (cluster, _job) = watched(context)?;
    let file = std::env::temp_dir().join(format!("pcm-xtask-{}.trace.json", std::process::id()));
    let mut calls = 0.0;
    let trace = |window: Duration, taken: &Taken| {
        let mut command = cluster.pcmctl(&["trace", JOB, "--json", "--seconds"]);
        command.arg((window + SETTLED_AFTER + Duration::from_secs(1)).as_secs().to_string());
        let mut tracing = quiet(command.arg("--out").arg(&file).stdout(Stdio::piped()))?;
        let rate = rate(&cluster, window, taken)?;
        calls = calls_per_second(&mut tracing)? / f64::from(RANKS);
        Ok(rate)
    };
    let series = compared(context, &cluster, "traced", trace);
    // It may not have come to be.
    let _ = std::fs::remove_file(&file);
    let mut report = report(series?, "traced", ">= 0.97");
    report
        .remarks
        .push(format!("traced: {calls:.0} MPI calls a second and rank"));
    Ok(report)
}

/// A cluster with a job that iterates.
fn watched(context: &Context) -> Result<(OwnCluster<'_>, Running), Failure> {
    let cluster = OwnCluster::up(&context.environment, 1)?;
    let mut command = cluster.pcmctl(&["run", "-n", &RANKS.to_string(), "--name", JOB, "--"]);
    command.arg(context.program("heat2d-c"));
    let job = quiet(command.args(heat2d::plate(SIDE, SIDE, heat2d::ENDLESS)))?;
    let every = Duration::from_millis(50);
    trial::until(BENCH.name, "an iteration", (every, LIMIT), || {
        Ok(iteration(&cluster).ok())
    })?;
    Ok((cluster, job))
}

/// Per cent of a CPU that the cluster's programs took in each window.
type Taken = RefCell<Vec<f64>>;

/// Windows of one job, watched and not, in turn; then what the cluster's programs took in each.
fn compared(
    context: &Context,
    cluster: &OwnCluster<'_>,
    name: &str,
    mut watch: impl FnMut(Duration, &Taken) -> Result<f64, Failure>,
) -> Result<Vec<Samples>, Failure> {
    let taken = [Taken::default(), Taken::default()];
    let (window, rounds) = if context.quick { (1, 3) } else { (2, PAIRS) };
    let window = Duration::from_secs(window);
    let mut variants = [
        Variant::new("unwatched", || rate(cluster, window, &taken[0])),
        Variant::new(name, || watch(window, &taken[1])),
    ];
    let mut series = interleave::rounds(&mut variants, rounds, "it/s")?;
    drop(variants);
    for (taken, of) in taken.into_iter().zip(["unwatched", name]) {
        let mut samples = Samples::new(format!("CPU of pcmctl, daemon and agent, {of}"), "%");
        // The first window of each is for warming up.
        samples.values = taken.into_inner().split_off(1);
        series.push(samples);
    }
    Ok(series)
}

fn report(series: Vec<Samples>, name: &str, target: &'static str) -> Report {
    let ratio = |name: String, value| Ratio::new(name, value, target);
    let more = (series[3].median() - series[2].median()) / 100.0;
    Report {
        ratios: vec![
            ratio(format!("{name} / unwatched, speed"), series[1].paired_ratio(&series[0])),
            ratio(
                format!("{name}, if the job stood still for all CPU time taken"),
                1.0 - more,
            ),
        ],
        series,
        remarks: vec![
            "heat2d, two ranks, windows of one job in turn; medians of paired ratios; who watches shares the job's \
             CPUs"
                .into(),
            "the speed scatters by far more than what is asked for; CPU time is exact, and the worst it can do is \
             shown"
                .into(),
        ],
        ..Report::default()
    }
}

fn problem(problem: String) -> Failure {
    Failure::bench(BENCH.name, problem)
}

/// The iteration all ranks have begun.
fn iteration(cluster: &OwnCluster<'_>) -> Result<u64, Failure> {
    let ranks = events::ranks(cluster, JOB);
    let least = ranks.iter().filter_map(|row| row["iteration"].as_u64()).min();
    least
        .filter(|least| *least > 10)
        .ok_or_else(|| problem(format!("no iterations in {ranks:?}")))
}

/// Iterations per second over a window, once all that watches has come up.
fn rate(cluster: &OwnCluster<'_>, window: Duration, taken: &Taken) -> Result<f64, Failure> {
    thread::sleep(SETTLED_AFTER);
    let marks = cluster.marks();
    let moment = || -> Result<(u64, Instant), Failure> {
        let iteration = iteration(cluster)?;
        Ok((iteration, Instant::now()))
    };
    let (first, since) = moment()?;
    let before = cpu_taken::so_far(&cpu_taken::PROGRAMS, &marks);
    thread::sleep(window);
    let nanoseconds = cpu_taken::between(&before, &cpu_taken::so_far(&cpu_taken::PROGRAMS, &marks));
    taken
        .borrow_mut()
        .push(nanoseconds as f64 / window.as_nanos() as f64 * 100.0);
    let (last, until) = moment()?;
    Ok(last.saturating_sub(first) as f64 / (until - since).as_secs_f64())
}

/// A program that says nothing on the terminal.
fn quiet(command: &mut Command) -> Result<Running, Failure> {
    Running::start(command.stdin(Stdio::null()).stderr(Stdio::null()))
}

/// Waits for a trace to end by itself.
fn calls_per_second(tracing: &mut Running) -> Result<f64, Failure> {
    let mut said = String::new();
    if let Some(mut out) = tracing.0.stdout.take() {
        let read = out.read_to_string(&mut said);
        read.map_err(|error| problem(error.to_string()))?;
    }
    let summary: Value = serde_json::from_str(&said).unwrap_or_default();
    match (summary["calls"].as_f64(), summary["seconds"].as_f64()) {
        (Some(calls), Some(seconds)) if calls > 0.0 => Ok(calls / seconds),
        _ => Err(problem(format!("the trace recorded nothing: {said:?}"))),
    }
}

/// All that looks at the job at once.
struct Watchers {
    _programs: Vec<Running>,
    is_over: Arc<AtomicBool>,
}

impl Watchers {
    fn start(cluster: &OwnCluster<'_>) -> Result<Self, Failure> {
        let mut serving = quiet(cluster.pcmctl(&["dashboard", JOB]).stdout(Stdio::piped()))?;
        let mut address = String::new();
        if let Some(out) = serving.0.stdout.take() {
            // Its first line is its only one.
            let read = BufReader::new(out).read_line(&mut address);
            read.map_err(|error| problem(format!("the dashboard: {error}")))?;
        }
        let (authority, query) = address
            .trim()
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once('/'))
            .map(|(authority, query)| (authority.to_owned(), query.to_owned()))
            .ok_or_else(|| problem(format!("the dashboard said {address:?}")))?;
        let is_over = Arc::new(AtomicBool::new(false));
        for (path, every) in [("/stream", None), ("/metrics", Some(Duration::from_secs(1)))] {
            let request = format!("GET {path}{query} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
            let (authority, is_over) = (authority.clone(), Arc::clone(&is_over));
            thread::spawn(move || {
                while !is_over.load(Relaxed) {
                    read_all(&authority, &request, &is_over);
                    thread::sleep(every.unwrap_or(Duration::from_millis(100)));
                }
            });
        }
        // `top` wants a terminal; `script` of util-linux makes one.
        let top = cluster.pcmctl(&["top"]);
        let words: Vec<String> = std::iter::once(top.get_program())
            .chain(top.get_args())
            .map(|word| format!("'{}'", word.to_string_lossy()))
            .collect();
        let mut script = Command::new("script");
        script
            .args(["-qec", &words.join(" "), "/dev/null"])
            .stdout(Stdio::null());
        script.env("TERM", "xterm");
        for (name, value) in top.get_envs() {
            if let Some(value) = value {
                script.env(name, value);
            }
        }
        let top = quiet(&mut script)?;
        Ok(Self {
            _programs: vec![serving, top],
            is_over,
        })
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}

/// Reads an answer until its end or until it is to stop, as a browser would.
fn read_all(authority: &str, request: &str, is_over: &AtomicBool) {
    let Ok(mut stream) = TcpStream::connect(authority) else {
        return;
    };
    if stream.set_read_timeout(Some(Duration::from_millis(500))).is_err()
        || stream.write_all(request.as_bytes()).is_err()
    {
        return;
    }
    let mut piece = [0; 65536];
    while !is_over.load(Relaxed) {
        match stream.read(&mut piece) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) => {}
            Err(_) => return,
        }
    }
}
