//! A running `pcm-moving` whose ranks a bench moves, and what each change did. Must never outlive the bench.

use super::events;
use pcm_bench::{Failure, OwnCluster, running::Running, trial};
use pcm_view::time::now_us;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    process::Stdio,
    sync::mpsc::{Receiver, sync_channel},
    thread,
    time::Duration,
};

/// The job's name where a bench names none.
const JOB: &str = "moving";

/// A change of a gigabyte on a loaded machine takes seconds.
const CHANGE_MAX: Duration = Duration::from_secs(120);

/// Between two looks whether all iterate.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The program ends by itself after this, whatever becomes of the bench.
const LIFE_SECONDS: &str = "600";

pub(super) struct Watched<'a> {
    bench: &'static str,
    cluster: &'a OwnCluster<'a>,
    name: String,
    /// Ends with the bench.
    _running: Running,
    lines: Receiver<String>,
}

/// What the job is to be.
#[derive(Default)]
pub(super) struct Wanted<'a> {
    /// Its name, where there are several.
    pub(super) name: Option<&'a str>,
    pub(super) ranks: u32,
    /// Nodes it may use at first; empty for all.
    pub(super) nodes: &'a str,
    /// Size of the whole array.
    pub(super) mib: u64,
    /// Sleep in each iteration.
    pub(super) sleep_us: u32,
    /// Steps of work in each iteration.
    pub(super) work: u64,
    /// Arguments behind these: the kind of data, and whether MPI alone is to do each growth again.
    pub(super) more: &'a [&'a str],
}

/// What a change did.
pub(super) struct Change {
    /// What `pcmctl` said.
    pub(super) done: Value,
    /// When it was asked for, in microseconds since 1970.
    pub(super) asked_us: u64,
    /// Between the first and the last rank, afterwards; zero when there is only one, or no data.
    pub(super) bytes_per_second: f64,
    /// Ends of the first rank's iterations before it, in microseconds since 1970.
    pub(super) stamps: Vec<u64>,
    /// The line of the program.
    pub(super) said: String,
}

impl<'a> Watched<'a> {
    /// Starts it and waits until every rank iterates.
    pub(super) fn start(
        bench: &'static str,
        cluster: &'a OwnCluster<'a>,
        program: &std::path::Path,
        wanted: &Wanted<'_>,
    ) -> Result<Self, Failure> {
        let name = wanted.name.unwrap_or(JOB);
        let mut command = cluster.pcmctl(&["run", "--name", name, "-n", &wanted.ranks.to_string()]);
        if !wanted.nodes.is_empty() {
            command.args(["--nodes", wanted.nodes]);
        }
        command.arg("--").arg(program);
        command.args([
            wanted.mib.to_string(),
            wanted.sleep_us.to_string(),
            wanted.work.to_string(),
        ]);
        command
            .arg(LIFE_SECONDS)
            .args(wanted.more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut running = Running::start(&mut command)?;
        // A change says one line.
        let (say, lines) = sync_channel(16);
        let stdout = running.0.stdout.take();
        thread::spawn(move || {
            let lines = stdout.into_iter().flat_map(|out| BufReader::new(out).lines());
            for line in lines.map_while(Result::ok) {
                if say.send(line).is_err() {
                    return;
                }
            }
        });
        let this = Self {
            bench,
            cluster,
            name: name.to_owned(),
            _running: running,
            lines,
        };
        this.wait_until_it_iterates(wanted.ranks)?;
        Ok(this)
    }

    fn wait_until_it_iterates(&self, ranks: u32) -> Result<(), Failure> {
        let what = format!("an iteration of {}", self.name);
        trial::until(self.bench, &what, (LOOK_EVERY, CHANGE_MAX), || {
            let rows = events::ranks(self.cluster, &self.name);
            let running = rows.iter().filter(|row| row["iteration"].as_u64() > Some(2)).count();
            Ok((running == ranks as usize).then_some(()))
        })
    }

    fn problem(&self, problem: String) -> Failure {
        Failure::bench(self.bench, problem)
    }

    /// Changes it by a verb of `pcmctl` and hears what the program says afterwards.
    pub(super) fn change(&self, verb: &str, arguments: &[&str]) -> Result<Change, Failure> {
        let mut command = self.cluster.pcmctl(&[verb, &self.name, "--json"]);
        command.args(arguments);
        let asked_us = now_us();
        let said = trial::run(self.bench, command, CHANGE_MAX)?;
        let done = serde_json::from_str(&said)
            .map_err(|error| Failure::answer(&format!("pcmctl {verb}"), format!("{error} in {:?}", said)))?;
        let line = self.lines.recv_timeout(CHANGE_MAX);
        let name = &self.name;
        let line = line.map_err(|_| self.problem(format!("{name} did not go on after {verb} {arguments:?}")))?;
        let (bytes_per_second, stamps) =
            look_at(&line).ok_or_else(|| self.problem(format!("wrong data or no sense after {verb}: {line:.200}")))?;
        Ok(Change {
            done,
            asked_us,
            bytes_per_second,
            stamps,
            said: line,
        })
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let _ = self
            .cluster
            .pcmctl(&["kill", &self.name])
            .stdout(Stdio::null())
            .status();
    }
}

impl Change {
    /// A number of what `pcmctl` said.
    pub(super) fn number(&self, name: &str) -> Result<f64, Failure> {
        self.done[name]
            .as_f64()
            .ok_or_else(|| Failure::answer("pcmctl", format!("no number {name:?} in {}", self.done)))
    }

    /// Milliseconds of each phase.
    pub(super) fn phases(&self) -> BTreeMap<String, f64> {
        let phases = self.done["phases_ms"].as_object().into_iter().flatten();
        phases
            .filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)))
            .collect()
    }
}

/// `changed ranks N wrong W bandwidth B stamps T T …`; nothing when an element is wrong.
fn look_at(line: &str) -> Option<(f64, Vec<u64>)> {
    let mut words = line.split(' ');
    let mut after = |name: &str| words.find(|word| *word == name).and_then(|_| words.next());
    if after("wrong")? != "0" {
        return None;
    }
    let bandwidth = after("bandwidth")?.parse().ok()?;
    let stamps = words.filter_map(|word| word.parse().ok()).collect();
    Some((bandwidth, stamps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_wrong_elements_is_no_sample() {
        let line = "changed ranks 4 wrong 0 bandwidth 2500 stamps 10 20 31";
        assert_eq!(look_at(line), Some((2500.0, vec![10, 20, 31])));
        assert_eq!(look_at(&line.replace("wrong 0", "wrong 1")), None);
        assert_eq!(look_at("heat2d"), None);
    }
}
