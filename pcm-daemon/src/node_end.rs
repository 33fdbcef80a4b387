//! When this node ends: told by an option or a variable, set by Slurm, or asked of Slurm once.

use anyhow::{Context, anyhow};
use pcm_proto::node_end::{
    END_VARIABLE, NEVER, NodeEnd, SLURM_ASKS, SLURM_END_VARIABLE, read_end, read_slurm_answer, read_slurm_variable,
};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Names the seconds before its end at which a node brings its ranks elsewhere, where they are not [`LEAVES`]; set for
/// `pcmctl up`.
const LEAVES_VARIABLE: &str = "PCM_LEAVE_SECONDS";

/// Most changes take a few seconds; one that takes longer than this is known to its user, who sets the variable.
const LEAVES: Duration = Duration::from_secs(60);

/// More than a day before its end a node is as good as one that does not end.
const LEAVES_SECONDS_MAX: f64 = 86_400.0;

/// What Slurm may take to answer; without an answer the end is not known.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What the keeper and its daemons are to find in [`END_VARIABLE`], for a node that is started now; none leaves the
/// variable as it is. `option` is what the command line says.
pub(crate) fn for_keeper(
    option: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<String>, String> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let given = match option {
        Some(text) => Some(("--ends", text.to_owned())),
        None => set(END_VARIABLE).map(|text| (END_VARIABLE, text)),
    };
    if let Some((name, text)) = given {
        let end = read_end(&text).map_err(|error| format!("{name}: {error}"))?;
        return match end {
            Some(at) if at <= now_us() => Err(format!("{name}: {text:?} is over: a node that begins ends later")),
            _ => Ok(Some(text)),
        };
    }
    let job = set("SLURM_JOB_ID").filter(|_| set(SLURM_END_VARIABLE).is_none());
    Ok(job.map(|job| match ask_slurm(&job) {
        Some(at) => (at / 1_000_000).to_string(),
        None => NEVER.to_owned(),
    }))
}

/// When a job of Slurm ends; none where it does not say, or not in time.
fn ask_slurm(job: &str) -> Option<u64> {
    let [program, arguments @ ..] = SLURM_ASKS;
    let mut client = Command::new(program)
        .args(arguments)
        .arg(job)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let until = Instant::now() + ANSWERS_WITHIN;
    while client.try_wait().ok()?.is_none() {
        if Instant::now() >= until {
            let _ = client.kill();
            let _ = client.wait();
            return None;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    let mut answer = String::new();
    // One line of one job.
    let answered = client.stdout.take()?.take(4096).read_to_string(&mut answer);
    answered.ok().and_then(|_| read_slurm_answer(&answer, now_us()))
}

/// When the node of this daemon ends, as of now.
pub(crate) fn of_daemon(variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Option<NodeEnd>> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let now_us = now_us();
    let leaves = leaves(set(LEAVES_VARIABLE))?;
    let at_us = match set(END_VARIABLE) {
        Some(text) => read_end(&text).map_err(|error| anyhow!("{END_VARIABLE}: {error}"))?,
        None => set(SLURM_END_VARIABLE).and_then(|text| read_slurm_variable(&text, now_us)),
    };
    Ok(at_us.map(|at_us| NodeEnd {
        at_us,
        left_ms: at_us.saturating_sub(now_us) / 1000,
        leaves_ms: u64::try_from(leaves.as_millis()).unwrap_or(u64::MAX),
    }))
}

fn leaves(given: Option<String>) -> anyhow::Result<Duration> {
    let Some(text) = given else { return Ok(LEAVES) };
    let seconds: Option<f64> = text.trim().parse().ok();
    let seconds = seconds.filter(|seconds| (0.0..=LEAVES_SECONDS_MAX).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .with_context(|| format!("{LEAVES_VARIABLE}: {text:?} is none of 0 to {LEAVES_SECONDS_MAX} seconds"))
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: &str = "2999-01-01T00:00:00Z";

    fn keeper(option: Option<&str>, set: &[(&str, &str)]) -> Result<Option<String>, String> {
        for_keeper(option, |name| value(set, name))
    }

    fn value(set: &[(&str, &str)], name: &str) -> Option<String> {
        set.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn the_option_goes_before_the_variable_and_that_before_what_slurm_sets() {
        let set = [(END_VARIABLE, "never"), (SLURM_END_VARIABLE, "32503680000")];
        assert_eq!(keeper(Some(FAR), &set).unwrap().as_deref(), Some(FAR));
        assert_eq!(keeper(None, &set).unwrap().as_deref(), Some("never"));
        let slurm = [(SLURM_END_VARIABLE, "1"), ("SLURM_JOB_ID", "7")];
        assert_eq!(keeper(None, &slurm).unwrap(), None, "Slurm is not asked");
        assert_eq!(keeper(None, &[]).unwrap(), None);
    }

    #[test]
    fn a_bad_end_is_refused_with_its_name() {
        for (option, set, names) in [
            (Some("soon"), &[][..], "--ends: \"soon\""),
            (Some("1000000000"), &[], "is over"),
            (None, &[(END_VARIABLE, "12:00")], "PCM_NODE_ENDS: \"12:00\""),
        ] {
            let refused = keeper(option, set).unwrap_err();
            assert!(refused.contains(names), "{refused}");
        }
        let daemon = |set: &[(&str, &str)]| of_daemon(|name| value(set, name));
        let refused = format!("{:#}", daemon(&[(END_VARIABLE, "x")]).unwrap_err());
        assert!(refused.contains("PCM_NODE_ENDS: \"x\" is no time"), "{refused}");
        for bad in ["-1", "x", "nan", "1e9"] {
            let refused = format!("{:#}", daemon(&[(LEAVES_VARIABLE, bad)]).unwrap_err());
            assert!(refused.contains("PCM_LEAVE_SECONDS"), "{refused}");
        }
    }

    #[test]
    fn a_daemon_counts_what_is_left_by_its_own_clock() {
        let now_s = now_us() / 1_000_000;
        let of = |set: &[(&str, &str)]| of_daemon(|name| value(set, name)).unwrap();
        let text = (now_s + 600).to_string();
        for name in [END_VARIABLE, SLURM_END_VARIABLE] {
            let end = of(&[(name, &text), (LEAVES_VARIABLE, "2.5")]).unwrap();
            assert!((590_000..=600_000).contains(&end.left_ms), "{end:?}");
            assert_eq!((end.at_us, end.leaves_ms), ((now_s + 600) * 1_000_000, 2500));
        }
        // A daemon that is started again after the end of its node; a job that Slurm lets run on.
        assert_eq!(of(&[(END_VARIABLE, "1000")]).unwrap().left_ms, 0);
        assert_eq!(of(&[(SLURM_END_VARIABLE, "1000")]), None);
        assert_eq!(of(&[(END_VARIABLE, "never"), (SLURM_END_VARIABLE, &text)]), None);
    }
}
