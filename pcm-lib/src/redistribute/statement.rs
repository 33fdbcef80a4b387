//! What opens a move: the first old rank states what it has registered and how its arrays are divided now, so that
//! processes with other registrations are found before a byte moves, and newcomers learn the division they never saw.
#![allow(unsafe_code, reason = "memory under way in MPI")]

use super::{Limits, MoveError};
use crate::{
    mpi::{Request, Transport, are_complete},
    region::{Description, Kind, Registry},
};
use pcm_core::partition::ArraySpec;
use serde::{Deserialize, Serialize};

/// Bytes that travel at once; enough for some 40 regions.
const HEAD_BYTES: usize = 4096;
const LENGTH_BYTES: usize = 8;
/// A statement of the most regions with the longest names, and counts for the most ranks, is shorter.
const STATEMENT_MAX: u64 = 64 << 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Statement {
    pub(super) descriptions: Vec<Description>,
    /// Of each array, in the order of registration, the division that was registered and the one in force.
    pub(super) divisions: Vec<(ArraySpec, ArraySpec)>,
    /// The limits that all are to keep.
    pub(super) limits: Limits,
}

impl Statement {
    pub(super) fn of(registry: &Registry, limits: Limits) -> Self {
        let divisions = registry.regions().filter_map(|(_, region)| match &region.kind {
            Kind::Array(array) => Some((array.form().spec.clone(), array.partition().spec().clone())),
            _ => None,
        });
        Self {
            descriptions: registry.descriptions(),
            divisions: divisions.collect(),
            limits,
        }
    }

    /// Compares the registrations of this process with those stated.
    pub(super) fn check(&self, registry: &Registry, rank: u32) -> Result<(), MoveError> {
        let own = registry.descriptions();
        let count = own.len().max(self.descriptions.len());
        let differs = (0..count).find(|&n| own.get(n) != self.descriptions.get(n));
        let Some(n) = differs else {
            return Ok(());
        };
        let name = self
            .descriptions
            .get(n)
            .or(own.get(n))
            .map(|description| description.name.clone());
        let name = name.unwrap_or_default();
        let text = |of: &[Description]| {
            of.iter()
                .find(|description| description.name == name)
                .map(|description| description.text.clone())
        };
        let place = |of: &[Description]| of.iter().position(|description| description.name == name);
        let (mut here, there) = (text(&own), text(&self.descriptions));
        if here == there {
            // The same region at another place in the order.
            here = here.map(|text| format!("{text}, registered as number {}", place(&own).unwrap_or(0)));
        }
        Err(MoveError::RegistrationsDiffer {
            rank,
            region: name,
            here,
            there,
        })
    }

    fn encode(&self) -> Result<Vec<u8>, MoveError> {
        rmp_serde::to_vec(self).map_err(|error| MoveError::Statement {
            problem: format!("cannot be written: {error}"),
        })
    }
}

/// The statement on its way to everybody.
#[derive(Debug)]
pub(super) struct Stating {
    /// At its place until the request is complete.
    buffer: Vec<u8>,
    requests: Vec<Request>,
    is_rest: bool,
    /// The whole statement, where this process makes it.
    own: Option<Vec<u8>>,
}

impl Stating {
    pub(super) fn begin(
        registry: &Registry,
        transfer: &dyn Transport,
        rank: u32,
        limits: Limits,
    ) -> Result<Self, MoveError> {
        let own = (rank == 0).then(|| Statement::of(registry, limits).encode());
        let own = own.transpose()?;
        let mut buffer = vec![0; HEAD_BYTES];
        if let Some(own) = &own {
            buffer[..LENGTH_BYTES].copy_from_slice(&(own.len() as u64).to_le_bytes());
            let here = own.len().min(HEAD_BYTES - LENGTH_BYTES);
            buffer[LENGTH_BYTES..LENGTH_BYTES + here].copy_from_slice(&own[..here]);
        }
        // SAFETY: the buffer's bytes stay where they are when it moves; it is forgotten if the request is not complete.
        let requests = unsafe { transfer.ibcast_of_first(&mut buffer)? };
        Ok(Self {
            buffer,
            requests,
            is_rest: false,
            own,
        })
    }

    /// The statement, once it is here.
    pub(super) fn test(&mut self, transfer: &dyn Transport) -> Result<Option<Statement>, MoveError> {
        if !are_complete(&mut self.requests)? {
            return Ok(None);
        }
        if self.is_rest {
            return decode(&self.buffer).map(Some);
        }
        let (length, here) = self.buffer.split_at(LENGTH_BYTES);
        let length = u64::from_le_bytes(length.try_into().expect("8 bytes"));
        if length > STATEMENT_MAX {
            return Err(MoveError::Statement {
                problem: format!("has {length} bytes, {STATEMENT_MAX} are allowed"),
            });
        }
        if length as usize <= here.len() {
            return decode(&here[..length as usize]).map(Some);
        }
        let whole = self.own.take().unwrap_or_else(|| vec![0; length as usize]);
        self.buffer = whole;
        self.is_rest = true;
        // SAFETY: as in `begin`.
        self.requests = unsafe { transfer.ibcast_of_first(&mut self.buffer)? };
        Ok(None)
    }

    /// Leaves the memory to MPI, which may still write to it.
    pub(super) fn abandon(self) {
        std::mem::forget(self.buffer);
    }
}

fn decode(bytes: &[u8]) -> Result<Statement, MoveError> {
    pcm_proto::unpack::from_slice(bytes).map_err(|error| MoveError::Statement {
        problem: format!("cannot be read ({error}); are all ranks of one version of libpcm?"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::{Home, Value};

    fn registry(names: &[(&str, usize)]) -> Registry {
        let mut registry = Registry::new(Home {
            rank: 0,
            size: 1,
            ranks_here: 1,
            is_first: true,
        });
        for (name, size) in names {
            registry.value(name, Value::owned(vec![0; *size])).expect("valid");
        }
        registry
    }

    #[test]
    fn the_region_that_differs_is_named_with_both_sides() {
        let stated = Statement::of(&registry(&[("a", 8), ("b", 8)]), Limits::default());
        let told = |names: &[(&str, usize)]| stated.check(&registry(names), 3).expect_err("they differ").to_string();
        assert!(stated.check(&registry(&[("a", 8), ("b", 8)]), 3).is_ok());
        let text = told(&[("a", 8), ("b", 4)]);
        assert!(
            text.contains("\"b\"") && text.contains("process 3") && text.contains("4 bytes"),
            "{text}"
        );
        assert!(told(&[("a", 8)]).contains("not registered"));
        assert!(told(&[("a", 8), ("b", 8), ("c", 1)]).contains("\"c\""));
        assert!(told(&[("b", 8), ("a", 8)]).contains("number"));
    }

    #[test]
    fn a_statement_survives_its_bytes() {
        let stated = Statement::of(&registry(&[("a", 8)]), Limits::default());
        assert_eq!(
            decode(&stated.encode().expect("it can be written")).expect("it can be read"),
            stated
        );
        assert!(decode(b"\xff").is_err());
    }
}
