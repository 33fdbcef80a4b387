//! What an application asks for with `MPI_Comm_spawn` or `MPI_Comm_spawn_multiple`, as it stands in a PMI-1 request:
//! one block of `name=value` lines per command.

use super::wire::ParseError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most commands in one `MPI_Comm_spawn_multiple`, most arguments, keys or infos of one command. Far above real use,
/// small enough that a mad request costs nothing.
pub const SPAWN_PARTS_MAX: usize = 4096;

/// One command of a spawn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnCommand {
    /// Processes to start.
    pub processes: u32,
    /// Program, as the application named it.
    pub program: String,
    pub args: Vec<String>,
    /// Values that the children find in their key-value space from the start.
    pub preputs: Vec<(String, String)>,
    /// Hints of the application, in its order: `host`, `wdir`, `path` and what else it knows.
    pub infos: Vec<(String, String)>,
}

impl SpawnCommand {
    /// The last value given for a hint.
    pub fn info(&self, key: &str) -> Option<&str> {
        self.infos.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
}

/// One block as it stands in the request, with its place among its siblings.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) command: SpawnCommand,
    /// How many blocks the request has.
    pub(super) total: usize,
    /// This one's number, from 1.
    pub(super) number: usize,
}

/// Reads the lines between `mcmd=spawn` and `endcmd`.
pub(super) fn block_read(lines: &[&str]) -> Result<Block, ParseError> {
    let mut fields = BTreeMap::new();
    for line in lines {
        let (name, value) = line.split_once('=').ok_or_else(|| ParseError::bad_spawn(line))?;
        fields.insert(name, value);
    }
    let number = |name: &str, missing: Option<usize>| -> Result<usize, ParseError> {
        match (fields.get(name), missing) {
            (None, Some(value)) => Ok(value),
            (None, None) => Err(ParseError::SpawnIncomplete { field: name.to_owned() }),
            (Some(text), _) => text
                .parse()
                .ok()
                .filter(|value| *value <= SPAWN_PARTS_MAX)
                .ok_or_else(|| ParseError::bad_spawn(&format!("{name}={text}"))),
        }
    };
    let text = |name: String| -> Result<String, ParseError> {
        match fields.get(name.as_str()) {
            Some(value) => Ok((*value).to_owned()),
            None => Err(ParseError::SpawnIncomplete { field: name }),
        }
    };
    let pairs = |count: usize, what: &str| -> Result<Vec<(String, String)>, ParseError> {
        (0..count)
            .map(|i| Ok((text(format!("{what}_key_{i}"))?, text(format!("{what}_val_{i}"))?)))
            .collect()
    };
    let processes = number("nprocs", None)?;
    let command = SpawnCommand {
        processes: u32::try_from(processes).map_err(|_| ParseError::bad_spawn("nprocs"))?,
        program: text("execname".to_owned())?,
        args: (1..=number("argcnt", Some(0))?)
            .map(|i| text(format!("arg{i}")))
            .collect::<Result<_, _>>()?,
        preputs: pairs(number("preput_num", Some(0))?, "preput")?,
        infos: pairs(number("info_num", Some(0))?, "info")?,
    };
    Ok(Block {
        command,
        total: number("totspawns", Some(1))?,
        number: number("spawnssofar", Some(1))?,
    })
}
