//! Every request of `MPI_Comm_spawn` is answered: carried out as it was asked, or refused with a reason while the job
//! goes on. Each program asks twice, so that a refusal leaves nothing behind that the next request would meet.

use std::fs;
use tests::{c_program::compiled, cluster::Cluster, limited::Outcome};

struct Programs {
    cluster: Cluster,
    shape: &'static str,
}

impl Programs {
    fn on(nodes: u32, shape: &'static str) -> Self {
        let cluster = Cluster::up(nodes);
        compiled("programs/spawning.c", cluster.files());
        Self { cluster, shape }
    }

    /// Runs the program with two ranks.
    fn run(&self, words: &[&str]) -> Outcome {
        let run = ["run", "-n", "2", "--world", self.shape, "--", "./spawning"];
        let outcome = self.cluster.run(&[&run, words].concat());
        assert!(outcome.status.success(), "{words:?}: {outcome:?}");
        outcome
    }

    /// Both requests ended so, on all ranks and with MPI's class of error.
    fn assert_both(said: &str, outcome: &Outcome) {
        let lines = outcome.stdout.lines().filter(|line| *line == said);
        assert_eq!(lines.count(), 2, "{said}: {outcome:?}");
    }

    /// The children of both requests, as they describe themselves.
    fn spawned(&self, words: &[&str]) -> Vec<String> {
        let outcome = self.run(words);
        Self::assert_both("spawned by 2 ranks", &outcome);
        let children = outcome.stdout.lines().filter(|line| line.starts_with("child"));
        children.map(str::to_owned).collect()
    }

    /// A copy of the program that only this path leads to.
    fn worker_elsewhere(&self) -> String {
        let files = self.cluster.files();
        let folder = files.join("elsewhere");
        fs::create_dir(&folder).expect("a folder");
        fs::copy(files.join("spawning"), folder.join("worker")).expect("a copy");
        format!("/no/such:{}", folder.display())
    }

    fn refused(&self, words: &[&str], reason: &str) {
        let outcome = self.run(words);
        Self::assert_both("refused by 2 ranks", &outcome);
        let said = format!("MPI_Comm_spawn was refused: {reason}");
        assert_eq!(outcome.stderr.matches(&said).count(), 2, "{said:?}: {outcome:?}");
    }
}

#[test]
fn a_spawn_that_cannot_be_is_refused_with_a_reason_and_the_job_goes_on() {
    let programs = Programs::on(3, "job");
    for processes in ["1", "4"] {
        for program in [
            "/no/such/program",
            "./spawning,/no/such/program",
            "/no/such/program,./spawning",
        ] {
            programs.refused(&[program, processes, "a"], "no program /no/such/program");
        }
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
    for argument in ["*70000", "*400000"] {
        programs.refused(
            &["./spawning", "1", argument],
            "the request cannot be carried out: it is longer than 65536 bytes",
        );
    }
    for (program, argument, begins) in [
        ("./spawning", "a\narg2=x", "arg2="),
        ("./spawning,./spawning", "a\ntotspawns=9", "totspawns="),
        ("./spawning", "a\nendcmd\nb", "endcmd"),
    ] {
        let reason = format!(
            "the request cannot be carried out: an argument or a hint holds a line that begins with {begins:?}"
        );
        programs.refused(&[program, "1", argument], &reason);
    }
}

#[test]
fn a_spawn_finds_the_hosts_and_the_path_where_each_rank_is_a_world() {
    let programs = Programs::on(2, "rank");
    let on_a_node = programs.spawned(&["./spawning", "2", "a", "host", "n1"]);
    assert_eq!(on_a_node, ["child on n1 with a"; 4]);
    programs.refused(
        &["./spawning", "2", "a", "host", "elsewhere"],
        "host \"elsewhere\" is neither a node nor a machine of this cluster, which has n0, n1",
    );
    let path = programs.worker_elsewhere();
    assert_eq!(programs.spawned(&["worker", "2", "a", "path", &path]).len(), 4);
    programs.refused(&["worker", "1", "a", "path", "/no/such"], "no program worker");
    programs.refused(
        &["./spawning", "1", "*70000"],
        "the request cannot be carried out: it is longer than 65536 bytes",
    );
}

#[test]
fn a_spawn_finds_the_hosts_the_path_and_the_arguments_it_names() {
    let programs = Programs::on(3, "job");
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
    assert_eq!(programs.spawned(&["./spawning,./spawning", "2", "a"]).len(), 8);
    let path = programs.worker_elsewhere();
    assert_eq!(programs.spawned(&["worker", "2", "a", "path", &path]).len(), 4);
}
