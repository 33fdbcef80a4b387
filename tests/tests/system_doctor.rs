//! `pcmctl doctor`: it finds a sound machine sound, a planted fault is seen, and it leaves nothing behind.

use serde_json::Value;
use tests::{
    cluster::{Cluster, LIMIT},
    limited::{self, Outcome},
};

fn doctor(cluster: &Cluster, variable: Option<(&str, &str)>) -> (Outcome, Value) {
    let mut command = cluster.pcmctl(&["doctor", "--json"]);
    command.env_remove("MPIR_CVAR_CH4_NETMOD").env_remove("FI_PROVIDER");
    variable.map(|(name, value)| command.env(name, value));
    let outcome = limited::run(&mut command, LIMIT);
    let report = serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    (outcome, report)
}

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().expect("a list of checks");
    let found = checks.iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("no check {name:?} in {report}"))
}

/// What must never be broken on a machine where the other tests pass.
const MUST_WORK: [&str; 8] = [
    "programs",
    "libpcm",
    "shared memory",
    "cluster",
    "MPI",
    "inside a world",
    "worlds meet",
    "MPI_ANY_SOURCE",
];

#[test]
fn a_sound_machine_is_found_sound_with_a_cluster_of_its_own_and_with_the_one_that_is_up() {
    let mut cluster = Cluster::place();
    for is_up in [false, true] {
        if is_up {
            let outcome = cluster.boot(&["--local", "2"]);
            assert!(outcome.status.success(), "{outcome:?}");
        }
        let (outcome, report) = doctor(&cluster, None);
        assert!(outcome.status.success(), "{outcome:?}");
        for name in MUST_WORK {
            assert_ne!(check(&report, name)["verdict"], "broken", "{report}");
        }
        let mpi = check(&report, "MPI")["found"].as_str().unwrap_or_default().to_owned();
        assert!(
            mpi.contains("MPICH") && mpi.contains("netmod ofi") && mpi.contains("libmpi.so"),
            "{mpi}"
        );
        assert!(
            check(&report, "worlds meet")["found"]
                .as_str()
                .unwrap_or_default()
                .contains("20 of 20"),
            "{report}"
        );
        let settings = report["settings"].as_array().expect("a list of settings");
        let netmod = settings
            .iter()
            .find(|setting| setting["name"] == "MPIR_CVAR_CH4_NETMOD")
            .expect("the netmod");
        assert_eq!(
            (&netmod["value"], &netmod["source"]),
            (&"ofi".into(), &"default".into()),
            "{netmod}"
        );
        if !is_up {
            cluster.assert_nothing_left();
        }
    }
    cluster.down();
}

#[test]
fn planted_faults_are_seen_and_told_with_advice() {
    let cluster = Cluster::place();
    let (outcome, report) = doctor(&cluster, Some(("PCM_DAEMON", "/no/such/daemon")));
    assert_eq!(outcome.status.code(), Some(8), "{outcome:?}");
    assert_eq!(report["verdict"], "broken", "{report}");
    for name in ["programs", "cluster"] {
        let check = check(&report, name);
        assert_eq!(check["verdict"], "broken", "{report}");
        assert!(!check["advice"].as_str().unwrap_or_default().is_empty(), "{check}");
    }
    let (outcome, report) = doctor(&cluster, Some(("MPIR_CVAR_CH4_NETMOD", "ucx")));
    assert_eq!(check(&report, "MPI")["verdict"], "warning", "{outcome:?}");
    assert!(
        check(&report, "MPI")["advice"]
            .as_str()
            .unwrap_or_default()
            .contains("MPIR_CVAR_CH4_NETMOD"),
        "{report}"
    );
    cluster.assert_nothing_left();
}

#[test]
fn its_lines_for_people_have_a_verdict_each_and_fit_in_80_columns() {
    let cluster = Cluster::place();
    let outcome = cluster.run(&["doctor"]);
    assert!(outcome.status.success(), "{outcome:?}");
    let (checks, settings) = outcome.stdout.split_once("\nMPI settings").expect("two parts");
    for line in checks.lines() {
        let begins = ["ok ", "warning ", "broken ", "   "]
            .iter()
            .any(|word| line.starts_with(word));
        assert!(begins, "{line:?}");
        // A path cannot be cut.
        assert!(line.chars().count() <= 80 || line.contains('/'), "{line:?}");
    }
    assert!(settings.contains("MPIR_CVAR_NO_COLLECTIVE_FINALIZE=1"), "{settings}");
    cluster.assert_nothing_left();
}
