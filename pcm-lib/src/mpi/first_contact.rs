//! The first messages between two groups that have just met. Every pair of processes opens its connection in them, from
//! one side only: when both sides open at the same time, under load, MPICH's tcp transport loses one of the two now and
//! then, and the collective call in which that happens never returns.
#![allow(unsafe_code, reason = "calls MPI with memory that must outlive the call")]

use super::{InterCommunicator, MpiError, Request, Waited, error::check, request};
use std::time::{Duration, Instant};

/// No other message travels between the groups before the first contact is made.
const TAG: i32 = 0;

impl InterCommunicator {
    /// An empty message to each process of the other side, and one back; the side that `begins` opens the connections.
    /// Collective over both groups, one of which begins; fails when somebody is not heard of within `limit`.
    pub fn make_first_contact(&self, begins: bool, limit: Duration) -> Result<(), MpiError> {
        let end = Instant::now() + limit;
        let peers = self.remote_size()?;
        for peer in (0..peers).filter(|_| begins) {
            self.say(peer, end)?;
        }
        for peer in 0..peers {
            self.hear(peer, end)?;
            if !begins {
                self.say(peer, end)?;
            }
        }
        Ok(())
    }

    fn say(&self, peer: u32, end: Instant) -> Result<(), MpiError> {
        let mut made = request::none();
        // SAFETY: the communicator exists; no memory belongs to an empty message.
        let code = unsafe {
            let (data, to) = (std::ptr::null(), peer.cast_signed());
            mpi_abi::PMPI_Isend(data, 0, request::byte(), to, TAG, self.handle(), &mut made)
        };
        check("Isend", code)?;
        finish(Request(made), peer, end)
    }

    fn hear(&self, peer: u32, end: Instant) -> Result<(), MpiError> {
        let mut made = request::none();
        // SAFETY: as in `say`.
        let code = unsafe {
            let (room, from) = (std::ptr::null_mut(), peer.cast_signed());
            mpi_abi::PMPI_Irecv(room, 0, request::byte(), from, TAG, self.handle(), &mut made)
        };
        check("Irecv", code)?;
        finish(Request(made), peer, end)
    }
}

fn finish(mut request: Request, peer: u32, end: Instant) -> Result<(), MpiError> {
    let left = end.saturating_duration_since(Instant::now());
    match Request::wait_any(std::slice::from_mut(&mut request), left)? {
        Waited::Complete { .. } | Waited::Nothing => Ok(()),
        Waited::Expired => {
            // SAFETY: the request is MPI's and not used again; nothing will be written for it, its message is empty.
            unsafe {
                mpi_abi::PMPI_Cancel(&mut request.0);
                mpi_abi::PMPI_Request_free(&mut request.0);
            }
            Err(MpiError {
                call: "first contact",
                code: mpi_abi::MPI_ERR_OTHER,
                text: format!("process {peer} of the other side was connected and is not heard of"),
            })
        }
    }
}
