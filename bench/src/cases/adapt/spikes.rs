//! Bench `adapt-spikes`: how long after a load comes to a node its rank computes elsewhere.

use super::{
    super::{
        bench::{Bench, Context},
        events,
    },
    field::Field,
};
use pcm_bench::{Failure, Ratio, Report, Samples, heat2d, trial};
use pcm_view::time::now_us;
use std::{
    thread,
    time::{Duration, Instant},
};

pub(super) const BENCH: Bench = Bench {
    name: "adapt-spikes",
    about: "load spikes on the nodes of three jobs: seconds until the rank computes elsewhere",
    run,
};

/// Each has a rank and two nodes.
const JOBS: usize = 3;

/// Within this the rank is to compute elsewhere.
const TARGET_S: f64 = 3.0;

/// What a spike's answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// A change is an event this long after it is to be seen.
const TOLD_WITHIN: Duration = Duration::from_secs(2);

/// Between two spikes of a job; a load that comes back sooner is one that alternates.
const BETWEEN: Duration = Duration::from_millis(8_500);

fn run(context: &Context) -> Result<Report, Failure> {
    let spikes = if context.quick { 2 } else { 10 };
    let field = Field::up(&context.environment, BENCH.name, &[1.0; 2 * JOBS])?;
    for job in 0..JOBS {
        start(context, &field, job)?;
    }
    thread::sleep(Duration::from_secs(5));
    let results = thread::scope(|scope| {
        let field = &field;
        let jobs: Vec<_> = (0..JOBS)
            .map(|job| scope.spawn(move || series(field, job, spikes)))
            .collect();
        let join = |job: thread::ScopedJoinHandle<'_, _>| job.join().expect("nothing in it panics");
        jobs.into_iter().map(join).collect::<Result<Vec<Series>, Failure>>()
    })?;
    field.down()?;
    let mut samples = Samples::new("adapt-spikes: load to computing elsewhere", "s");
    let answered = results.iter().flat_map(|series| &series.answered);
    answered.for_each(|seconds| samples.push(*seconds));
    let missed = JOBS * spikes - samples.values.len();
    let mut remarks = vec![format!(
        "{} spikes of two processes each, every {} s or so; until the change is committed",
        JOBS * spikes,
        BETWEEN.as_secs()
    )];
    remarks.extend(results.into_iter().flat_map(|series| series.told));
    let ratio = |name: &str, value, target| Ratio::new(format!("adapt-spikes: {name}"), value, target);
    Ok(Report {
        ratios: vec![
            ratio(
                "p95 of seconds until it computes elsewhere",
                samples.quantile(0.95),
                "<= 3",
            ),
            ratio("spikes it did not leave", missed as f64, "0"),
        ],
        series: vec![samples],
        remarks,
        ..Report::default()
    })
}

fn name(job: usize) -> String {
    format!("spiked{job}")
}

fn start(context: &Context, field: &Field<'_>, job: usize) -> Result<(), Failure> {
    let nodes = format!("n{},n{}", 2 * job, 2 * job + 1);
    let (name, policy) = (["--name", &name(job)], ["--policy", "cost", "--detach"]);
    let options = [&["-n", "1", "--nodes", &nodes][..], &name, &policy].concat();
    let mut command = field.ours(&options, &[context.program("heat2d-c").display().to_string()]);
    command.args(heat2d::plate(1500, 1500, heat2d::ENDLESS));
    trial::run(BENCH.name, command, ANSWER_MAX).map(|_| ())
}

fn place(field: &Field<'_>, job: usize) -> Option<usize> {
    let ranks = events::ranks(&field.cluster, &name(job));
    ranks.first()?["node"].as_str()?.strip_prefix('n')?.parse().ok()
}

/// The spikes of one job.
#[derive(Default)]
struct Series {
    /// Seconds until each that was answered was.
    answered: Vec<f64>,
    /// What was decided meanwhile, for those that were answered late or not at all.
    told: Vec<String>,
}

fn series(field: &Field<'_>, job: usize, spikes: usize) -> Result<Series, Failure> {
    // Not all at once: they share two CPUs.
    thread::sleep(BETWEEN.mul_f64(job as f64 / JOBS as f64));
    let mut series = Series::default();
    for spike in 0..spikes {
        let Some(before) = place(field, job) else { continue };
        let begun_us = now_us() as f64;
        let load = field.load(before, 2)?;
        let begun = Instant::now();
        while begun.elapsed() < ANSWER_MAX && place(field, job).is_none_or(|now| now == before) {
            thread::sleep(Duration::from_millis(200));
        }
        let answered_s = change_after(field, job, begun_us)?.map(|ended_us| (ended_us - begun_us) / 1e6);
        series.answered.extend(answered_s);
        if answered_s.is_none_or(|seconds| seconds > TARGET_S) {
            let what = answered_s.map_or("was not left".to_owned(), |seconds| {
                format!("was left after {seconds:.1} s")
            });
            let why = decisions(field, job, begun_us)?;
            series
                .told
                .push(format!("spike {spike} of {} {what}: {why}", name(job)));
        }
        drop(load);
        thread::sleep(BETWEEN);
    }
    Ok(series)
}

/// What was decided since a time, and when after it.
fn decisions(field: &Field<'_>, job: usize, since_us: f64) -> Result<String, Failure> {
    let told = events::of(&field.cluster, &name(job), "decision")?;
    let lines = told.iter().filter_map(|event| {
        let after_s = (events::time_us(event)? - since_us) / 1e6;
        let (chosen, reason) = (event["chosen"].as_str().unwrap_or("nothing"), event["reason"].as_str()?);
        (after_s > -10.0).then(|| format!("after {after_s:.1} s {chosen}: {reason}"))
    });
    Ok(lines.collect::<Vec<_>>().join("; "))
}

/// When the first change after a time was committed. Of a job that is elsewhere the event may still be on its way.
fn change_after(field: &Field<'_>, job: usize, begun_us: f64) -> Result<Option<f64>, Failure> {
    let asked = Instant::now();
    loop {
        // Not by their number: of a job's events the newest are kept.
        let changes = events::of(&field.cluster, &name(job), "reconfigured")?;
        let mut ends_us = changes.iter().filter_map(events::time_us);
        let found = ends_us.find(|ended_us| *ended_us > begun_us);
        if found.is_some() || asked.elapsed() > TOLD_WITHIN {
            return Ok(found);
        }
        thread::sleep(Duration::from_millis(100));
    }
}
