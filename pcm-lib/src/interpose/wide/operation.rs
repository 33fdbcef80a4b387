//! An operation in its forms: one that waits, one that gives the program a request, one that it starts again and again.
#![allow(unsafe_code, reason = "calls MPI")]

use super::communicator::{Member, Which, Wide, coming, settled};
use super::extensions::is_possible;
use super::failed::Failed;
use super::held::Held;
use super::persistent::{self, Again};
use super::stage::{Stage, run};
use super::{progress, task};
use mpi_abi::{MPI_Comm, MPI_Datatype, MPI_Op, MPI_Request};
use std::os::raw::c_int;
use std::sync::Arc;

/// Whether the caller waits for the operation.
#[derive(Clone, Copy)]
pub(super) enum Form<'a> {
    Waiting,
    /// Where the request goes.
    Nonblocking(*mut MPI_Request),
    /// The same, and how the operation is begun each time.
    Persistent(*mut MPI_Request, &'a dyn Fn() -> Again),
}

/// An operation in one of its forms.
pub(super) struct Operation<'a> {
    pub(super) comm: MPI_Comm,
    pub(super) which: Which,
    pub(super) form: Form<'a>,
    pub(super) datatypes: &'a [MPI_Datatype],
    pub(super) op: Option<MPI_Op>,
}

impl Operation<'_> {
    /// Carries it out, or begins that. What MPI would refuse is left to MPI's `own`: `is_sound` says what is not.
    ///
    /// # Safety
    /// The caller's arguments of the MPI function.
    pub(super) unsafe fn go(
        self,
        is_sound: impl FnOnce(Member) -> bool,
        begin: impl FnOnce(&Arc<Wide>) -> Result<Stage, Failed> + 'static,
        own: impl FnOnce() -> c_int,
    ) -> c_int {
        let outcome = match self.form {
            Form::Waiting => {
                // SAFETY: the caller's contract.
                let wide = unsafe { settled(self.comm, self.which) };
                let Some(wide) = wide.filter(|wide| is_sound(wide.member())) else {
                    return own();
                };
                run(&wide, begin)
            }
            Form::Nonblocking(request) => {
                // SAFETY: the caller's contract.
                let found = unsafe { coming(self.comm, self.which) };
                let Some(found) = found.filter(|found| !request.is_null() && is_sound(found.member())) else {
                    return own();
                };
                let held = Held::new(self.datatypes, self.op);
                // SAFETY: the caller's contract.
                let task = unsafe { task::start(found, held, Box::new(begin), request) };
                task.and_then(|task| task.map_or(Ok(()), progress::follow))
            }
            Form::Persistent(request, again) => {
                // SAFETY: the caller's contract; the operation may wait for other ranks here.
                let wide = is_possible()
                    .then(|| unsafe { settled(self.comm, self.which) })
                    .flatten();
                let is_ours = wide.is_some_and(|wide| !request.is_null() && is_sound(wide.member()));
                if !is_ours {
                    return own();
                }
                let held = Held::new(self.datatypes, self.op);
                // SAFETY: it is not null, so the caller has room for a request there.
                persistent::made(again(), held).map(|made| unsafe { *request = made })
            }
        };
        match outcome {
            Ok(()) => 0,
            Err(Failed(code)) => code,
        }
    }
}
