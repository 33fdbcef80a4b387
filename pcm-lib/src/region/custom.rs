//! A custom region: data only the application understands. It packs what a new rank is to get, and unpacks what it
//! got; the library carries the bytes.
#![allow(unsafe_code, reason = "copies what a region lends")]

use super::HookFailed;
use super::landing::{Landing, NotLanded};
use super::lent::Given;
use super::moved::{Delivered, Move};
use super::owners::Owners;
use super::records::Records;
use super::rows::Rows;
use pcm_proto::ids::RegionId;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// The application's side of a custom region.
pub trait CustomHooks {
    /// The new ranks that get a part of an old rank's data. Every process asks for every old rank, and all must
    /// answer alike. None: the ranks whose equal blocks overlap.
    fn targets(&mut self, from: u32, ranks_before: u32, ranks_after: u32) -> Option<Vec<u32>>;

    /// Writes what the new rank `to` gets, which may be nothing, at the end of `out`. The data stays as it is: the
    /// reconfiguration may still be called off.
    fn pack(&mut self, to: u32, ranks_after: u32, out: &mut Vec<u8>) -> Result<(), HookFailed>;

    /// Replaces the data by what was packed for this rank, in the order of the old ranks, this process's own among
    /// them.
    fn unpack(&mut self, parts: &[Delivered<'_>]) -> Result<(), HookFailed>;
}

/// Data of which the library knows neither the length nor, mostly, the meaning.
#[derive(Debug)]
pub(super) enum Data {
    /// Only the application understands it.
    Application(Box<dyn CustomHooks>),
    Rows(Rows),
    Records(Records),
    /// Shared with the rows that it divides.
    Owners(Rc<RefCell<Owners>>),
}

/// A registered custom region, or rows, records or owners. Keeps the order of its hooks: see "When hooks run" in
/// `docs/guide-data.md`.
#[derive(Debug)]
pub struct CustomRegion {
    pub(super) data: Data,
    /// Whether data was delivered that the application does not know of yet.
    is_delivered: bool,
}

impl CustomRegion {
    pub fn new(hooks: Box<dyn CustomHooks>) -> Self {
        Self::of(Data::Application(hooks))
    }

    pub(super) fn of(data: Data) -> Self {
        Self {
            data,
            is_delivered: false,
        }
    }

    /// Whether the library can divide what a rank packed whole: each rank takes what is its own of it.
    pub fn is_divisible(&self) -> bool {
        !matches!(self.data, Data::Application(_))
    }

    /// The array, or list of owners, that it is divided as.
    pub(crate) fn like(&self) -> Option<RegionId> {
        match &self.data {
            Data::Rows(rows) => Some(rows.like()),
            _ => None,
        }
    }

    /// The new ranks that get a part of an old rank's data.
    pub fn targets(&mut self, from: u32, by: &Move<'_>) -> Option<Vec<u32>> {
        match &mut self.data {
            Data::Application(hooks) => hooks.targets(from, by.before, by.after),
            Data::Rows(rows) => Some(rows.targets(from, by)),
            Data::Records(records) => Some(records.targets(from, by)),
            Data::Owners(owners) => Some(owners.borrow_mut().targets(from, by)),
        }
    }

    /// Fails between a delivery and the application's next step: what it has not taken up would be missing.
    pub fn pack(&mut self, to: u32, by: &Move<'_>, out: &mut Vec<u8>) -> Result<(), HookFailed> {
        match &mut self.data {
            Data::Application(_) if self.is_delivered => Err(HookFailed::because(
                "the program has not gone on since data was unpacked",
            )),
            Data::Application(hooks) => hooks.pack(to, by.after, out),
            Data::Owners(owners) => owners.borrow_mut().pack(by, out),
            Data::Rows(_) | Data::Records(_) => {
                let given = self.give(to, by)?;
                // SAFETY: what is lent is this region's.
                unsafe { given.copy_to(out) };
                Ok(())
            }
        }
    }

    /// As [`CustomRegion::pack`], but data of the library's own is lent where it is, and stays there until the region
    /// changes.
    pub(crate) fn give(&mut self, to: u32, by: &Move<'_>) -> Result<Given, HookFailed> {
        match &mut self.data {
            Data::Rows(rows) => rows.give(to, by),
            Data::Records(records) => records.give(to, by),
            Data::Application(_) | Data::Owners(_) => {
                let mut given = Given::default();
                self.pack(to, by, &mut given.made)?;
                Ok(given)
            }
        }
    }

    /// Places for what comes from these old ranks, in their order; a flag says which one is this. None where it is to
    /// be unpacked.
    pub(crate) fn landing(&mut self, from: &[(u32, bool)], by: &Move<'_>) -> Result<Option<Landing>, HookFailed> {
        match &mut self.data {
            Data::Rows(rows) => Ok(rows.landing(from, by)),
            Data::Records(records) => records.landing(from, by).map(Some),
            Data::Application(_) | Data::Owners(_) => Ok(None),
        }
    }

    /// How much comes is known: takes the memory for it.
    pub(crate) fn land(&mut self, landing: &mut Landing, by: &Move<'_>) -> Result<(), NotLanded> {
        match &mut self.data {
            Data::Rows(rows) => rows.land(landing, by),
            Data::Records(records) => records.land(landing, by),
            Data::Application(_) | Data::Owners(_) => Ok(()),
        }
    }

    /// All has come. Nothing of the region has changed, nor has it if this fails. Where rows will begin.
    pub(crate) fn landed(&mut self, landing: &mut Landing, by: &Move<'_>) -> Result<Vec<usize>, HookFailed> {
        match &mut self.data {
            Data::Rows(rows) => rows.landed(landing, by),
            Data::Records(records) => {
                records.landed(landing, by);
                Ok(Vec::new())
            }
            Data::Application(_) | Data::Owners(_) => Ok(Vec::new()),
        }
    }

    /// What has landed becomes the data.
    pub(crate) fn take_up(&mut self, landing: Landing, offsets: Vec<usize>, by: &Move<'_>) {
        self.is_delivered = true;
        match &mut self.data {
            Data::Rows(rows) => rows.take_up(landing, offsets, by),
            Data::Records(records) => records.take_up(landing, by),
            Data::Application(_) | Data::Owners(_) => {}
        }
    }

    /// Messages of a move may still use its memory: see [`super::block::Block::leave`].
    pub(super) fn leave(&mut self) {
        match &mut self.data {
            Data::Rows(rows) => rows.leave(),
            Data::Records(records) => records.leave(),
            Data::Application(_) | Data::Owners(_) => {}
        }
    }

    /// Gives back what was opened for a move.
    pub(super) fn settle(&mut self) {
        match &mut self.data {
            Data::Rows(rows) => rows.settle(),
            Data::Records(records) => records.settle(),
            Data::Application(_) | Data::Owners(_) => {}
        }
    }

    /// All that a rank packs of what the library can divide: bytes made for this, then those in their place.
    pub(crate) fn whole(&self) -> (Vec<u8>, Vec<&[u8]>) {
        match &self.data {
            Data::Application(_) => (Vec::new(), Vec::new()),
            Data::Rows(rows) => {
                let (head, columns) = rows.whole();
                (head, columns.collect())
            }
            Data::Records(records) => (Vec::new(), vec![records.bytes()]),
            Data::Owners(owners) => (owners.borrow().packed(), Vec::new()),
        }
    }

    pub fn unpack(&mut self, parts: &[Delivered<'_>], by: &Move<'_>) -> Result<(), HookFailed> {
        self.is_delivered = true;
        match &mut self.data {
            Data::Application(hooks) => hooks.unpack(parts),
            Data::Rows(rows) => rows.unpack(parts, by),
            Data::Records(records) => records.unpack(parts, by),
            Data::Owners(owners) => owners.borrow_mut().unpack(parts, by),
        }
    }

    /// The application goes on, and was told.
    pub fn goes_on(&mut self) {
        self.is_delivered = false;
    }

    /// Bytes, as far as they are known.
    pub(super) fn bytes(&self) -> usize {
        match &self.data {
            Data::Application(_) => 0,
            Data::Rows(rows) => rows.bytes(),
            Data::Records(records) => records.bytes().len(),
            Data::Owners(owners) => owners.borrow().bytes(),
        }
    }

    /// For comparison between processes; `like` is the name of the array that it is divided as.
    pub(super) fn text(&self, like: &str) -> String {
        match &self.data {
            Data::Application(_) => "custom region".to_owned(),
            Data::Rows(rows) => rows.text(like),
            Data::Records(records) => format!("records of {} bytes", records.size()),
            Data::Owners(owners) => format!("owners of {} rows", owners.borrow().rows()),
        }
    }

    pub(super) fn noun(&self) -> &'static str {
        match &self.data {
            Data::Application(_) => "a custom region",
            Data::Rows(_) => "rows of different lengths",
            Data::Records(_) => "records",
            Data::Owners(_) => "a list of owners",
        }
    }
}

impl fmt::Debug for dyn CustomHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hooks of the application")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::RefCell, rc::Rc};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Call {
        Pack,
        Unpack,
        GoesOn,
    }

    struct Recorded(Rc<RefCell<Vec<Call>>>);

    impl CustomHooks for Recorded {
        fn targets(&mut self, from: u32, _: u32, _: u32) -> Option<Vec<u32>> {
            Some(vec![from])
        }

        fn pack(&mut self, _: u32, _: u32, _: &mut Vec<u8>) -> Result<(), HookFailed> {
            self.0.borrow_mut().push(Call::Pack);
            Ok(())
        }

        fn unpack(&mut self, _: &[Delivered<'_>]) -> Result<(), HookFailed> {
            self.0.borrow_mut().push(Call::Unpack);
            Ok(())
        }
    }

    /// Each order of up to eight changes, checkpoints and steps of the program.
    #[test]
    fn no_order_of_calls_packs_between_a_delivery_and_the_next_step_of_the_program() {
        const CALLS: [Call; 3] = [Call::Pack, Call::Unpack, Call::GoesOn];
        for number in 0..CALLS.len().pow(8) {
            let calls = (0..8).map(|place| CALLS[number / CALLS.len().pow(place) % CALLS.len()]);
            let made = Rc::new(RefCell::new(Vec::new()));
            let mut region = CustomRegion::new(Box::new(Recorded(Rc::clone(&made))));
            let mut wanted = Vec::new();
            let mut is_delivered = false;
            for call in calls {
                let is_legal = call != Call::Pack || !is_delivered;
                let outcome = match call {
                    Call::Pack => region.pack(0, &Move::among((1, 1), 0), &mut Vec::new()),
                    Call::Unpack => region.unpack(&[], &Move::among((1, 1), 0)),
                    Call::GoesOn => {
                        region.goes_on();
                        made.borrow_mut().push(call);
                        Ok(())
                    }
                };
                assert_eq!(outcome.is_ok(), is_legal, "{wanted:?}, then {call:?}");
                if is_legal {
                    wanted.push(call);
                    is_delivered = call == Call::Unpack || (is_delivered && call != Call::GoesOn);
                }
            }
            assert_eq!(*made.borrow(), wanted);
        }
    }
}
