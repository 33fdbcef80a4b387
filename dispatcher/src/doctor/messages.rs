//! Checks of the MPI in use under real daemons: which library, how fast messages are, whether worlds meet and part.

use super::finding::Finding;
use super::patient::{Patient, Said};
use crate::{chosen_mpi, installed};
use serde_json::Value;
use std::path::Path;

/// How often two worlds meet and part.
const MEET_ROUNDS: &str = "20";

/// Half round trips above these are far from what was measured on two shared cores, and so worth a look.
const INSIDE_LATENCY_MAX_US: f64 = 20.0;
const BETWEEN_LATENCY_MAX_US: f64 = 100.0;

/// A meeting that takes longer holds up every reconfiguration.
const MEET_MEAN_MAX_MS: f64 = 100.0;

/// What Intel MPI says of itself first.
const INTEL: &str = "Intel(R) MPI Library";

/// Runs the probe inside a world and between two, and says what it found.
pub(crate) async fn check(patient: &Patient) -> Vec<Finding> {
    let Some(probe) = installed::part("pcm-probe") else {
        return vec![Finding::broken(
            "MPI",
            "pcm-probe is not beside pcmctl",
            "build it with 'cargo xtask build'",
        )];
    };
    let mut findings = inside(&patient.pcmctl(arguments("2", &[], &probe, &[])).await);
    let file = patient.folder().join(format!(".probe-port-{}", std::process::id()));
    let port = file.display().to_string();
    // Without libpcm, to see what MPI itself can do; a named MPI comes only with it.
    let bare: &[&str] = match chosen_mpi::is_named() {
        true => &[],
        false => &["--no-preload"],
    };
    let accepting = patient.pcmctl(arguments("1", bare, &probe, &["accept", &port, MEET_ROUNDS]));
    let connecting = patient.pcmctl(arguments("1", bare, &probe, &["connect", &port, MEET_ROUNDS]));
    let (accepted, connected) = tokio::join!(accepting, connecting);
    // Written by the accepting side; not there where it failed before.
    let _ = std::fs::remove_file(&file);
    findings.extend(between(&accepted, &connected));
    findings
}

fn arguments(ranks: &str, options: &[&str], probe: &Path, rest: &[&str]) -> Vec<String> {
    let words = ["run", "-n", ranks]
        .into_iter()
        .chain(options.iter().copied())
        .chain(["--"])
        .map(str::to_owned);
    words
        .chain([probe.display().to_string()])
        .chain(rest.iter().map(|&word| word.to_owned()))
        .collect()
}

/// The value of a key in the probe's lines.
fn said(text: &str, key: &str) -> Option<Value> {
    let documents = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    documents.filter_map(|document| document.get(key).cloned()).next()
}

fn why(said: &Said) -> String {
    said.stderr.lines().last().unwrap_or("no output").to_owned()
}

fn inside(run: &Said) -> Vec<Finding> {
    let (Some(library), Some(speed)) = (said(&run.stdout, "library"), said(&run.stdout, "inside")) else {
        let found = format!("a program of two ranks did not run: {}", why(run));
        return vec![Finding::broken(
            "MPI",
            found,
            "see 'pcmctl logs'; PCM_MPI chooses another MPI",
        )];
    };
    vec![version(&library), inside_speed(&library, &speed)]
}

fn version(library: &Value) -> Finding {
    let text = library["version"].as_str().unwrap_or_default();
    let path = library["path"].as_str().unwrap_or("?");
    if text.starts_with(INTEL) {
        let name = text.split(" for ").next().unwrap_or(text);
        return Finding::ok("MPI", format!("{name}, {path}"));
    }
    if !text.contains("MPICH Version:") {
        let name: String = text.chars().take(60).collect();
        let advice = "not tried with this release: what works is said below ('between worlds', 'worlds meet')";
        return Finding::warning("MPI", format!("{name}, {path}"), advice);
    }
    mpich(library, text, path)
}

fn mpich(library: &Value, text: &str, path: &str) -> Finding {
    let word_after = |name: &str| {
        text.split(name)
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next())
            .unwrap_or("?")
    };
    let device = text
        .split("Device:")
        .nth(1)
        .and_then(|rest| rest.split("MPICH").next())
        .unwrap_or("?")
        .trim();
    let netmod = match (library["netmod"].as_str(), library["provider"].as_str()) {
        (Some(netmod), Some(provider)) if !netmod.is_empty() && !provider.is_empty() => {
            format!("{netmod} over {provider}")
        }
        (Some(netmod), _) if !netmod.is_empty() => netmod.to_owned(),
        _ => "the library's default".to_owned(),
    };
    let found = format!(
        "MPICH {}, device {device}, netmod {netmod}, {path}",
        word_after("MPICH Version:")
    );
    if netmod.starts_with("ucx") {
        return Finding::warning(
            "MPI",
            found,
            "MPI_ANY_SOURCE across worlds can hang with UCX: unset MPIR_CVAR_CH4_NETMOD",
        );
    }
    Finding::ok("MPI", found)
}

/// `0.8 µs, 6.1 GB/s` and the half round trip.
fn speed_text(speed: &Value) -> (String, f64) {
    let number = |key: &str| speed[key].as_f64().unwrap_or(f64::NAN);
    let latency = number("latency_us");
    (
        format!(
            "{latency:.1} µs for a byte, {:.1} GB/s for 4 MiB",
            number("bandwidth_gb_s")
        ),
        latency,
    )
}

fn inside_speed(library: &Value, speed: &Value) -> Finding {
    const NAME: &str = "inside a world";
    let (text, latency) = speed_text(speed);
    if library["shared_memory"] != true {
        let found = format!("{text}, over the network although both ranks are on one machine");
        return Finding::warning(
            NAME,
            found,
            "see that /dev/shm is the same for all nodes of this machine",
        );
    }
    if latency > INSIDE_LATENCY_MAX_US {
        return Finding::warning(
            NAME,
            format!("{text}, over shared memory"),
            "slow: is the machine busy?",
        );
    }
    Finding::ok(NAME, format!("{text}, over shared memory"))
}

fn between(accepted: &Said, connected: &Said) -> Vec<Finding> {
    let failed = if accepted.succeeded { connected } else { accepted };
    let Some(speed) = said(&accepted.stdout, "between") else {
        let found = format!("two worlds could not meet: {}", why(failed));
        let advice = "reconfiguration will restart jobs from memory instead; see 'pcmctl logs' and the settings below";
        return vec![Finding::broken("between worlds", found, advice)];
    };
    let (text, latency) = speed_text(&speed);
    let speed = if latency > BETWEEN_LATENCY_MAX_US {
        Finding::warning(
            "between worlds",
            format!("{text}, over the netmod"),
            "slow: is the machine busy?",
        )
    } else {
        Finding::ok("between worlds", format!("{text}, over the netmod"))
    };
    vec![speed, meeting(accepted, failed), any_source(accepted)]
}

fn meeting(accepted: &Said, failed: &Said) -> Finding {
    const NAME: &str = "worlds meet";
    let advice = "reconfiguration will restart jobs from memory instead; another MPI can be chosen with PCM_MPI";
    let Some(meet) = said(&accepted.stdout, "meet") else {
        return Finding::broken(
            NAME,
            format!("{MEET_ROUNDS} rounds did not end: {}", why(failed)),
            advice,
        );
    };
    if let Some(round) = meet["failed_in_round"].as_u64() {
        return Finding::broken(
            NAME,
            format!("accept or connect failed in round {round} of {MEET_ROUNDS}"),
            advice,
        );
    }
    let number = |key: &str| meet[key].as_f64().unwrap_or(f64::NAN);
    let (mean, worst) = (number("mean_ms"), number("worst_ms"));
    let found = format!("{MEET_ROUNDS} of {MEET_ROUNDS} times, {mean:.1} ms on average, {worst:.1} ms at worst");
    if mean > MEET_MEAN_MAX_MS {
        return Finding::warning(
            NAME,
            found,
            "slow: each reconfiguration waits for it; is the machine busy?",
        );
    }
    Finding::ok(NAME, found)
}

fn any_source(accepted: &Said) -> Finding {
    const NAME: &str = "MPI_ANY_SOURCE";
    match said(&accepted.stdout, "any_source") {
        Some(Value::Bool(true)) => Finding::ok(NAME, "a message from another world arrives"),
        _ => Finding::broken(
            NAME,
            "a message from another world did not arrive",
            "use the OFI netmod: unset MPIR_CVAR_CH4_NETMOD, or set it to ofi",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    fn run(stdout: &str) -> Said {
        Said {
            succeeded: true,
            stdout: stdout.to_owned(),
            stderr: String::new(),
        }
    }

    const LIBRARY: &str = concat!(
        r#"{"inside":{"latency_us":0.8,"bandwidth_gb_s":6.1}}"#,
        "\n",
        r#"{"library":{"version":"MPICH Version:      5.0.2 MPICH Device:       ch4:ucx ofi MPICH configure: x","#,
        r#""path":"/l/libmpi.so.12","shared_memory":true,"netmod":"ofi","provider":"tcp"}}"#
    );

    #[test]
    fn a_sound_mpi_is_described() {
        let findings = inside(&run(LIBRARY));
        assert_eq!(
            findings[0].found,
            "MPICH 5.0.2, device ch4:ucx ofi, netmod ofi over tcp, /l/libmpi.so.12"
        );
        assert_eq!(
            findings[1].found,
            "0.8 µs for a byte, 6.1 GB/s for 4 MiB, over shared memory"
        );
        assert!(findings.iter().all(|finding| finding.verdict == Verdict::Ok));
    }

    #[test]
    fn another_mpi_of_the_family_is_named() {
        let of = |text: &str| version(&serde_json::json!({ "version": text, "path": "/l/libmpi.so.12" }));
        let intel = of("Intel(R) MPI Library 2021.18 for Linux* OS\n");
        assert_eq!(
            (intel.verdict, intel.found.as_str()),
            (Verdict::Ok, "Intel(R) MPI Library 2021.18, /l/libmpi.so.12")
        );
        let other = of("MVAPICH Version:      4.0\n");
        assert_eq!(other.verdict, Verdict::Warning);
        assert!(other.found.starts_with("MVAPICH Version:"), "{}", other.found);
    }

    #[test]
    fn ranks_that_do_not_share_memory_and_ucx_are_warnings() {
        let findings = inside(&run(&LIBRARY.replace("true", "false").replace("\"ofi\"", "\"ucx\"")));
        assert!(
            findings.iter().all(|finding| finding.verdict == Verdict::Warning),
            "{findings:?}"
        );
    }

    #[test]
    fn worlds_that_do_not_meet_or_lose_messages_are_broken() {
        let silent = Said {
            succeeded: false,
            stdout: String::new(),
            stderr: "pcm-probe: no port appeared".to_owned(),
        };
        assert_eq!(between(&silent, &silent)[0].verdict, Verdict::Broken);
        let half = run("{\"between\":{\"latency_us\":9.0,\"bandwidth_gb_s\":2.0}}\n{\"meet\":{\"failed_in_round\":7}}");
        let findings = between(&half, &half);
        assert_eq!(findings[1].verdict, Verdict::Broken);
        assert!(findings[1].found.contains("round 7"));
        assert_eq!(findings[2].verdict, Verdict::Broken);
    }
}
