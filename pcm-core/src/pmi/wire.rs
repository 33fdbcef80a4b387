//! The text of PMI-1: requests from bytes, answers to lines. Stateless: a request is read from all bytes that wait
//! unanswered in the process's socket, so that a daemon that dies before it answers leaves them for the next one.

use super::spawn::{SpawnCommand, command_read};
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
    /// A request that cannot be carried out as it stands; answered as failed.
    Unfit {
        /// `spawn`, or the command as it stands.
        command: String,
        /// What is wrong with it, for people.
        reason: String,
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

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseError {
    #[error("it is longer than {REQUEST_BYTES_MAX} bytes; pass long data in a file or a message")]
    TooLong,
    #[error("it holds bytes that are not UTF-8")]
    NotText,
    /// A line that begins with neither `cmd=` nor `mcmd=`.
    #[error("a line without a command: {line:?}")]
    NoCommand { line: String },
    /// A field that a command needs is missing, too long or no number.
    #[error("{field:?} is missing or bad")]
    BadField { field: &'static str },
    /// A spawn without a needed line.
    #[error("it lacks {field:?}")]
    SpawnIncomplete { field: String },
    /// A spawn line that makes no sense.
    #[error("it has a bad line: {line:?}")]
    BadSpawn { line: String },
    /// An argument or a value holds a line of the request's own form.
    #[error(
        "an argument or a hint holds a line that begins with {line:?}, which has a meaning here; pass it in a file"
    )]
    Ambiguous { line: String },
}

impl ParseError {
    pub(super) fn bad_spawn(line: &str) -> Self {
        Self::BadSpawn { line: beginning(line) }
    }

    pub(super) fn ambiguous(line: &str) -> Self {
        Self::Ambiguous { line: beginning(line) }
    }
}

fn beginning(line: &str) -> String {
    line.chars().take(60).collect()
}

/// What stands first among the bytes of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A request, and how many bytes it takes.
    Whole(Request, usize),
    /// The end of the first request has not come yet.
    Incomplete,
    /// The first request is longer than a request may be: skip it ([`Skipping`]).
    TooLong,
}

/// Reads the first request of `bytes`.
pub fn request_read(bytes: &[u8]) -> Reading {
    let mut extent = Extent::of(bytes);
    let Ok(end) = extent.end_in(bytes) else {
        return match bytes.len() >= REQUEST_BYTES_MAX {
            true => Reading::TooLong,
            false => Reading::Incomplete,
        };
    };
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| ParseError::NotText);
    let request = text.and_then(|text| match extent.is_spawn {
        true => spawn_read(text),
        false => line_read(text.trim_end_matches('\n')),
    });
    Reading::Whole(request.unwrap_or_else(|error| extent.unfit(&bytes[..end], &error)), end)
}

/// A request too long to be kept until it is answered; it is answered as failed.
#[derive(Debug)]
pub struct Skipping {
    extent: Extent,
    command: Request,
}

impl Skipping {
    /// Begins with the bytes that [`request_read`] found too long.
    pub fn new(bytes: &[u8]) -> Self {
        let extent = Extent::of(bytes);
        let command = extent.unfit(bytes, &ParseError::TooLong);
        Self { extent, command }
    }

    /// Either the request and where it ends, or how many bytes can be thrown away before the next look.
    pub fn over(&mut self, bytes: &[u8]) -> Result<(Request, usize), usize> {
        let end = self.extent.end_in(bytes)?;
        Ok((self.command.clone(), end))
    }
}

/// Where a request ends: a line, or the blocks of a spawn up to the last one's `endcmd`.
#[derive(Debug)]
struct Extent {
    is_spawn: bool,
    /// Blocks of the spawn, as its first block says, and the present one's number.
    blocks: Option<usize>,
    number: usize,
    /// The beginning of the present line was in bytes seen before.
    is_in_line: bool,
}

impl Extent {
    /// What begins with lines of a spawn whose head is lost is such a spawn, too.
    fn of(bytes: &[u8]) -> Self {
        let is_line = bytes.starts_with(b"cmd=") || !bytes.ends_with(b"endcmd\n");
        Self {
            is_spawn: bytes.starts_with(b"mcmd=spawn\n") || !is_line,
            blocks: None,
            number: 1,
            is_in_line: false,
        }
    }

    /// The end in `bytes`, or how many of them need not be seen again.
    fn end_in(&mut self, bytes: &[u8]) -> Result<usize, usize> {
        const SHORT: usize = 64;
        let mut at = 0;
        while let Some(length) = bytes[at..].iter().position(|b| *b == b'\n') {
            let line = &bytes[at..at + length];
            at += length + 1;
            let is_tail = std::mem::take(&mut self.is_in_line);
            if !self.is_spawn || (!is_tail && self.ends_with(line) && may_be_a_request(&bytes[at..])) {
                return Ok(at);
            }
        }
        if bytes.len() - at <= SHORT {
            return Err(at);
        }
        self.is_in_line = true;
        Err(bytes.len())
    }

    fn ends_with(&mut self, line: &[u8]) -> bool {
        let number = |name: &str| str::from_utf8(line.strip_prefix(name.as_bytes())?).ok()?.parse().ok();
        self.blocks = self.blocks.or_else(|| number("totspawns="));
        self.number = number("spawnssofar=").unwrap_or(self.number);
        line == b"endcmd" && self.number >= self.blocks.unwrap_or(1)
    }

    fn unfit(&self, bytes: &[u8], error: &ParseError) -> Request {
        let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(&line[..line.len().min(REQUEST_BYTES_MAX)]);
        let command = match self.is_spawn {
            true => "spawn".to_owned(),
            false => beginning(field(&line, "cmd").unwrap_or("unknown")),
        };
        let reason = error.to_string();
        Request::Unfit { command, reason }
    }
}

/// Whether these bytes after an `endcmd` can be the next request; else it is a line of an argument.
fn may_be_a_request(bytes: &[u8]) -> bool {
    let is_head = |head: &&[u8]| head.starts_with(bytes) || bytes.starts_with(head);
    [&b"cmd="[..], b"mcmd="].iter().any(is_head)
}

fn spawn_read(text: &str) -> Result<Request, ParseError> {
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    let mut is_open = false;
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        match (line, blocks.last_mut()) {
            ("mcmd=spawn", _) if !is_open => {
                is_open = true;
                blocks.push(Vec::new());
            }
            ("endcmd", Some(_)) if is_open => is_open = false,
            (line, Some(block)) if is_open && line != "mcmd=spawn" => block.push(line),
            (_, Some(_)) if !is_open => return Err(ParseError::ambiguous("endcmd")),
            (line, Some(_)) => return Err(ParseError::ambiguous(line)),
            (line, None) => return Err(ParseError::bad_spawn(line)),
        }
    }
    let commands = blocks.iter().map(|block| command_read(block));
    Ok(Request::Spawn {
        commands: commands.collect::<Result<_, _>>()?,
    })
}

fn line_read(line: &str) -> Result<Request, ParseError> {
    let command = field(line, "cmd").ok_or_else(|| ParseError::NoCommand { line: beginning(line) })?;
    let need = |name: &'static str, max: usize| -> Result<String, ParseError> {
        field(line, name)
            .filter(|value| value.len() <= max)
            .map(str::to_owned)
            .ok_or(ParseError::BadField { field: name })
    };
    let number = |name: &'static str, missing: i32| -> Result<i32, ParseError> {
        match field(line, name) {
            None => Ok(missing),
            Some(text) => text.parse().map_err(|_| ParseError::BadField { field: name }),
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
                    .ok_or(ParseError::BadField { field: "value" })?,
            }
        }
        "get" => Request::Get {
            key: need("key", KEY_LENGTH_MAX)?,
        },
        "barrier_in" => Request::BarrierIn,
        "finalize" => Request::Finalize,
        "abort" => Request::Abort {
            code: number("exitcode", 1).unwrap_or(1),
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

impl<'a> Answer<'a> {
    /// To a request that cannot be carried out.
    pub fn to_unfit(command: &'a str) -> Self {
        match command {
            "spawn" => Self::SpawnRefused,
            "put" => Self::PutRefused,
            "get" => Self::Value(None),
            "publish_name" => Self::Published(false),
            "unpublish_name" => Self::Unpublished(false),
            "lookup_name" => Self::Found(None),
            command => Self::Unknown(command),
        }
    }

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
