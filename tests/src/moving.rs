//! A running `pcm-moving` (`bench/programs/moving.c`), which checks each element of its data after every change.

use crate::{
    background::Background,
    binaries::built,
    cluster::{Cluster, LIMIT},
    limited::Outcome,
    wait,
};

/// Longer than any test.
const SECONDS: &str = "3600";

/// A job with data of one kind, the first of its cluster.
pub struct Moving<'a> {
    cluster: &'a Cluster,
    job: Background,
}

impl<'a> Moving<'a> {
    /// Starts it on two ranks, with `mib` of data of a kind, behind the words that a shell is to say before.
    ///
    /// # Panics
    /// When its ranks do not come to iterate.
    pub fn start(
        cluster: &'a Cluster,
        kind: &str,
        mib: u32,
        options: &[&str],
        before: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        let mut command = cluster.pcmctl(&["run", "-n", "2"]);
        command.args(options).args(["--", "sh", "-c"]);
        command
            .arg(format!("{before}\nexec \"$0\" \"$@\""))
            .arg(built("pcm-moving"));
        command.args([&mib.to_string(), "2000", "0", SECONDS, kind]);
        command.envs(variables.iter().copied());
        let job = Background::start(&mut command);
        cluster.wait_until_ranks_iterate();
        Self { cluster, job }
    }

    /// Asks for a change.
    pub fn try_change(&self, words: &[&str]) -> Outcome {
        self.cluster.run(words)
    }

    /// Makes a change, after which all data must be right.
    ///
    /// # Panics
    /// When that is not so.
    pub fn change(&self, words: &[&str]) {
        let before = self.checked();
        let outcome = self.try_change(words);
        assert!(
            outcome.status.success(),
            "{words:?}: {outcome:?}\n{}",
            self.job.stderr()
        );
        wait::until("the data to be checked", LIMIT, || {
            (self.checked() > before).then_some(())
        });
    }

    /// How often the data was checked; it was right each time.
    fn checked(&self) -> usize {
        let text = self.job.stdout();
        let lines = text.lines().filter(|line| line.starts_with("changed ranks"));
        lines
            .inspect(|line| assert!(line.contains(" wrong 0 "), "{line}"))
            .count()
    }

    /// Ends it.
    ///
    /// # Panics
    /// When it is not there any more.
    pub fn kill(self) {
        assert!(
            self.cluster.run(&["kill", "1"]).status.success(),
            "{}",
            self.job.stderr()
        );
        self.job.end(LIMIT);
    }
}
