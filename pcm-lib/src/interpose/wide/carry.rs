//! Carries out the steps of one rank: begins what may begin, and takes in what has come.
#![allow(unsafe_code, reason = "calls MPI")]

use super::communicator::Wide;
use super::data::{Element, Room};
use super::extensions;
use super::failed::{Failed, data_count};
use super::turns::Turn;
use crate::interpose::waiting;
use mpi_abi::{MPI_Op, MPI_Request};
use pcm_core::wide::schedule::{Act, Buffer, Schedule, Span};
use std::{
    os::raw::{c_int, c_void},
    ptr,
    sync::Arc,
};

/// Where the operands of an operation are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    element: Element,
    send: *mut c_void,
    receive: *mut c_void,
}

impl Memory {
    pub(super) fn of(element: Element, send: *mut c_void, receive: *mut c_void) -> Self {
        Self { element, send, receive }
    }

    pub(super) fn bytes(send: *mut c_void, receive: *mut c_void) -> Self {
        Self::of(Element::byte(), send, receive)
    }

    /// Of messages without anything in them.
    pub(super) fn none() -> Self {
        Self::bytes(ptr::null_mut(), ptr::null_mut())
    }
}

/// A plan, and what it is carried out with.
pub(super) struct Plan {
    pub(super) schedule: Schedule,
    pub(super) memory: Memory,
    pub(super) op: Option<MPI_Op>,
}

/// A plan that is being carried out. Must not be dropped while it [`Carrier::is_busy`].
pub(super) struct Carrier {
    wide: Arc<Wide>,
    turn: Turn,
    schedule: Schedule,
    memory: Memory,
    op: Option<MPI_Op>,
    scratch: Vec<Room>,
    requests: Vec<MPI_Request>,
    /// The step of each request.
    steps: Vec<usize>,
    /// How many steps each one waits for, and which wait for it.
    waits_for: Vec<usize>,
    followers: Vec<Vec<usize>>,
    ready: Vec<usize>,
}

/// How to find out what has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// MPI may do whatever else it has to do.
    Free,
    /// MPI is doing that: in a function that it calls it must not begin it once more.
    Inside,
}

impl Carrier {
    pub(super) fn new(wide: &Arc<Wide>, turn: Turn, plan: Plan) -> Result<Self, Failed> {
        let Plan { schedule, memory, op } = plan;
        let steps = &schedule.steps;
        let scratch = schedule.scratch.iter().map(|count| memory.element.room(*count));
        let scratch = scratch.collect::<Result<Vec<Room>, Failed>>()?;
        let waits_for: Vec<usize> = steps.iter().map(|step| step.after.len()).collect();
        let mut followers: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
        for (number, step) in steps.iter().enumerate() {
            step.after.iter().for_each(|at| followers[at.0].push(number));
        }
        let ready = (0..steps.len()).rev().filter(|number| waits_for[*number] == 0);
        Ok(Self {
            wide: Arc::clone(wide),
            turn,
            memory,
            op,
            scratch,
            requests: Vec::new(),
            steps: Vec::new(),
            ready: ready.collect(),
            waits_for,
            followers,
            schedule,
        })
    }

    /// Whether MPI may still write to memory of the plan or read it.
    pub(super) fn is_busy(&self) -> bool {
        !self.requests.is_empty()
    }

    /// To the end.
    pub(super) fn carry(mut self) -> Result<(), Failed> {
        let outcome = loop {
            match self.go_on(Look::Free) {
                Ok(false) if self.are_last() => break self.wait_for_all().map(|()| true),
                // MPI's own wait for one of several never gives the CPU away.
                Ok(false) => _ = waiting::sched_yield(),
                outcome => break outcome,
            }
        };
        if self.is_busy() {
            // An error has ended it in the middle.
            std::mem::forget(self);
        }
        outcome.map(drop)
    }

    /// Whether nothing is to be done once the messages under way have come.
    fn are_last(&self) -> bool {
        self.steps.iter().all(|number| self.followers[*number].is_empty())
    }

    fn wait_for_all(&mut self) -> Result<(), Failed> {
        let (count, requests) = (data_count(self.requests.len())?, self.requests.as_mut_ptr());
        // SAFETY: there are so many requests.
        Failed::unless(unsafe { mpi_abi::PMPI_Waitall(count, requests, mpi_abi::MPI_STATUSES_IGNORE) })?;
        self.forget_complete();
        Ok(())
    }

    /// As far as it goes without waiting; says whether the end is reached. May be called inside MPI.
    pub(super) fn advance(&mut self) -> Result<bool, Failed> {
        self.go_on(Look::Inside)
    }

    fn go_on(&mut self, look: Look) -> Result<bool, Failed> {
        loop {
            while let Some(number) = self.ready.pop() {
                if self.begin(number, self.schedule.steps[number].act)? {
                    self.release(number);
                }
            }
            if self.requests.is_empty() {
                return Ok(true);
            }
            let come = match look {
                Look::Free => self.tested()?,
                Look::Inside => self.complete()?,
            };
            if come.is_empty() {
                return Ok(false);
            }
            come.into_iter().for_each(|number| self.release(number));
        }
    }

    fn place(&self, span: Span) -> *mut c_void {
        let first = match span.buffer {
            Buffer::Send => self.memory.send,
            Buffer::Receive => self.memory.receive,
            Buffer::Scratch(number) => self.scratch[number].first(),
        };
        self.memory.element.at(first, span.first)
    }

    /// Begins a step; says whether it is done.
    fn begin(&mut self, number: usize, act: Act) -> Result<bool, Failed> {
        let (element, apart) = (self.memory.element, self.wide.apart);
        let of = element.datatype();
        match act {
            Act::Send { to, from, key } => {
                let (buffer, count, tag) = self.message(from, key)?;
                let request = self.request(number);
                // SAFETY: the operation's memory has what the plan names, and stays until the request is complete.
                Failed::unless(unsafe {
                    mpi_abi::PMPI_Isend(buffer, count, of, to.cast_signed(), tag, apart, request)
                })?;
                Ok(false)
            }
            Act::Receive { from, into, key } => {
                let (buffer, count, tag) = self.message(into, key)?;
                let (from, request) = (from.cast_signed(), self.request(number));
                // SAFETY: as above.
                Failed::unless(unsafe { mpi_abi::PMPI_Irecv(buffer, count, of, from, tag, apart, request) })?;
                Ok(false)
            }
            Act::Copy { from, into } => {
                // SAFETY: as above.
                unsafe { element.copy((self.place(from), self.place(into)), from.count)? };
                Ok(true)
            }
            Act::Combine { from, into } => {
                if let Some(op) = self.op.filter(|_| from.count > 0) {
                    let (first, second) = (self.place(from), self.place(into));
                    let count = data_count(from.count)?;
                    // SAFETY: as above.
                    Failed::unless(unsafe { mpi_abi::PMPI_Reduce_local(first, second, count, of, op) })?;
                }
                Ok(true)
            }
        }
    }

    /// Memory, count and tag of a message.
    fn message(&self, span: Span, key: u32) -> Result<(*mut c_void, c_int, c_int), Failed> {
        let tag = self
            .wide
            .slots
            .tag(self.turn, key)
            .ok_or(Failed(mpi_abi::MPI_ERR_OTHER))?;
        Ok((self.place(span), data_count(span.count)?, tag))
    }

    /// Place for the request of a step.
    fn request(&mut self, number: usize) -> *mut MPI_Request {
        self.requests.push(mpi_abi::MPI_REQUEST_NULL());
        self.steps.push(number);
        self.requests.last_mut().map_or(ptr::null_mut(), ptr::from_mut)
    }

    /// The steps whose messages have come or gone.
    fn tested(&mut self) -> Result<Vec<usize>, Failed> {
        let mut done = vec![0; self.requests.len()];
        let (count, mut number) = (data_count(self.requests.len())?, 0);
        let (requests, places) = (self.requests.as_mut_ptr(), done.as_mut_ptr());
        // SAFETY: the arrays are as long as said.
        Failed::unless(unsafe {
            mpi_abi::PMPI_Testsome(count, requests, &mut number, places, mpi_abi::MPI_STATUSES_IGNORE)
        })?;
        done.truncate(usize::try_from(number).unwrap_or(0));
        let steps = done.iter().map(|place| self.steps[*place as usize]).collect();
        self.forget_complete();
        Ok(steps)
    }

    /// The same without anything else that MPI has to do.
    fn complete(&mut self) -> Result<Vec<usize>, Failed> {
        let mut steps = Vec::new();
        for (request, step) in self.requests.iter_mut().zip(&self.steps) {
            if extensions::is_complete(request)? {
                steps.push(*step);
            }
        }
        if !steps.is_empty() {
            self.forget_complete();
        }
        Ok(steps)
    }

    fn forget_complete(&mut self) {
        let is_open = |request: &MPI_Request| *request != mpi_abi::MPI_REQUEST_NULL();
        let open: Vec<bool> = self.requests.iter().map(is_open).collect();
        let mut is_kept = open.iter();
        self.steps.retain(|_| is_kept.next() == Some(&true));
        self.requests.retain(is_open);
    }

    /// A step is done: what waited for it alone may begin.
    fn release(&mut self, number: usize) {
        for follower in self.followers[number].iter().rev() {
            self.waits_for[*follower] -= 1;
            if self.waits_for[*follower] == 0 {
                self.ready.push(*follower);
            }
        }
    }
}
