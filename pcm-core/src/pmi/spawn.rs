//! What an application asks for with `MPI_Comm_spawn` or `MPI_Comm_spawn_multiple`, and how it stands in a PMI-1
//! request: one block of `name=value` lines per command.

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
    /// Variables of the children's environment, which PMI-1 has none of.
    pub environment: Vec<(String, String)>,
}

impl SpawnCommand {
    /// The last value given for a hint.
    pub fn info(&self, key: &str) -> Option<&str> {
        self.infos.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The hosts of the hint `host`, which separates them by commas.
    pub fn hosts(&self) -> Vec<String> {
        let named = self.info("host").unwrap_or_default().split(',').map(str::trim);
        named.filter(|host| !host.is_empty()).map(str::to_owned).collect()
    }
}

/// Reads the lines of one command. An argument may hold line ends: a line that begins no field goes on with the last.
/// A line that does is no part of an argument: each field stands once and is counted, so it is seen when it was one.
pub(super) fn command_read(lines: &[&str]) -> Result<SpawnCommand, ParseError> {
    let mut fields: BTreeMap<&str, String> = BTreeMap::new();
    let mut last = "";
    for line in lines {
        match (line.split_once('='), fields.get_mut(last)) {
            (Some((name, value)), _) if is_field(name) => {
                last = name;
                if fields.insert(name, value.to_owned()).is_some() {
                    return Err(ParseError::ambiguous(&format!("{name}=")));
                }
            }
            (_, Some(value)) => {
                value.push('\n');
                value.push_str(line);
            }
            (_, None) => return Err(ParseError::bad_spawn(line)),
        }
    }
    let number = |name: &str, missing: Option<usize>, max: usize| -> Result<usize, ParseError> {
        match (fields.get(name), missing) {
            (None, Some(value)) => Ok(value),
            (None, None) => Err(ParseError::SpawnIncomplete { field: name.to_owned() }),
            (Some(text), _) => text
                .parse()
                .ok()
                .filter(|value| *value <= max)
                .ok_or_else(|| ParseError::bad_spawn(&format!("{name}={text}"))),
        }
    };
    let parts = |name: &str| number(name, Some(0), SPAWN_PARTS_MAX);
    for (prefix, first, count) in COUNTED {
        let wanted = first..first + parts(count)?;
        let is_beyond = |name: &str| numbered(name, prefix).is_some_and(|number| !wanted.contains(&number));
        if let Some(name) = fields.keys().find(|name| is_beyond(name)) {
            return Err(ParseError::ambiguous(&format!("{name}=")));
        }
    }
    let text = |name: String| -> Result<String, ParseError> {
        match fields.get(name.as_str()) {
            Some(value) => Ok(value.clone()),
            None => Err(ParseError::SpawnIncomplete { field: name }),
        }
    };
    let pairs = |count: usize, what: &str| -> Result<Vec<(String, String)>, ParseError> {
        (0..count)
            .map(|i| Ok((text(format!("{what}_key_{i}"))?, text(format!("{what}_val_{i}"))?)))
            .collect()
    };
    Ok(SpawnCommand {
        processes: number("nprocs", None, u32::MAX as usize)? as u32,
        program: text("execname".to_owned())?,
        args: (1..=parts("argcnt")?)
            .map(|i| text(format!("arg{i}")))
            .collect::<Result<_, _>>()?,
        preputs: pairs(parts("preput_num")?, "preput")?,
        infos: pairs(parts("info_num")?, "info")?,
        environment: Vec::new(),
    })
}

/// The fields that stand with a number, the first number, and the field that says how many of them there are.
const COUNTED: [(&str, usize, &str); 5] = [
    ("arg", 1, "argcnt"),
    ("preput_key_", 0, "preput_num"),
    ("preput_val_", 0, "preput_num"),
    ("info_key_", 0, "info_num"),
    ("info_val_", 0, "info_num"),
];

/// The number in the name of a field that has this prefix.
fn numbered(name: &str, prefix: &str) -> Option<usize> {
    let digits = name.strip_prefix(prefix)?;
    let number: usize = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// Whether a name is one that stands before a value in a spawn.
fn is_field(name: &str) -> bool {
    const SINGLE: [&str; 4] = ["nprocs", "execname", "totspawns", "spawnssofar"];
    let is_known = |(prefix, _, count): &(&str, usize, &str)| name == *count || numbered(name, prefix).is_some();
    SINGLE.contains(&name) || COUNTED.iter().any(is_known)
}
