//! Slurm by its command line, with fixed formats: its JSON has changed with nearly every release.

use super::{Allocation, Call, CoreJob, Helper, Joining, ResourceManager};
use pcm_proto::ids::NodeName;
use pcm_proto::node_end::{SLURM_ASKS, read_slurm_answer};
use std::ffi::OsString;
use std::time::Duration;

/// What a question may take; the clients themselves try for minutes.
const ANSWERS_WITHIN: Duration = Duration::from_secs(15);

/// The same where one can do without an answer.
const END_KNOWN_WITHIN: Duration = Duration::from_secs(5);

/// A job may wait for a busy controller before it is accepted.
const ACCEPTS_WITHIN: Duration = Duration::from_secs(60);

/// One task per node that sees all CPUs of the allocation there, shares them with other steps, and whose end ends no
/// other task.
const STEP: [&str; 7] = [
    "--overlap",
    "--no-kill",
    "--kill-on-bad-exit=0",
    "--wait=0",
    "--cpu-bind=none",
    "--mem=0",
    "--ntasks-per-node=1",
];

/// Account, quality of service, features, partition, time left.
const CORE_JOB_FORMAT: &str = "%a|%q|%f|%P|%L|%A";

/// See the file head.
#[derive(Clone, Copy, Debug)]
pub struct Slurm;

impl ResourceManager for Slurm {
    fn name(&self) -> &'static str {
        "Slurm"
    }

    fn allocation(&self, variable: &dyn Fn(&str) -> Option<String>) -> Option<Allocation> {
        let either = |one, other| variable(one).or_else(|| variable(other));
        Some(Allocation {
            job: either("SLURM_JOB_ID", "SLURM_JOBID")?,
            node_list: either("SLURM_JOB_NODELIST", "SLURM_NODELIST")?,
        })
    }

    fn ask_nodes(&self, allocation: &Allocation) -> Call {
        Call::new(
            ANSWERS_WITHIN,
            &["scontrol", "show", "hostnames", &allocation.node_list],
        )
    }

    fn read_nodes(&self, answer: &str) -> Result<Vec<NodeName>, String> {
        let names = answer.split_whitespace();
        let names = names.map(|name| NodeName::new(name).map_err(|error| format!("node name {name:?}: {error}")));
        let names: Vec<NodeName> = names.collect::<Result<_, _>>()?;
        if names.is_empty() {
            return Err("it names no node".to_owned());
        }
        Ok(names)
    }

    fn ask_end(&self, allocation: &Allocation) -> Call {
        let mut call = Call::new(END_KNOWN_WITHIN, &SLURM_ASKS);
        call.arguments.push(OsString::from(&allocation.job));
        call
    }

    fn read_end(&self, answer: &str, now_us: u64) -> Option<u64> {
        read_slurm_answer(answer, now_us)
    }

    fn start_daemons(&self, allocation: &Allocation, nodes: &[NodeName], joining: &Joining) -> Call {
        let count = nodes.len().to_string();
        let (job, tasks, width) = (
            format!("--jobid={}", allocation.job),
            format!("--ntasks={count}"),
            format!("--nodes={count}"),
        );
        let mut words = vec!["srun", &job, &width, &tasks, "--job-name=pcm-daemons", "--export=ALL"];
        words.extend(STEP);
        let mut call = Call::new(ANSWERS_WITHIN, &words);
        call.arguments.extend(join(joining));
        let first = nodes
            .first()
            .map(|node| [OsString::from("--begin-at"), node.as_str().into()]);
        call.arguments.extend(first.into_iter().flatten());
        call
    }

    fn ask_core_job(&self, job: &str) -> Call {
        Call::new(
            ANSWERS_WITHIN,
            &["squeue", "--noheader", "--jobs", job, "--format", CORE_JOB_FORMAT],
        )
    }

    fn read_core_job(&self, answer: &str) -> Result<CoreJob, String> {
        let line = answer.lines().next().unwrap_or_default();
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [account, qos, features, partition, time_left, job] = fields[..] else {
            return Err(format!("{line:?} has not the fields {CORE_JOB_FORMAT}"));
        };
        let known = |field: &str| match field {
            "(null)" | "N/A" | "UNLIMITED" | "NOT_SET" | "INVALID" => String::new(),
            known => known.to_owned(),
        };
        Ok(CoreJob {
            job: job.to_owned(),
            account: known(account),
            qos: known(qos),
            features: known(features),
            partition: known(partition),
            time_left: known(time_left),
        })
    }

    fn submit_helper(&self, core: &CoreJob, joining: &Joining, helper: &Helper<'_>) -> Call {
        let comment = match helper.scavenges {
            false => format!("one more node for job {} (pcmctl grow)", core.job),
            true => format!("a node that is idle, for job {} (pcmctl grow --scavenge)", core.job),
        };
        let log = joining.cluster_dir.join("nodes/helper-%j.log");
        let mut call = Call::new(
            ACCEPTS_WITHIN,
            &["sbatch", "--parsable", "--nodes=1", "--ntasks-per-node=1"],
        );
        let shared = [
            ("--job-name", &helper_name(&core.job)),
            ("--comment", &comment),
            ("--account", &core.account),
            ("--qos", &core.qos),
            ("--constraint", &core.features),
            ("--partition", &core.partition),
            ("--time", &core.time_left),
        ];
        for (name, value) in shared.into_iter().filter(|(_, value)| !value.is_empty()) {
            call.arguments.push(format!("{name}={value}").into());
        }
        for name in ["--output=", "--error="] {
            let mut word = OsString::from(name);
            word.push(&log);
            call.arguments.push(word);
        }
        if helper.scavenges {
            call.arguments
                .extend(["--requeue", "--open-mode=append"].map(OsString::from));
        }
        // The last of two says what counts.
        call.arguments.extend(helper.options.iter().map(OsString::from));
        let step = helper_step(joining);
        call.input = Some(match helper.scavenges {
            false => format!("#!/bin/sh\nexec {step}\n"),
            true => SCAVENGER.replace("STEP", &step),
        });
        call.is_for_another_job = true;
        call
    }

    fn read_helper(&self, answer: &str) -> Result<String, String> {
        // With several clusters it is JOB;CLUSTER.
        let job = answer.trim().split(';').next().unwrap_or_default();
        let is_number = !job.is_empty() && job.bytes().all(|byte| byte.is_ascii_digit());
        if is_number {
            Ok(job.to_owned())
        } else {
            Err(format!("{answer:?} is no number of a job"))
        }
    }

    fn cancel_waiting_helpers(&self, job: &str) -> Call {
        let name = format!("--name={}", helper_name(job));
        Call::new(ANSWERS_WITHIN, &["scancel", "--me", "--state=PENDING", &name])
    }
}

/// What helpers of a job are called, in `squeue` and where they are cancelled.
fn helper_name(job: &str) -> String {
    format!("pcm-grow-{job}")
}

fn join(joining: &Joining) -> [OsString; 4] {
    [
        joining.daemon.clone().into(),
        "join".into(),
        "--cluster".into(),
        joining.cluster_dir.clone().into(),
    ]
}

/// The step is the job: signals to the job reach the daemon, and the job ends when the daemon does.
fn helper_step(joining: &Joining) -> String {
    let words: Vec<String> = join(joining)
        .iter()
        .map(|word| quoted(&word.to_string_lossy()))
        .collect();
    format!("srun --export=ALL {} {}", STEP.join(" "), words.join(" "))
}

/// A daemon that left because of a notice ends with 75. The job still runs then if the notice is a preemption's or its
/// time limit's: it would count as ended well, so it goes back into the queue. One that is cancelled is cancelled.
const SCAVENGER: &str = r#"#!/bin/sh
trap : TERM
STEP &
step=$!
while wait $step; code=$?; kill -0 $step 2>/dev/null; do :; done
if [ $code = 75 ] && [ "$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T)" = RUNNING ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
"#;

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joining() -> Joining {
        Joining {
            daemon: "/opt/pcm/pcm-daemon".into(),
            cluster_dir: "/home/me/it's here".into(),
        }
    }

    #[test]
    fn an_allocation_is_found_by_the_variables_of_a_job_only() {
        let of = |set: &'static [(&str, &str)]| {
            let variable = |name: &str| {
                set.iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| (*value).to_owned())
            };
            Slurm.allocation(&variable)
        };
        let found = of(&[("SLURM_JOB_ID", "17"), ("SLURM_JOB_NODELIST", "v[1-3]")]).unwrap();
        assert_eq!((found.job.as_str(), found.node_list.as_str()), ("17", "v[1-3]"));
        assert_eq!(of(&[("SLURM_CONF", "/etc/slurm.conf"), ("SLURM_JOB_ID", "17")]), None);
    }

    #[test]
    fn names_of_nodes_come_one_a_line() {
        let names = Slurm.read_nodes("v1\nv2\nv10\n").unwrap();
        assert_eq!(
            names.iter().map(NodeName::as_str).collect::<Vec<_>>(),
            ["v1", "v2", "v10"]
        );
        assert!(Slurm.read_nodes("\n").is_err());
    }

    /// As squeue of 22.05 printed them.
    #[test]
    fn a_helper_shares_what_the_job_was_given_and_nothing_that_it_was_not() {
        let core = Slurm.read_core_job("(null)|normal|(null)|work|1:58:30|42\n").unwrap();
        let helper = Helper {
            options: &["--time=5".to_owned()],
            ..Helper::default()
        };
        let call = Slurm.submit_helper(&core, &joining(), &helper);
        let shown = call.shown();
        assert!(
            shown.contains("--qos=normal --partition=work --time=1:58:30"),
            "{shown}"
        );
        assert!(
            !shown.contains("--account") && !shown.contains("--constraint"),
            "{shown}"
        );
        assert!(shown.ends_with("--time=5") && call.is_for_another_job, "{shown}");
        let unlimited = Slurm.read_core_job("a|(null)|gpu|work|UNLIMITED|42").unwrap();
        assert!(
            !Slurm
                .submit_helper(&unlimited, &joining(), &Helper::default())
                .shown()
                .contains("--time")
        );
        assert!(Slurm.read_core_job("").is_err());
    }

    #[test]
    fn a_helper_survives_a_quote_in_the_name_of_the_directory() {
        for scavenges in [false, true] {
            let helper = Helper {
                scavenges,
                ..Helper::default()
            };
            let call = Slurm.submit_helper(&CoreJob::default(), &joining(), &helper);
            let script = call.input.clone().expect("a script");
            let step = "'/opt/pcm/pcm-daemon' 'join' '--cluster' '/home/me/it'\\''s here'";
            assert!(script.contains(step), "{script}");
            assert_eq!(script.contains("scontrol requeue"), scavenges, "{script}");
            assert_eq!(call.shown().contains("--requeue"), scavenges);
        }
    }

    #[test]
    fn a_helper_has_a_number() {
        assert_eq!(Slurm.read_helper("128\n").unwrap(), "128");
        assert_eq!(Slurm.read_helper("128;east\n").unwrap(), "128");
        assert!(Slurm.read_helper("").is_err());
    }

    #[test]
    fn one_step_starts_all_daemons_and_one_of_them_begins() {
        let nodes = Slurm.read_nodes("v1\nv2\n").unwrap();
        let allocation = Allocation {
            job: "17".to_owned(),
            node_list: "v[1-2]".to_owned(),
        };
        let shown = Slurm.start_daemons(&allocation, &nodes, &joining()).shown();
        assert!(shown.starts_with("srun --jobid=17 --nodes=2 --ntasks=2 "), "{shown}");
        assert!(
            shown.contains("--overlap --no-kill --kill-on-bad-exit=0 --wait=0"),
            "{shown}"
        );
        assert!(shown.ends_with("--begin-at v1"), "{shown}");
    }
}
