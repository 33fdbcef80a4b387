//! A custom region: data only the application understands. It packs what a new rank is to get, and unpacks what it
//! got; the library carries the bytes.

use super::HookFailed;
use std::fmt;

/// What one old rank packed for this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered<'a> {
    /// The rank it comes from, as numbered before.
    pub from: u32,
    /// What it packed.
    pub bytes: &'a [u8],
}

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

/// A registered custom region. Keeps the order of its hooks: see "When hooks run" in `docs/guide-data.md`.
pub struct CustomRegion {
    hooks: Box<dyn CustomHooks>,
    /// Whether data was delivered that the application does not know of yet.
    is_delivered: bool,
}

impl CustomRegion {
    pub fn new(hooks: Box<dyn CustomHooks>) -> Self {
        Self {
            hooks,
            is_delivered: false,
        }
    }

    pub fn targets(&mut self, from: u32, ranks_before: u32, ranks_after: u32) -> Option<Vec<u32>> {
        self.hooks.targets(from, ranks_before, ranks_after)
    }

    /// Fails between a delivery and the application's next step: what it has not taken up would be missing.
    pub fn pack(&mut self, to: u32, ranks_after: u32, out: &mut Vec<u8>) -> Result<(), HookFailed> {
        if self.is_delivered {
            return Err(HookFailed::because(
                "the program has not gone on since data was unpacked",
            ));
        }
        self.hooks.pack(to, ranks_after, out)
    }

    pub fn unpack(&mut self, parts: &[Delivered<'_>]) -> Result<(), HookFailed> {
        self.is_delivered = true;
        self.hooks.unpack(parts)
    }

    /// The application goes on, and was told.
    pub fn goes_on(&mut self) {
        self.is_delivered = false;
    }
}

impl fmt::Debug for CustomRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CustomRegion")
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
                    Call::Pack => region.pack(0, 1, &mut Vec::new()),
                    Call::Unpack => region.unpack(&[]),
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
