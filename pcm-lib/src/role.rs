//! What a process is to the layout it belongs to, as its daemon said in the environment. Only reads.

use crate::start_error::StartError;
use pcm_proto::{app::environment, ids::WorldId};
use std::env;

/// See the file head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// One of the layout the job began with.
    First,
    /// Waits to be called to a meeting.
    Newcomer(Planned),
    /// Takes its data from what was parked.
    Restored(Planned),
}

/// The place in the layout that is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    /// The world the process started in.
    pub(crate) world: WorldId,
    /// Its rank to be.
    pub(crate) rank: u32,
    /// Number of ranks to be.
    pub(crate) size: u32,
}

/// Reads the environment.
pub(crate) fn read() -> Result<Role, StartError> {
    let Some(role) = env::var_os(environment::ROLE) else {
        return Ok(Role::First);
    };
    let planned = Planned {
        world: WorldId(number(environment::WORLD)?),
        rank: number(environment::RANK)?,
        size: number(environment::SIZE)?,
    };
    match role.to_str() {
        Some(environment::NEWCOMER) if planned.rank < planned.size => Ok(Role::Newcomer(planned)),
        Some(environment::RESTORED) if planned.rank < planned.size => Ok(Role::Restored(planned)),
        _ => Err(StartError::Variable {
            name: environment::ROLE,
            value: Some(role.to_string_lossy().into_owned()),
        }),
    }
}

fn number(name: &'static str) -> Result<u32, StartError> {
    let value = env::var(name).ok();
    let number = value.as_ref().and_then(|value| value.parse().ok());
    number.ok_or(StartError::Variable { name, value })
}
