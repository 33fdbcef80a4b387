//! The text of PMI-1: requests from bytes, answers to lines. Stateless: a request is read from all bytes that wait
//! unanswered in the process's socket, so that a daemon that dies before it answers leaves them for the next one.

use super::spawn::{Block, SpawnCommand, block_read};
use super::world::PARENT_PORT_KEY;
use serde::{Deserialize, Serialize};

/// Longest request, all lines of a spawn together. What is not answered stays in the socket's buffer (208 KiB by
/// default, with the kernel's own overhead), so a request must fit there.
pub const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Longest name of a key-value space; announced to the process.
pub const KVSNAME_LENGTH_MAX: usize = 256;
/// Longest key; announced to the process.
pub const KEY_LENGTH_MAX: usize = 64;
/// Longest value; announced to the process.
pub const VALUE_LENGTH_MAX: usize = 1024;

/// What a process asks of its process manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    Init {
        /// Major version it speaks.
        version: u32,
        subversion: u32,
    },
    /// Limits of names, keys and values.
    Maxes,
    /// Which command of a spawn it belongs to.
    AppNumber,
    /// The name of its world's key-value space.
    KvsName,
    /// How many processes there could be.
    UniverseSize,
    /// Publish a value to the world, seen by others after the next barrier.
    Put {
        key: String,
        value: String,
    },
    /// Look a value up.
    Get {
        key: String,
    },
    /// Wait for all processes of the world.
    BarrierIn,
    /// MPI is done with.
    Finalize,
    /// End the job.
    Abort {
        /// Exit code for the job.
        code: i32,
        /// What the process says of it.
        message: String,
    },
    /// Start more processes.
    Spawn {
        /// What to start; together they form one world.
        commands: Vec<SpawnCommand>,
    },
    Publish {
        service: String,
        /// What it stands for.
        port: String,
    },
    Unpublish {
        service: String,
    },
    Lookup {
        service: String,
    },
    /// A command nobody here knows; answered as failed, so that the process can decide.
    Unknown {
        command: String,
    },
}

impl Request {
    /// Whether it changes what a successor of the daemon has to know; looking things up does not.
    pub fn changes_state(&self) -> bool {
        !matches!(
            self,
            Self::Maxes | Self::AppNumber | Self::KvsName | Self::UniverseSize | Self::Unknown { .. }
        ) && !matches!(self, Self::Get { key } if key != PARENT_PORT_KEY)
    }
}

/// Why bytes are not a request. The process does not speak PMI-1, or something wrote into its socket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// No end of a request within the limit.
    #[error("a PMI request longer than {REQUEST_BYTES_MAX} bytes")]
    TooLong,
    #[error("a PMI request that is not text")]
    NotText,
    /// A line that begins with neither `cmd=` nor `mcmd=`.
    #[error("a PMI line without a command: {line:?}")]
    NoCommand { line: String },
    /// A field that a command needs is missing, too long or no number.
    #[error("PMI command {command:?} with a missing or bad {field:?}")]
    BadField { command: String, field: &'static str },
    /// A spawn without a needed line.
    #[error("a PMI spawn request without {field:?}")]
    SpawnIncomplete {
        /// The line's name.
        field: String,
    },
    /// A spawn line that makes no sense.
    #[error("a PMI spawn request with a bad line: {line:?}")]
    BadSpawn { line: String },
}

impl ParseError {
    pub(super) fn bad_spawn(line: &str) -> Self {
        Self::BadSpawn { line: beginning(line) }
    }
}

fn beginning(line: &str) -> String {
    line.chars().take(60).collect()
}

/// Reads the first request of `bytes`, with the number of bytes it takes; `None` when its end has not come yet.
pub fn request_read(bytes: &[u8]) -> Result<Option<(Request, usize)>, ParseError> {
    let mut lines = Lines { bytes, at: 0 };
    let request = match lines.next()? {
        None => None,
        Some("mcmd=spawn") => spawn_read(&mut lines)?,
        Some(line) => Some(line_read(line)?),
    };
    match request {
        Some(request) => Ok(Some((request, lines.at))),
        None if bytes.len() >= REQUEST_BYTES_MAX => Err(ParseError::TooLong),
        None => Ok(None),
    }
}

struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Result<Option<&'a str>, ParseError> {
        let rest = &self.bytes[self.at..];
        let Some(length) = rest.iter().position(|b| *b == b'\n') else {
            return Ok(None);
        };
        self.at += length + 1;
        let line = std::str::from_utf8(&rest[..length]).map_err(|_| ParseError::NotText)?;
        Ok(Some(line))
    }
}

fn spawn_read(lines: &mut Lines<'_>) -> Result<Option<Request>, ParseError> {
    let mut commands = Vec::new();
    loop {
        let mut block = Vec::new();
        loop {
            match lines.next()? {
                None => return Ok(None),
                Some("endcmd") => break,
                Some(line) => block.push(line),
            }
        }
        let Block { command, total, number } = block_read(&block)?;
        commands.push(command);
        if number >= total {
            return Ok(Some(Request::Spawn { commands }));
        }
        match lines.next()? {
            None => return Ok(None),
            Some("mcmd=spawn") => {}
            Some(line) => return Err(ParseError::bad_spawn(line)),
        }
    }
}

fn line_read(line: &str) -> Result<Request, ParseError> {
    let command = field(line, "cmd").ok_or_else(|| ParseError::NoCommand { line: beginning(line) })?;
    let need = |name: &'static str, max: usize| -> Result<String, ParseError> {
        field(line, name)
            .filter(|value| value.len() <= max)
            .map(str::to_owned)
            .ok_or_else(|| ParseError::BadField {
                command: command.to_owned(),
                field: name,
            })
    };
    let number = |name: &'static str, missing: i32| -> Result<i32, ParseError> {
        match field(line, name) {
            None => Ok(missing),
            Some(text) => text.parse().map_err(|_| ParseError::BadField {
                command: command.to_owned(),
                field: name,
            }),
        }
    };
    Ok(match command {
        "init" => Request::Init {
            version: number("pmi_version", 1)?.unsigned_abs(),
            subversion: number("pmi_subversion", 1)?.unsigned_abs(),
        },
        "get_maxes" => Request::Maxes,
        "get_appnum" => Request::AppNumber,
        "get_my_kvsname" => Request::KvsName,
        "get_universe_size" => Request::UniverseSize,
        "put" => {
            let value = line.split_once(" value=").map(|(_, value)| value);
            Request::Put {
                key: need("key", KEY_LENGTH_MAX)?,
                value: value
                    .filter(|value| value.len() <= VALUE_LENGTH_MAX)
                    .map(str::to_owned)
                    .ok_or_else(|| ParseError::BadField {
                        command: "put".to_owned(),
                        field: "value",
                    })?,
            }
        }
        "get" => Request::Get {
            key: need("key", KEY_LENGTH_MAX)?,
        },
        "barrier_in" => Request::BarrierIn,
        "finalize" => Request::Finalize,
        "abort" => Request::Abort {
            code: number("exitcode", 1)?,
            message: line
                .split_once(" message=")
                .map_or(String::new(), |(_, text)| beginning(text)),
        },
        "publish_name" => Request::Publish {
            service: need("service", VALUE_LENGTH_MAX)?,
            port: need("port", VALUE_LENGTH_MAX)?,
        },
        "unpublish_name" => Request::Unpublish {
            service: need("service", VALUE_LENGTH_MAX)?,
        },
        "lookup_name" => Request::Lookup {
            service: need("service", VALUE_LENGTH_MAX)?,
        },
        other => Request::Unknown {
            command: beginning(other),
        },
    })
}

fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split(' ')
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// What the process manager answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    Init,
    /// To `init` in a version we do not speak.
    InitRefused,
    Maxes,
    AppNumber(u32),
    KvsName(&'a str),
    /// To `get_universe_size`; `None` says that nobody knows.
    UniverseSize(Option<u32>),
    Put,
    /// To `put` when there is no room.
    PutRefused,
    Value(Option<&'a str>),
    /// To `barrier_in`, when all are there.
    BarrierOut,
    FinalizeAck,
    /// To a spawn: an error code per process, in order.
    Spawned(&'a [i32]),
    /// To a spawn that did not happen.
    SpawnRefused,
    /// To `publish_name`: whether it happened.
    Published(bool),
    /// To `unpublish_name`: whether it happened.
    Unpublished(bool),
    Found(Option<&'a str>),
    /// To a command nobody here knows.
    Unknown(&'a str),
}

impl Answer<'_> {
    /// The answer as the process reads it, with the end of the line.
    pub fn line(&self) -> String {
        match self {
            Self::Init => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n".to_owned(),
            Self::InitRefused => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n".to_owned(),
            Self::Maxes => format!(
                "cmd=maxes rc=0 kvsname_max={KVSNAME_LENGTH_MAX} keylen_max={KEY_LENGTH_MAX} \
                 vallen_max={VALUE_LENGTH_MAX}\n"
            ),
            Self::AppNumber(number) => format!("cmd=appnum rc=0 appnum={number}\n"),
            Self::KvsName(name) => format!("cmd=my_kvsname rc=0 kvsname={name}\n"),
            Self::UniverseSize(Some(size)) => format!("cmd=universe_size rc=0 size={size}\n"),
            Self::UniverseSize(None) => "cmd=universe_size rc=0 size=-1\n".to_owned(),
            Self::Put => "cmd=put_result rc=0\n".to_owned(),
            Self::PutRefused => "cmd=put_result rc=-1 msg=no_room\n".to_owned(),
            Self::Value(Some(value)) => format!("cmd=get_result rc=0 value={value}\n"),
            Self::Value(None) => "cmd=get_result rc=-1 msg=key_not_found\n".to_owned(),
            Self::BarrierOut => "cmd=barrier_out rc=0\n".to_owned(),
            Self::FinalizeAck => "cmd=finalize_ack rc=0\n".to_owned(),
            Self::Spawned(codes) => {
                let codes: Vec<String> = codes.iter().map(i32::to_string).collect();
                format!("cmd=spawn_result rc=0 errcodes={}\n", codes.join(","))
            }
            Self::SpawnRefused => "cmd=spawn_result rc=-1\n".to_owned(),
            Self::Published(true) => "cmd=publish_result rc=0 info=ok\n".to_owned(),
            Self::Published(false) => "cmd=publish_result rc=1 info=refused\n".to_owned(),
            Self::Unpublished(true) => "cmd=unpublish_result rc=0 info=ok\n".to_owned(),
            Self::Unpublished(false) => "cmd=unpublish_result rc=1 info=unknown\n".to_owned(),
            Self::Found(Some(port)) => format!("cmd=lookup_result rc=0 info=ok port={port}\n"),
            Self::Found(None) => "cmd=lookup_result rc=1 info=unknown\n".to_owned(),
            Self::Unknown(command) => format!("cmd={command}_result rc=-1 msg=unknown_command\n"),
        }
    }
}
