//! One call of an engine's client.

use crate::failure::Failure;
use pcm_proto::node_end::END_VARIABLE;
use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Of what a client says when it fails, so many characters are shown.
const SAID_MAX: usize = 300;

/// A program with its arguments, what it reads, and how long it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub program: String,
    pub arguments: Vec<OsString>,
    pub input: Option<String>,
    pub within: Duration,
    /// Whether it is to forget the job it is called in: what that one was given is not for the next.
    pub is_for_another_job: bool,
}

impl Call {
    /// A call by these words.
    pub fn new(within: Duration, words: &[&str]) -> Self {
        let (program, arguments) = words
            .split_first()
            .map_or(("", &[][..]), |(first, rest)| (*first, rest));
        Self {
            program: program.to_owned(),
            arguments: arguments.iter().map(OsString::from).collect(),
            input: None,
            within,
            is_for_another_job: false,
        }
    }

    /// As a person would type it.
    pub fn shown(&self) -> String {
        let words = self.arguments.iter().map(|word| word.to_string_lossy());
        let words: Vec<_> = std::iter::once(self.program.as_str().into()).chain(words).collect();
        words.join(" ")
    }

    /// The command, not yet started.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        if self.is_for_another_job {
            let foreign = std::env::vars_os().map(|(name, _)| name);
            let is_foreign = |name: &OsString| {
                let name = name.to_string_lossy();
                name != "SLURM_CONF"
                    && (name.starts_with("SLURM") || name.starts_with("SBATCH_") || name == END_VARIABLE)
            };
            foreign.filter(is_foreign).for_each(|name| _ = command.env_remove(name));
        }
        command
    }
}

/// What a client answers.
pub async fn run(call: Call) -> Result<String, Failure> {
    let mut command = call.command();
    command
        .stdin(if call.input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let program = &call.program;
    let mut child = command.spawn().map_err(|error| {
        Failure::system(format!(
            "cannot start {program}: {error}; load the module that has it, or add it to PATH"
        ))
    })?;
    let input = child.stdin.take().zip(call.input.clone());
    let conversation = async {
        if let Some((mut stdin, text)) = input {
            // A client that ends early says why.
            let _ = stdin.write_all(text.as_bytes()).await;
        }
        child.wait_with_output().await
    };
    let output = tokio::time::timeout(call.within, conversation).await.map_err(|_| {
        let seconds = call.within.as_secs();
        Failure::deadline(format!(
            "'{}' did not answer within {seconds} s: its controller may be away",
            call.shown()
        ))
    })?;
    let output = output.map_err(|error| Failure::system(format!("{program}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said: String = String::from_utf8_lossy(&output.stderr)
        .trim()
        .chars()
        .take(SAID_MAX)
        .collect();
    let said = said.lines().collect::<Vec<_>>().join("; ");
    Err(Failure::system(format!(
        "'{}' failed ({}): {said}",
        call.shown(),
        output.status
    )))
}
