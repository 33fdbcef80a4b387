//! Every request of `MPI_Comm_spawn` is answered: carried out as it was asked, or refused with a reason while the job
//! goes on. Each program asks twice, so that a refusal leaves nothing behind that the next request would meet.

use std::fs;
use tests::{c_program::compiled, cluster::Cluster, limited::Outcome};

struct Programs {
    cluster: Cluster,
}

impl Programs {
    fn on(nodes: u32) -> Self {
        let cluster = Cluster::up(nodes);
        compiled("programs/spawning.c", cluster.files());
        Self { cluster }
    }

    /// Runs the program with two ranks.
    fn run(&self, words: &[&str]) -> Outcome {
        let outcome = self
            .cluster
            .run(&[&["run", "-n", "2", "--", "./spawning"], words].concat());
        assert!(outcome.status.success(), "{words:?}: {outcome:?}");
        outcome
    }

    /// The children of both requests, as they describe themselves.
    fn spawned(&self, words: &[&str]) -> Vec<String> {
        let outcome = self.run(words);
        assert_eq!(
            outcome.stdout.matches("spawned by 2 ranks").count(),
            2,
            "{words:?}: {outcome:?}"
        );
        let children = outcome.stdout.lines().filter(|line| line.starts_with("child"));
        children.map(str::to_owned).collect()
    }

    fn refused(&self, words: &[&str], reason: &str) {
        let outcome = self.run(words);
        assert_eq!(
            outcome.stdout.matches("refused by 2 ranks").count(),
            2,
            "{words:?}: {outcome:?}"
        );
        let said = format!("MPI_Comm_spawn was refused: {reason}");
        assert_eq!(outcome.stderr.matches(&said).count(), 2, "{said:?}: {outcome:?}");
    }
}

#[test]
fn a_spawn_that_cannot_be_is_refused_with_a_reason_and_the_job_goes_on() {
    let programs = Programs::on(3);
    for processes in ["1", "4"] {
        programs.refused(&["/no/such/program", processes, "a"], "no program /no/such/program");
        let nowhere = ["./spawning", processes, "a", "wdir", "/no/such/directory"];
        programs.refused(&nowhere, "working directory /no/such/directory");
        let host = ["./spawning", processes, "a", "host", "elsewhere"];
        programs.refused(
            &host,
            "host \"elsewhere\" is neither a node nor a machine of this cluster, which has n0, n1, n2",
        );
    }
    programs.refused(
        &["./spawning", "5000", "a"],
        "it asks for 5000 processes; the job has room for 1 to 4094 of 4096",
    );
    programs.refused(
        &["./spawning", "2", "%ff"],
        "the request cannot be carried out: it holds bytes that are not UTF-8",
    );
    programs.refused(
        &["./spawning", "1", "*400000"],
        "the request cannot be carried out: it is longer than 65536 bytes",
    );
}

#[test]
fn a_spawn_finds_the_hosts_the_path_and_the_arguments_it_names() {
    let programs = Programs::on(3);
    let lines = programs.spawned(&["./spawning", "1", "a\nb=c\n"]);
    let child = |line: &String| line.ends_with(" with a\\nb=c\\n");
    assert!(lines.len() == 2 && lines.iter().all(child), "{lines:?}");
    let long = programs.spawned(&["./spawning", "1", "*60000"]);
    assert_eq!(long.len(), 2);
    let on_a_node = programs.spawned(&["./spawning", "2", "a", "host", "n2"]);
    assert_eq!(on_a_node, ["child on n2 with a"; 4]);
    let on_two = programs.spawned(&["./spawning", "2", "a", "host", "n1,n2"]);
    assert!(on_two.iter().all(|line| !line.contains(" n0 ")), "{on_two:?}");
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_str().expect("a name");
    assert_eq!(programs.spawned(&["./spawning", "2", "a", "host", machine]).len(), 4);
    let files = programs.cluster.files();
    let folder = files.join("elsewhere");
    fs::create_dir(&folder).expect("a folder");
    fs::copy(files.join("spawning"), folder.join("worker")).expect("a copy");
    let path = format!("/no/such:{}", folder.display());
    assert_eq!(programs.spawned(&["worker", "2", "a", "path", &path]).len(), 4);
}
