//! What a process of Open MPI asks for with `MPI_Comm_spawn`, as the job takes it from ranks of every MPI, and the
//! answer. A job answers one request of a process after the other.

use super::worlds::OF_NODE;
use crate::job::participant::Input;
use crate::node::ranks::environment::is_of_rank;
use crate::pmi::spawn::SpawnCommand;
use crate::pmi::wire::{ParseError, REQUEST_BYTES_MAX};
use pcm_proto::app::environment::SPAWN_PATH;
use pcm_proto::ids::ProcessId;
use pcm_proto::pmix;
use std::collections::{BTreeMap, VecDeque};

/// Tells Open MPI in a child where its parent waits for it.
pub(super) const PARENT_PORT: &str = "OMPI_PARENT_PORT";

/// Hints as PMIx names them, and as MPI does.
const HINTS: [(&str, &str); 2] = [("pmix.host", "host"), ("pmix.wdir", "wdir")];

/// Requests without an answer, of each process in their order.
#[derive(Debug, Default)]
pub(super) struct Spawns(BTreeMap<ProcessId, VecDeque<(u64, Asked)>>);

type Asked = Result<Vec<SpawnCommand>, String>;

impl Spawns {
    /// A request comes, under this number; what the job hears of it now.
    pub(super) fn ask(
        &mut self,
        number: u64,
        process: ProcessId,
        commands: &[pmix::SpawnCommand],
        of_job: &[(Vec<u8>, Vec<u8>)],
    ) -> Option<Input> {
        let asked = asked(commands, of_job).map_err(|error| error.to_string());
        let open = self.0.entry(process).or_default();
        open.push_back((number, asked));
        (open.len() == 1).then(|| input(process, open)).flatten()
    }

    /// The job has answered the first, if it has this number; what the job hears next.
    pub(super) fn answer(&mut self, process: ProcessId, number: u64) -> Option<Option<Input>> {
        let open = self.0.get_mut(&process)?;
        _ = open.pop_front_if(|(first, _)| *first == number)?;
        let next = input(process, open);
        if open.is_empty() {
            self.0.remove(&process);
        }
        Some(next)
    }

    pub(super) fn forget(&mut self, process: ProcessId) {
        self.0.remove(&process);
    }
}

fn input(process: ProcessId, open: &VecDeque<(u64, Asked)>) -> Option<Input> {
    let (question, commands) = open.front()?.clone();
    Some(Input::SpawnAsked {
        process,
        question,
        commands,
    })
}

/// The limits are those of a request of PMI.
fn asked(commands: &[pmix::SpawnCommand], of_job: &[(Vec<u8>, Vec<u8>)]) -> Result<Vec<SpawnCommand>, ParseError> {
    let commands: Vec<SpawnCommand> = commands
        .iter()
        .map(|command| asked_command(command, of_job))
        .collect::<Result<_, _>>()?;
    match commands.iter().map(bytes_of).sum::<usize>() > REQUEST_BYTES_MAX {
        true => Err(ParseError::TooLong),
        false => Ok(commands),
    }
}

fn bytes_of(command: &SpawnCommand) -> usize {
    let pairs = [&command.preputs, &command.infos, &command.environment];
    let of_pairs = pairs
        .into_iter()
        .flatten()
        .map(|(name, value)| name.len() + value.len());
    let of_texts = command.args.iter().chain([&command.program]).map(String::len);
    of_pairs.chain(of_texts).sum()
}

fn asked_command(command: &pmix::SpawnCommand, of_job: &[(Vec<u8>, Vec<u8>)]) -> Result<SpawnCommand, ParseError> {
    let mut preputs = Vec::new();
    let mut environment = Vec::new();
    let mut infos = Vec::new();
    for variable in &command.environment {
        let Some((name, value)) = text(variable)?.split_once('=') else {
            continue;
        };
        let is_of_job = of_job.contains(&(name.into(), value.into()));
        if name == PARENT_PORT {
            preputs.push((name.to_owned(), value.to_owned()));
        } else if name == SPAWN_PATH {
            infos.push(("path".to_owned(), value.to_owned()));
        } else if !is_of_job && !is_of_rank(name.as_bytes()) && !OF_NODE.contains(&name) {
            environment.push((name.to_owned(), value.to_owned()));
        }
    }
    for (key, value) in &command.hints {
        if let Some((_, name)) = HINTS.iter().find(|(known, _)| known.as_bytes() == key) {
            infos.push(((*name).to_owned(), text(value)?.to_owned()));
        }
    }
    let args = command.arguments.iter().skip(1);
    Ok(SpawnCommand {
        processes: command.processes,
        program: text(&command.program)?.to_owned(),
        args: args.map(|arg| text(arg).map(str::to_owned)).collect::<Result<_, _>>()?,
        preputs,
        infos,
        environment,
    })
}

fn text(bytes: &[u8]) -> Result<&str, ParseError> {
    str::from_utf8(bytes).map_err(|_| ParseError::NotText)
}
