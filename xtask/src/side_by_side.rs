//! Runs test programs side by side, one test of each at a time: a program whose last test waits leaves no CPU idle.
//! Must never mix what two programs say.

use crate::failure::{Failure, OnPath};
use serde_json::Value;
use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Write, stdout},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::{
        Mutex, PoisonError,
        mpsc::{Sender, channel},
    },
    thread,
};

/// A program of tests, and the folder that cargo would run it in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    pub(crate) folder: PathBuf,
}

/// All that a program said, and how it ended.
pub(crate) struct Ended {
    pub(crate) lines: Vec<String>,
    pub(crate) status: ExitStatus,
}

/// Has the programs built that this cargo would run.
pub(crate) fn built(mut cargo: Command) -> Result<Vec<Program>, Failure> {
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let mut child = cargo.stdout(Stdio::piped()).spawn().map_err(Failure::start("cargo"))?;
    let mut programs = Vec::new();
    for line in child
        .stdout
        .take()
        .into_iter()
        .flat_map(|out| BufReader::new(out).lines())
    {
        programs.extend(named_in(&line.on("read the output of", "cargo test")?));
    }
    let status = child.wait().map_err(Failure::start("cargo"))?;
    if !status.success() {
        return Err(Failure::Ended {
            program: "cargo test --no-run".into(),
            status,
            advice: "see what it says above".into(),
        });
    }
    // Cargo names them as it has built them.
    programs.sort_by(|one: &Program, other| one.name.cmp(&other.name));
    Ok(programs)
}

/// The program that a line of cargo's names.
fn named_in(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let text = |pointer: &str| message.pointer(pointer)?.as_str();
    let is_test = message.pointer("/profile/test")?.as_bool()?;
    (is_test && text("/reason") == Some("compiler-artifact")).then_some(())?;
    Some(Program {
        name: text("/target/name")?.to_owned(),
        file: text("/executable")?.into(),
        folder: Path::new(text("/manifest_path")?).parent()?.into(),
    })
}

/// Runs them in their order, so many at a time; `command` says how one is run, `ended` takes each when it has ended.
pub(crate) fn run(
    programs: &[Program],
    at_a_time: usize,
    command: impl Fn(&Program) -> Command + Sync,
    mut ended: impl FnMut(&Program, Ended) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let waiting = Mutex::new(programs.iter().collect::<VecDeque<_>>());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    thread::scope(|scope| {
        let (told, ends) = channel();
        for _ in 0..at_a_time.clamp(1, programs.len().max(1)) {
            let (told, next, command): (Sender<_>, _, _) = (told.clone(), &next, &command);
            scope.spawn(move || {
                while let Some(program) = next() {
                    println!("{} begins", program.name);
                    if told.send((program, said(command(program)))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(told);
        ends.into_iter().try_for_each(|(program, end)| ended(program, end?))
    })
}

fn said(mut command: Command) -> Result<Ended, Failure> {
    // Both streams are one, as on a terminal.
    let (reader, writer) = std::io::pipe().map_err(Failure::start("a pipe"))?;
    let other = writer.try_clone().map_err(Failure::start("a pipe"))?;
    let mut child = command
        .stdout(writer)
        .stderr(other)
        .spawn()
        .map_err(Failure::start("a test program"))?;
    // Its ends of the pipe go with it.
    drop(command);
    let mut lines = Vec::new();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.on("read the output of", "a test program")?;
        lines.push(String::from_utf8_lossy(&line).into_owned());
    }
    let status = child.wait().map_err(Failure::start("a test program"))?;
    Ok(Ended { lines, status })
}

/// Says what a program said.
pub(crate) fn show(program: &Program, ended: &Ended) -> Result<(), Failure> {
    let mut out = stdout().lock();
    writeln!(out, "     Running tests/{}.rs", program.name)
        .and_then(|()| ended.lines.iter().try_for_each(|line| writeln!(out, "{line}")))
        .on("write to", "the terminal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_tests_is_known_by_its_line() {
        let line = |is_test: bool| {
            let target = r#""reason":"compiler-artifact","target":{"name":"system_x"}"#;
            let files = r#""manifest_path":"/a/tests/Cargo.toml","executable":"/a/target/system_x-1""#;
            format!(r#"{{{target},{files},"profile":{{"test":{is_test}}}}}"#)
        };
        let program = Program {
            name: "system_x".into(),
            file: "/a/target/system_x-1".into(),
            folder: "/a/tests".into(),
        };
        assert_eq!(named_in(&line(true)), Some(program));
        assert_eq!(named_in(&line(false)), None);
        assert_eq!(named_in("warning: something else"), None);
    }

    #[test]
    fn each_program_runs_once_and_what_it_says_stays_together() {
        let program = |number: u32| Program {
            name: format!("{number}"),
            file: "/bin/sh".into(),
            folder: "/".into(),
        };
        let programs: Vec<Program> = (0..7).map(program).collect();
        let command = |program: &Program| {
            let mut command = Command::new(&program.file);
            let script = "echo out $1; echo err $1 >&2; sleep 0.05; echo end $1; exit $1";
            command.args(["-c", script, "sh", &program.name]);
            command
        };
        let mut seen = Vec::new();
        let take = |program: &Program, ended: Ended| {
            let number = &program.name;
            let wanted = ["out", "err", "end"].map(|word| format!("{word} {number}"));
            assert_eq!(ended.lines, wanted);
            assert_eq!(ended.status.code().map(|code| code.to_string()), Some(number.clone()));
            seen.push(number.clone());
            Ok(())
        };
        assert!(run(&programs, 3, command, take).is_ok());
        seen.sort();
        assert_eq!(
            seen,
            programs.iter().map(|program| program.name.clone()).collect::<Vec<_>>()
        );
    }
}
