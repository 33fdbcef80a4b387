//! A nonblocking operation, and the request that the program has for it.
#![allow(unsafe_code, reason = "calls MPI, is called by it")]

use super::carry::Carrier;
use super::communicator::{Found, Wide};
use super::failed::Failed;
use super::held::Held;
use super::requests;
use super::stage::{Next, Stage};
use super::turns::{Turn, Turns};
use mpi_abi::{
    MPI_Grequest_cancel_function, MPI_Grequest_free_function, MPI_Grequest_query_function, MPI_Request, MPI_Status,
};
use std::{
    mem,
    os::raw::{c_int, c_void},
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicI32,
            Ordering::{Acquire, Release},
        },
    },
};

/// How an operation begins once the sites are known.
pub(super) type Begin = Box<dyn FnOnce(&Arc<Wide>) -> Result<Stage, Failed>>;

/// What the request shows.
#[derive(Debug, Default)]
struct Outcome {
    code: AtomicI32,
    /// Stays until the program has waited: then its communicator may be freed, inside MPI it may not.
    wide: OnceLock<Arc<Wide>>,
}

enum State {
    Waiting(Begin),
    Carrying(Box<Carrier>, Next),
    Over(Result<(), Failed>),
}

/// An operation under way.
pub(super) struct Task {
    found: Found,
    turns: Arc<Turns>,
    turn: Turn,
    state: State,
    request: MPI_Request,
    outcome: Arc<Outcome>,
    held: Held,
}

/// Begins an operation; none if it is over already.
///
/// # Safety
/// The memory of the operation stays until it is over, and all ranks of the communicator begin it.
pub(super) unsafe fn start(
    found: Found,
    held: Held,
    begin: Begin,
    request: *mut MPI_Request,
) -> Result<Option<Task>, Failed> {
    let turns = found.turns();
    let outcome: Arc<Outcome> = Arc::default();
    let shown = Arc::into_raw(Arc::clone(&outcome)).cast_mut().cast();
    let mut made = mpi_abi::MPI_REQUEST_NULL();
    // SAFETY: the functions take an outcome, and `forgotten` gives it back.
    unsafe {
        Failed::unless(mpi_abi::PMPI_Grequest_start(
            (asked as *const ()).cast_mut().cast::<MPI_Grequest_query_function>(),
            (forgotten as *const ()).cast_mut().cast::<MPI_Grequest_free_function>(),
            (cancelled as *const ())
                .cast_mut()
                .cast::<MPI_Grequest_cancel_function>(),
            shown,
            &mut made,
        ))?;
        *request = made;
    }
    let turn = turns.take();
    let mut task = Task {
        found,
        turns,
        turn,
        state: State::Waiting(begin),
        request: made,
        outcome,
        held,
    };
    if task.go_on() {
        task.end();
        return Ok(None);
    }
    requests::opened(made);
    Ok(Some(task))
}

impl Task {
    /// As far as it goes without waiting; says whether it is over. May be called inside MPI.
    pub(super) fn go_on(&mut self) -> bool {
        loop {
            // What this leaves behind is replaced in each case.
            let state = mem::replace(&mut self.state, State::Over(Ok(())));
            let (state, has_moved) = match state {
                State::Waiting(begin) => match self.wide() {
                    Ok(Some(wide)) => (self.entered(&wide, begin(&wide)), true),
                    Ok(None) => (State::Waiting(begin), false),
                    Err(failed) => (State::Over(Err(failed)), true),
                },
                State::Carrying(mut carrier, next) => match carrier.advance() {
                    Ok(true) => {
                        drop(carrier);
                        (self.next(next), true)
                    }
                    Ok(false) => (State::Carrying(carrier, next), false),
                    Err(failed) => {
                        // MPI may still write to its memory.
                        mem::forget((carrier, next));
                        (State::Over(Err(failed)), true)
                    }
                },
                State::Over(outcome) => (State::Over(outcome), false),
            };
            self.state = state;
            if !has_moved {
                return matches!(self.state, State::Over(_));
            }
        }
    }

    /// None while the operation may not begin.
    fn wide(&self) -> Result<Option<Arc<Wide>>, Failed> {
        let wide = self.found.wide()?;
        Ok(wide.filter(|wide| self.turns.may_begin(self.turn, wide.slots)))
    }

    fn next(&self, next: Next) -> State {
        match self.found.wide() {
            Ok(Some(wide)) => self.entered(&wide, next()),
            Ok(None) => State::Over(Err(Failed(mpi_abi::MPI_ERR_INTERN))),
            Err(failed) => State::Over(Err(failed)),
        }
    }

    fn entered(&self, wide: &Arc<Wide>, stage: Result<Stage, Failed>) -> State {
        match stage {
            Ok(Stage::Done) => State::Over(Ok(())),
            Ok(Stage::Carry(plan, next)) => match Carrier::new(wide, self.turn, plan) {
                Ok(carrier) => State::Carrying(Box::new(carrier), next),
                Err(failed) => State::Over(Err(failed)),
            },
            Err(failed) => State::Over(Err(failed)),
        }
    }

    /// Completes the request.
    pub(super) fn end(self) {
        let Self {
            found,
            turns,
            turn,
            state,
            request,
            outcome,
            held,
        } = self;
        if let State::Over(Err(Failed(code))) = state {
            outcome.code.store(code, Release);
        }
        if let Ok(Some(wide)) = found.wide() {
            _ = outcome.wide.set(wide);
        }
        turns.over(turn);
        drop((found, turns, held, outcome));
        requests::closed(request);
        // SAFETY: the request of this operation, which is complete only now.
        unsafe { mpi_abi::PMPI_Grequest_complete(request) };
    }
}

/// MPI asks how it went.
unsafe extern "C" fn asked(outcome: *mut c_void, status: *mut MPI_Status) -> c_int {
    // SAFETY: MPI gives what `start` gave it, and a status.
    unsafe {
        mpi_abi::PMPI_Status_set_elements(status, mpi_abi::MPI_BYTE(), 0);
        mpi_abi::PMPI_Status_set_cancelled(status, 0);
        (*status).MPI_SOURCE = mpi_abi::MPI_ANY_SOURCE;
        (*status).MPI_TAG = mpi_abi::MPI_ANY_TAG;
        (*outcome.cast::<Outcome>()).code.load(Acquire)
    }
}

/// The program has waited for the request, or freed it.
unsafe extern "C" fn forgotten(outcome: *mut c_void) -> c_int {
    // SAFETY: what `start` gave MPI, once.
    drop(unsafe { Arc::from_raw(outcome.cast::<Outcome>().cast_const()) });
    0
}

/// The program must not cancel it.
unsafe extern "C" fn cancelled(_outcome: *mut c_void, _is_complete: c_int) -> c_int {
    0
}
