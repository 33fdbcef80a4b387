//! Where a process runs: which control groups, which CPU.

use std::{ffi::OsStr, path::PathBuf, process::Command};

/// Puts the shell that runs it into each group named before `--`, then becomes the program.
const INTO_GROUPS: &str =
    "while [ \"$1\" != -- ]; do echo $$ > \"$1/cgroup.procs\" || exit 1; shift; done; shift; exec \"$@\"";

/// Where a process runs.
#[derive(Clone, Debug)]
pub struct Place {
    pub(crate) groups: Vec<PathBuf>,
    pub(crate) cpu: u32,
}

impl Place {
    /// A CPU without any limit.
    pub fn on_cpu(cpu: u32) -> Self {
        Self {
            groups: Vec::new(),
            cpu,
        }
    }

    /// A command that runs this program there.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", INTO_GROUPS, "sh"]).args(&self.groups);
        command
            .args(["--", "taskset", "-c", &self.cpu.to_string()])
            .arg(program);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_its_arguments_and_its_cpu() {
        let mut command = Place::on_cpu(0).command("sh");
        command.args(["-c", "echo \"$1\"; taskset -cp $$", "sh", "a b"]);
        let said = command.output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(said.starts_with("a b\n") && said.trim_end().ends_with(": 0"), "{said}");
    }
}
