//! A program that spawns twice by the words of its command line, and what it must say, with any MPI.

use crate::{
    c_program,
    cluster::{Cluster, LIMIT},
    limited::{self, Outcome},
    open_mpi,
};
use std::{fs, process::Command};

/// The MPI of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    /// The one that everything was built for.
    Chosen,
    Open,
}

pub struct Programs {
    pub cluster: Cluster,
    shape: &'static str,
    mpi: Mpi,
}

impl Programs {
    /// The program on a cluster of so many nodes, in worlds of this shape.
    ///
    /// # Panics
    /// When the cluster does not come up, or the program does not compile.
    pub fn on(nodes: u32, shape: &'static str, mpi: Mpi) -> Self {
        let cluster = Cluster::up(nodes);
        match mpi {
            Mpi::Chosen => c_program::compiled("programs/spawning.c", cluster.files()),
            Mpi::Open => open_mpi::compiled("tests/programs/spawning.c", cluster.files(), false),
        };
        Self { cluster, shape, mpi }
    }

    /// Runs the program with two ranks and these words.
    pub fn command(&self, words: &[&str]) -> Command {
        let run = ["run", "-n", "2", "--world", self.shape, "--", "./spawning"];
        let mut command = self.cluster.pcmctl(&[&run, words].concat());
        if self.mpi == Mpi::Open {
            command.env_remove("PCM_MPI");
        }
        command
    }

    fn run(&self, words: &[&str]) -> Outcome {
        let outcome = limited::run(&mut self.command(words), LIMIT);
        assert!(
            outcome.status.success(),
            "{words:?}: {outcome:?}\n{}",
            self.cluster.logs()
        );
        outcome
    }

    /// Both requests ended so, on all ranks and with MPI's class of error.
    fn assert_both(said: &str, outcome: &Outcome) {
        let lines = outcome.stdout.lines().filter(|line| *line == said);
        assert_eq!(lines.count(), 2, "{said}: {outcome:?}");
    }

    /// The children of both requests, as they describe themselves.
    ///
    /// # Panics
    /// When a request is refused, or the program fails.
    pub fn spawned(&self, words: &[&str]) -> Vec<String> {
        let outcome = self.run(words);
        Self::assert_both("spawned by 2 ranks", &outcome);
        let children = outcome.stdout.lines().filter(|line| line.starts_with("child"));
        children.map(str::to_owned).collect()
    }

    /// A copy of the program that only this path leads to.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn worker_elsewhere(&self) -> String {
        let files = self.cluster.files();
        let folder = files.join("elsewhere");
        fs::create_dir(&folder).expect("a folder");
        fs::copy(files.join("spawning"), folder.join("worker")).expect("a copy");
        format!("/no/such:{}", folder.display())
    }

    /// Both requests are refused for this reason, and the program goes on.
    ///
    /// # Panics
    /// When they are not.
    pub fn refused(&self, words: &[&str], reason: &str) {
        let outcome = self.run(words);
        Self::assert_both("refused by 2 ranks", &outcome);
        let said = format!("MPI_Comm_spawn was refused: {reason}");
        assert_eq!(outcome.stderr.matches(&said).count(), 2, "{said:?}: {outcome:?}");
    }

    /// What no MPI can start on the three nodes of the cluster.
    ///
    /// # Panics
    /// When something of it is not refused with its reason.
    pub fn refuse_what_cannot_be(&self) {
        for processes in ["1", "4"] {
            for program in [
                "/no/such/program",
                "./spawning,/no/such/program",
                "/no/such/program,./spawning",
            ] {
                self.refused(&[program, processes, "a"], "no program /no/such/program");
            }
            let nowhere = ["./spawning", processes, "a", "wdir", "/no/such/directory"];
            self.refused(&nowhere, "working directory /no/such/directory");
            let host = ["./spawning", processes, "a", "host", "elsewhere"];
            self.refused(
                &host,
                "host \"elsewhere\" is neither a node nor a machine of this cluster, which has n0, n1, n2",
            );
        }
        self.refused(
            &["./spawning", "5000", "a"],
            "it asks for 5000 processes; the job has room for 1 to 4094 of 4096",
        );
        self.refused(
            &["./spawning", "2", "%ff"],
            "the request cannot be carried out: it holds bytes that are not UTF-8",
        );
        for argument in ["*70000", "*400000"] {
            self.refused(
                &["./spawning", "1", argument],
                "the request cannot be carried out: it is longer than 65536 bytes",
            );
        }
    }

    /// Hosts, a path and arguments that a request names, on the three nodes of the cluster.
    ///
    /// # Panics
    /// When a child is elsewhere, or has other arguments.
    pub fn find_hosts_path_and_arguments(&self) {
        let lines = self.spawned(&["./spawning", "1", "a\nb=c\n"]);
        let child = |line: &String| line.ends_with(" with a\\nb=c\\n");
        assert!(lines.len() == 2 && lines.iter().all(child), "{lines:?}");
        let long = self.spawned(&["./spawning", "1", "*60000"]);
        assert_eq!(long.len(), 2);
        let on_a_node = self.spawned(&["./spawning", "2", "a", "host", "n2"]);
        assert_eq!(on_a_node, ["child on n2 with a"; 4]);
        let on_two = self.spawned(&["./spawning", "2", "a", "host", "n1,n2"]);
        assert!(on_two.iter().all(|line| !line.contains(" n0 ")), "{on_two:?}");
        let machine = rustix::system::uname();
        let machine = machine.nodename().to_str().expect("a name");
        assert_eq!(self.spawned(&["./spawning", "2", "a", "host", machine]).len(), 4);
        assert_eq!(self.spawned(&["./spawning,./spawning", "2", "a"]).len(), 8);
        let path = self.worker_elsewhere();
        assert_eq!(self.spawned(&["worker", "2", "a", "path", &path]).len(), 4);
        assert_eq!(self.spawned(&["worker,./spawning", "1", "a", "path", &path]).len(), 4);
        self.refused(&["worker", "1", "a", "path", "/no/such"], "no program worker");
    }
}
