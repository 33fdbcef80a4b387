//! The text formats in which Prometheus and others take numbers: that of Prometheus, version 0.0.4, and OpenMetrics
//! 1.0. The names of samples are the same in both; those of counters end in `_total`. Pure.

use pcm_proto::control::{NodeState, NodeStatus};
use pcm_proto::event::Reconfigured;
use pcm_proto::job::{JobStatus, RankStatus};
use pcm_proto::time_use::TimeUse;
use pcm_view::dashboard::Format;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What the numbers are made of.
pub(super) struct Seen {
    pub(super) nodes: Vec<NodeStatus>,
    /// Those that run.
    pub(super) jobs: Vec<JobSeen>,
}

pub(super) struct JobSeen {
    pub(super) status: JobStatus,
    pub(super) ranks: Vec<RankStatus>,
    pub(super) changes: Vec<Reconfigured>,
}

type Labels<'a> = [(&'a str, &'a str)];

/// See the file head.
pub(super) fn write(seen: &Seen, format: Format) -> String {
    let mut text = String::new();
    nodes(&mut text, &seen.nodes);
    jobs(&mut text, &seen.jobs);
    ranks(&mut text, &seen.jobs);
    match format {
        Format::Prometheus => text,
        Format::OpenMetrics => in_families(&text) + "# EOF\n",
    }
}

/// OpenMetrics names a counter without the end that its samples have.
fn in_families(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("# ") {
        Some(head) => format!("# {}\n", head.replacen("_total ", " ", 1)),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

fn nodes(text: &mut String, nodes: &[NodeStatus]) {
    let mut each = |name: &str, help: &str, value: fn(&NodeStatus) -> f64| {
        head(text, name, "gauge", help);
        for node in nodes {
            sample(
                text,
                name,
                &[("node", node.name.as_str()), ("site", &node.site)],
                value(node),
            );
        }
    };
    each("pcm_node_up", "1 when the node answers and takes ranks.", |node| {
        f64::from(u8::from(node.state == NodeState::Up))
    });
    each("pcm_node_cpus", "CPUs of the node.", |node| node.cpus.len() as f64);
    each(
        "pcm_node_speed",
        "Speed relative to a fixed calibration loop.",
        |node| node.speed,
    );
    each(
        "pcm_node_load_by_others_cpus",
        "CPUs taken by others than its ranks.",
        |node| node.load_by_others,
    );
    each("pcm_node_ranks", "Ranks the node runs.", |node| f64::from(node.ranks));
    each("pcm_node_free_memory_bytes", "Free memory.", |node| {
        node.free_memory as f64
    });
    let lasting = nodes.iter().filter_map(|node| Some((node, node.ends?)));
    let lasting: Vec<_> = lasting.collect();
    if !lasting.is_empty() {
        let name = "pcm_node_left_seconds";
        head(text, name, "gauge", "Time until the node ends, where that is known.");
        for (node, end) in lasting {
            let labels = [("node", node.name.as_str()), ("site", node.site.as_str())];
            sample(text, name, &labels, end.left().as_secs_f64());
        }
    }
}

fn jobs(text: &mut String, jobs: &[JobSeen]) {
    let labels = |job: &JobSeen| [job.status.job.to_string(), job.status.name.clone()];
    let mut each = |name: &str, kind: &str, help: &str, value: &dyn Fn(&JobSeen) -> f64| {
        head(text, name, kind, help);
        for job in jobs {
            let [number, title] = labels(job);
            sample(text, name, &[("job_id", &number), ("job_name", &title)], value(job));
        }
    };
    each("pcm_job_ranks", "gauge", "Ranks of the job.", &|job| {
        f64::from(job.status.size)
    });
    each(
        "pcm_job_epoch",
        "gauge",
        "Layouts the job had before this one.",
        &|job| job.status.epoch.0 as f64,
    );
    each(
        "pcm_job_iterations_total",
        "counter",
        "Iterations all its ranks have begun.",
        &|job| job.ranks.iter().map(|rank| rank.iteration.0).min().unwrap_or(0) as f64,
    );
    let sum = |job: &JobSeen, of: fn(&Reconfigured) -> f64| job.changes.iter().map(of).sum::<f64>();
    each(
        "pcm_job_pause_seconds_total",
        "counter",
        "Time reconfigurations held the application, the longest of its ranks each.",
        &|job| sum(job, |done| done.pause_ms / 1000.0),
    );
    each(
        "pcm_job_moved_bytes_total",
        "counter",
        "Bytes of data moved by reconfigurations.",
        &|job| sum(job, |done| done.bytes_moved.0 as f64),
    );
    efficiencies(text, jobs);
    let name = "pcm_job_reconfigurations_total";
    head(text, name, "counter", "Reconfigurations that were committed, by plan.");
    for job in jobs {
        let [number, title] = labels(job);
        let mut plans: BTreeMap<&str, u32> = BTreeMap::new();
        for done in &job.changes {
            *plans.entry(&done.plan).or_default() += 1;
        }
        for (plan, count) in plans {
            let labels = [
                ("job_id", number.as_str()),
                ("job_name", title.as_str()),
                ("plan", plan),
            ];
            sample(text, name, &labels, f64::from(count));
        }
    }
}

/// Of the jobs that have measured an iteration.
fn efficiencies(text: &mut String, jobs: &[JobSeen]) {
    let known = jobs.iter().filter_map(|job| Some((job, per_iteration(&job.ranks)?)));
    let known: Vec<(&JobSeen, TimeUse)> = known.collect();
    if known.is_empty() {
        return;
    }
    let mut each = |name: &str, help: &str, value: fn(&TimeUse) -> f64| {
        head(text, name, "gauge", help);
        for (job, time_use) in &known {
            let number = job.status.job.to_string();
            let labels = [("job_id", number.as_str()), ("job_name", &job.status.name)];
            sample(text, name, &labels, value(time_use));
        }
    };
    each(
        "pcm_job_parallel_efficiency",
        "Mean useful time of the ranks as a part of an iteration: load balance times communication efficiency.",
        TimeUse::parallel,
    );
    each(
        "pcm_job_load_balance",
        "Mean useful time of the ranks as a part of the longest.",
        TimeUse::load_balance,
    );
    each(
        "pcm_job_communication_efficiency",
        "Longest useful time of a rank as a part of an iteration.",
        TimeUse::communication,
    );
}

fn per_iteration(ranks: &[RankStatus]) -> Option<TimeUse> {
    TimeUse::of(ranks.iter().map(|rank| (rank.useful_ms, rank.wait_ms)))
}

fn ranks(text: &mut String, jobs: &[JobSeen]) {
    let mut each = |name: &str, kind: &str, help: &str, value: fn(&RankStatus) -> f64| {
        head(text, name, kind, help);
        for job in jobs {
            let number = job.status.job.to_string();
            for row in &job.ranks {
                let rank = row.rank.to_string();
                let labels = [
                    ("job_id", number.as_str()),
                    ("rank", &rank),
                    ("node", row.node.as_str()),
                ];
                sample(text, name, &labels, value(row));
            }
        }
    };
    each(
        "pcm_rank_iterations_total",
        "counter",
        "Iterations the rank has begun.",
        |row| row.iteration.0 as f64,
    );
    each(
        "pcm_rank_useful_seconds",
        "gauge",
        "Time outside of MPI, mean of an iteration.",
        |row| row.useful_ms / 1000.0,
    );
    each(
        "pcm_rank_wait_seconds",
        "gauge",
        "Time in MPI, mean of an iteration.",
        |row| row.wait_ms / 1000.0,
    );
    each("pcm_rank_memory_bytes", "gauge", "Resident memory.", |row| {
        row.memory.0 as f64
    });
    each(
        "pcm_rank_sent_bytes_total",
        "counter",
        "Bytes sent point to point.",
        |row| row.sent.0 as f64,
    );
    each(
        "pcm_rank_received_bytes_total",
        "counter",
        "Bytes received point to point.",
        |row| row.received.0 as f64,
    );
    each(
        "pcm_rank_call_seconds",
        "gauge",
        "How long the present MPI call lasts.",
        |row| row.call_since_ms / 1000.0,
    );
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string does not fail.
    _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn sample(text: &mut String, name: &str, labels: &Labels<'_>, value: f64) {
    let labels = labels
        .iter()
        .map(|(label, value)| format!("{label}=\"{}\"", escape(value)));
    _ = writeln!(text, "{name}{{{}}} {value}", labels.collect::<Vec<_>>().join(","));
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use pcm_proto::ids::{Bytes, Epoch, Iteration, JobId, NodeName, ProcessId, Rank};
    use pcm_proto::job::JobState;
    use pcm_proto::layout::Mode;

    fn migrated() -> Reconfigured {
        Reconfigured {
            plan: "migrate".to_owned(),
            cause: String::new(),
            ranks_before: 1,
            ranks_after: 1,
            moved: Vec::new(),
            bytes_moved: Bytes(100),
            bytes_ahead: Bytes(0),
            pause_ms: 250.0,
            mode: Mode::Live,
            method: None,
            method_reason: None,
            placement: None,
            total_ms: 300.0,
            phases_ms: Vec::new(),
        }
    }

    pub(in super::super) fn rank() -> RankStatus {
        RankStatus {
            rank: Rank(0),
            process: ProcessId(1),
            node: NodeName::new("n0").unwrap(),
            pid: 12,
            iteration: Iteration(77),
            iterations_here: 10,
            useful_ms: 2.0,
            wait_ms: 1.5,
            memory: Bytes(300 << 20),
            iterations_declared: None,
            restored: Bytes(0),
            call: "Recv".to_owned(),
            call_since_ms: 500.0,
            peer: None,
            tag: None,
            bytes: None,
            sent: Bytes(10),
            received: Bytes(0),
            registered: Bytes(0),
            constant: Bytes(0),
        }
    }

    fn seen() -> Seen {
        let name = || NodeName::new("n0").unwrap();
        let node = NodeStatus {
            name: name(),
            address: String::new(),
            site: "here".to_owned(),
            cpus: vec![0, 1],
            state: NodeState::Up,
            speed: 1.5,
            load_by_others: 0.25,
            ranks: 1,
            free_memory: 4096,
            daemon_pid: 0,
            fabric: Default::default(),
            link: None,
            ends: Some(pcm_proto::node_end::NodeEnd {
                at_us: 0,
                left_ms: 90_500,
                leaves_ms: 60_000,
            }),
        };
        let status = JobStatus {
            job: JobId(3),
            name: "a \"b\"\\".to_owned(),
            state: JobState::Running,
            epoch: Epoch(2),
            size: 1,
            nodes: Vec::new(),
            started_us: 0,
            end: None,
            coordinator: name(),
            reign: 0,
            spares: Vec::new(),
        };
        Seen {
            nodes: vec![node],
            jobs: vec![JobSeen {
                status,
                ranks: vec![rank()],
                changes: vec![migrated(), migrated()],
            }],
        }
    }

    #[test]
    fn every_number_stands_under_its_head_with_escaped_labels() {
        let text = write(&seen(), Format::Prometheus);
        for line in [
            r#"pcm_node_up{node="n0",site="here"} 1"#,
            r#"pcm_node_load_by_others_cpus{node="n0",site="here"} 0.25"#,
            r#"pcm_node_left_seconds{node="n0",site="here"} 90.5"#,
            r#"pcm_job_iterations_total{job_id="3",job_name="a \"b\"\\"} 77"#,
            r#"pcm_job_reconfigurations_total{job_id="3",job_name="a \"b\"\\",plan="migrate"} 2"#,
            r#"pcm_job_pause_seconds_total{job_id="3",job_name="a \"b\"\\"} 0.5"#,
            r#"pcm_job_load_balance{job_id="3",job_name="a \"b\"\\"} 1"#,
            r#"pcm_rank_call_seconds{job_id="3",rank="0",node="n0"} 0.5"#,
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line} is missing in {text}");
        }
        let mut declared = "";
        for line in text.lines() {
            match line.strip_prefix("# TYPE ") {
                Some(rest) => declared = rest.split(' ').next().unwrap(),
                None if line.starts_with('#') => {}
                None => assert!(line.starts_with(&format!("{declared}{{")), "{line} under {declared}"),
            }
        }
    }

    #[test]
    fn samples_of_counters_have_their_end_and_openmetrics_names_families_without_it() {
        let [plain, open] = [Format::Prometheus, Format::OpenMetrics].map(|format| write(&seen(), format));
        let samples = |text: &str| text.lines().filter(|line| !line.starts_with('#')).collect::<String>();
        assert_eq!(samples(&plain), samples(&open));
        assert!(open.ends_with("\n# EOF\n") && !plain.contains("EOF"));
        let (mut family, mut kind, mut counters) = ("", "", 0);
        for line in open.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                (family, kind) = rest.split_once(' ').unwrap();
                counters += usize::from(kind == "counter");
            } else if !line.starts_with('#') {
                let end = if kind == "counter" { "_total{" } else { "{" };
                assert!(line.starts_with(&format!("{family}{end}")), "{line} in {family}");
            }
        }
        assert!(counters >= 7, "{open}");
    }

    #[test]
    fn the_page_about_watching_names_every_number() {
        let page = include_str!("../../../docs/watching.md");
        let text = write(&seen(), Format::Prometheus);
        let names = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        let missing: Vec<&str> = names.filter(|name| !page.contains(&format!("`{name}`"))).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn every_query_of_the_grafana_file_asks_for_numbers_and_labels_that_are_there() {
        let text = write(&seen(), Format::Prometheus);
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let board: serde_json::Value = serde_json::from_str(super::super::GRAFANA).expect("JSON");
        let panels = board["panels"].as_array().expect("panels");
        let targets = panels
            .iter()
            .flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
        let mut asked = std::collections::BTreeSet::new();
        for target in targets {
            let query = target["expr"].as_str().expect("a query");
            let names = query
                .split(|letter| !is_word(letter))
                .filter(|word| word.starts_with("pcm_"));
            let names: Vec<&str> = names.collect();
            assert!(!names.is_empty(), "{query}");
            for name in names {
                let sample = text.lines().find(|line| line.starts_with(&format!("{name}{{")));
                let sample = sample.unwrap_or_else(|| panic!("{name} of {query:?} is not there"));
                let legend = target["legendFormat"].as_str().unwrap_or_default();
                let labels = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
                for label in labels {
                    assert!(
                        sample.contains(&format!("{label}=\"")),
                        "{label} of {legend:?}: {sample}"
                    );
                }
                asked.insert(name.to_owned());
            }
        }
        let there = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        let unasked: Vec<&str> = there.filter(|name| !asked.contains(*name)).collect();
        assert_eq!(unasked, [""; 0], "numbers without a panel");
    }

    #[test]
    fn a_cluster_without_jobs_has_numbers_of_its_nodes() {
        let jobs = Vec::new();
        let text = write(&Seen { jobs, ..seen() }, Format::Prometheus);
        assert!(text.contains("pcm_node_up{") && !text.contains("job_id"));
    }
}
