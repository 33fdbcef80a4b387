//! Carries out the steps of one rank: begins what may begin, and waits for messages.
#![allow(unsafe_code, reason = "calls MPI")]

use super::communicator::Wide;
use super::data::{Element, Room};
use super::failed::{Failed, data_count};
use crate::interpose::waiting;
use mpi_abi::{MPI_Op, MPI_Request};
use pcm_core::wide::schedule::{Act, Buffer, Schedule, Span};
use std::{os::raw::c_void, ptr};

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
        Self::of(Element::BYTE, send, receive)
    }
}

/// The steps under way.
struct Carrier<'a> {
    wide: &'a Wide,
    memory: Memory,
    op: Option<MPI_Op>,
    scratch: Vec<Room>,
    requests: Vec<MPI_Request>,
    /// The step of each request.
    steps: Vec<usize>,
}

impl Carrier<'_> {
    fn place(&self, span: Span) -> *mut c_void {
        let first = match span.buffer {
            Buffer::Send => self.memory.send,
            Buffer::Receive => self.memory.receive,
            Buffer::Scratch(number) => self.scratch[number].first(),
        };
        self.memory.element.at(first, span.first)
    }

    /// Begins a step; says whether it is done.
    unsafe fn begin(&mut self, number: usize, act: Act) -> Result<bool, Failed> {
        let (element, apart) = (self.memory.element, self.wide.apart);
        let datatype = element.datatype();
        // SAFETY: the caller's contract of `carry`.
        unsafe {
            match act {
                Act::Send { to, from, key } => {
                    let (count, tag) = (data_count(from.count)?, key.cast_signed());
                    self.requests.push(mpi_abi::MPI_REQUEST_NULL);
                    self.steps.push(number);
                    let place = self.place(from);
                    let request = self.requests.last_mut().map_or(ptr::null_mut(), ptr::from_mut);
                    Failed::unless(mpi_abi::PMPI_Isend(
                        place,
                        count,
                        datatype,
                        to.cast_signed(),
                        tag,
                        apart,
                        request,
                    ))?;
                    Ok(false)
                }
                Act::Receive { from, into, key } => {
                    let (count, tag) = (data_count(into.count)?, key.cast_signed());
                    self.requests.push(mpi_abi::MPI_REQUEST_NULL);
                    self.steps.push(number);
                    let (place, from) = (self.place(into), from.cast_signed());
                    let request = self.requests.last_mut().map_or(ptr::null_mut(), ptr::from_mut);
                    Failed::unless(mpi_abi::PMPI_Irecv(place, count, datatype, from, tag, apart, request))?;
                    Ok(false)
                }
                Act::Copy { from, into } => {
                    let places = (self.place(from), self.place(into));
                    element.copy(places, from.count, self.wide)?;
                    Ok(true)
                }
                Act::Combine { from, into } => {
                    if let Some(op) = self.op.filter(|_| from.count > 0) {
                        let (first, second) = (self.place(from), self.place(into));
                        let count = data_count(from.count)?;
                        Failed::unless(mpi_abi::PMPI_Reduce_local(first, second, count, datatype, op))?;
                    }
                    Ok(true)
                }
            }
        }
    }

    /// Waits until messages have come or gone; says of which steps.
    unsafe fn wait(&mut self) -> Result<Vec<usize>, Failed> {
        let mut done = vec![0; self.requests.len()];
        let (count, mut number) = (data_count(self.requests.len())?, 0);
        let (requests, places) = (self.requests.as_mut_ptr(), done.as_mut_ptr());
        while number == 0 {
            // SAFETY: the arrays are as long as said.
            Failed::unless(unsafe {
                mpi_abi::PMPI_Testsome(count, requests, &mut number, places, mpi_abi::MPI_STATUSES_IGNORE)
            })?;
            if number == 0 {
                // MPI's own wait for one of several never gives the CPU away.
                waiting::sched_yield();
            }
        }
        done.truncate(usize::try_from(number).unwrap_or(0));
        let steps = done.iter().map(|place| self.steps[*place as usize]).collect();
        let is_open = |request: &MPI_Request| *request != mpi_abi::MPI_REQUEST_NULL;
        let open: Vec<bool> = self.requests.iter().map(is_open).collect();
        let mut is_kept = open.iter();
        self.steps.retain(|_| is_kept.next() == Some(&true));
        self.requests.retain(is_open);
        Ok(steps)
    }
}

/// Carries out a schedule of this rank to its end.
///
/// # Safety
/// The memory has what the schedule names, and all ranks of the communicator carry out theirs.
pub(super) unsafe fn carry(wide: &Wide, schedule: &Schedule, memory: Memory, op: Option<MPI_Op>) -> Result<(), Failed> {
    let scratch = schedule.scratch.iter().map(|count| memory.element.room(*count));
    let mut carrier = Carrier {
        wide,
        memory,
        op,
        scratch: scratch.collect::<Result<Vec<Room>, Failed>>()?,
        requests: Vec::new(),
        steps: Vec::new(),
    };
    let steps = &schedule.steps;
    let mut waits_for: Vec<usize> = steps.iter().map(|step| step.after.len()).collect();
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (number, step) in steps.iter().enumerate() {
        step.after.iter().for_each(|at| followers[at.0].push(number));
    }
    let mut ready: Vec<usize> = (0..steps.len())
        .rev()
        .filter(|number| waits_for[*number] == 0)
        .collect();
    loop {
        while let Some(number) = ready.pop() {
            // SAFETY: the caller's contract.
            if unsafe { carrier.begin(number, steps[number].act)? } {
                release(number, &followers, &mut waits_for, &mut ready);
            }
        }
        if carrier.requests.is_empty() {
            return Ok(());
        }
        // SAFETY: as above.
        for number in unsafe { carrier.wait()? } {
            release(number, &followers, &mut waits_for, &mut ready);
        }
    }
}

fn release(number: usize, followers: &[Vec<usize>], waits_for: &mut [usize], ready: &mut Vec<usize>) {
    for follower in followers[number].iter().rev() {
        waits_for[*follower] -= 1;
        if waits_for[*follower] == 0 {
            ready.push(*follower);
        }
    }
}
