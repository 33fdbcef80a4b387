//! Memory of the library's own for one array: a window of open memory in a range of addresses long enough for every
//! part the rank may come to own. An element keeps its address when the window slides, so what a rank keeps is neither
//! sent nor copied.
#![allow(unsafe_code, reason = "hands out memory it owns")]

use super::{
    MemoryError,
    reservation::{Reservation, page_size},
    unmade::Unmade,
};
use std::{ops::Range, ptr::NonNull};

/// Reservations above this are not tried: a process has 128 TiB of addresses for all its arrays.
const SPAN_MAX: u64 = 1 << 44;

/// Where local storage lies in the range of addresses it can slide over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes of the whole range.
    pub span: u64,
    /// Where local storage begins in it.
    pub offset: u64,
    /// Bytes of local storage.
    pub length: u64,
}

#[derive(Debug)]
pub(super) struct Window {
    reservation: Reservation,
    /// Whole pages that are open.
    open: Range<usize>,
    /// Local storage in the reservation.
    start: usize,
    length: usize,
}

impl Window {
    /// Zeroed storage. Where the whole span cannot be had (a limit on addresses), it has just its length and cannot
    /// slide.
    pub(super) fn new(place: Place) -> Result<Self, MemoryError> {
        let not_addressable = MemoryError::NotAddressable { wanted: place.length };
        let Ok(length) = usize::try_from(place.length) else {
            return Err(not_addressable);
        };
        assert!(
            place
                .offset
                .checked_add(place.length)
                .is_some_and(|end| end <= place.span),
            "{place:?} lies in its span"
        );
        let wide = (place.span <= SPAN_MAX)
            .then(|| Reservation::new(place.span as usize).ok())
            .flatten();
        let (reservation, start) = match wide {
            Some(reservation) => (reservation, place.offset as usize),
            None => (Reservation::new(length)?, 0),
        };
        let mut storage = Self {
            reservation,
            open: 0..0,
            start,
            length,
        };
        storage.open_add(start, length)?;
        Ok(storage)
    }

    /// The first byte of local storage. Good until the window slides or the storage is dropped.
    pub(super) fn pointer(&self) -> NonNull<u8> {
        // SAFETY: local storage lies in the reservation.
        unsafe { self.reservation.base().add(self.start) }
    }

    /// Bytes of local storage.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Has all memory made now, so that what arrives later does not wait for it.
    pub(super) fn populate(&mut self) {
        if let Some(mut unmade) = self.opened() {
            while unmade.make_some(usize::MAX) > 0 {}
        }
    }

    /// What a prepared slide has opened beside local storage.
    pub(super) fn opened_beside(&self) -> impl Iterator<Item = Unmade> {
        let own = pages(self.start, self.length);
        let below = self.open.start..own.start.min(self.open.end);
        let above = own.end.max(self.open.start)..self.open.end;
        [below, above]
            .into_iter()
            .filter_map(|range| self.reservation.unmade(&range))
    }

    /// All pages of it.
    pub(super) fn opened(&self) -> Option<Unmade> {
        self.reservation.unmade(&self.open)
    }

    /// Whether local storage could begin `shift` bytes later and have this length.
    pub(super) fn can_slide(&self, shift: i64, length: u64) -> bool {
        self.slid(shift, length).is_some()
    }

    /// Opens what local storage needs after a slide, beside what it has now. Returns where the new local storage will
    /// begin; [`Window::slide`] completes it, [`Window::settle`] takes it back.
    pub(super) fn prepare_slide(&mut self, shift: i64, length: u64) -> Result<NonNull<u8>, MemoryError> {
        let Some(start) = self.slid(shift, length) else {
            return Err(MemoryError::NotAddressable { wanted: length });
        };
        self.open_add(start, length as usize)?;
        // SAFETY: `slid` has checked it.
        Ok(unsafe { self.reservation.base().add(start) })
    }

    /// Where local storage will begin after a slide for which all is open.
    pub(super) fn prepared(&self, shift: i64, length: u64) -> Option<NonNull<u8>> {
        let start = self.slid(shift, length)?;
        let wanted = pages(start, length as usize);
        let is_open = self.open.start <= wanted.start && wanted.end <= self.open.end;
        // SAFETY: `slid` has checked it.
        is_open.then(|| unsafe { self.reservation.base().add(start) })
    }

    /// Makes the prepared local storage the present one and gives back what it does not cover.
    pub(super) fn slide(&mut self, shift: i64, length: u64) {
        let start = self.slid(shift, length).expect("it was prepared");
        (self.start, self.length) = (start, length as usize);
        self.settle();
    }

    /// Gives back all that local storage does not cover.
    pub(super) fn settle(&mut self) {
        let keep = pages(self.start, self.length);
        let open = self.open.clone();
        self.reservation.close(&(open.start..keep.start.min(open.end)));
        self.reservation.close(&(keep.end.max(open.start)..open.end));
        self.open = keep;
    }

    fn slid(&self, shift: i64, length: u64) -> Option<usize> {
        let start = i64::try_from(self.start).ok()?.checked_add(shift)?;
        let start = usize::try_from(start).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        (end <= self.reservation.length()).then_some(start)
    }

    /// Opens the pages of a range and all between it and those that are open: windows overlap or lie side by side.
    fn open_add(&mut self, start: usize, length: usize) -> Result<(), MemoryError> {
        let wanted = pages(start, length);
        if self.open.is_empty() {
            self.reservation.open(&wanted)?;
            self.open = wanted;
            return Ok(());
        }
        let open = self.open.clone();
        let below = wanted.start.min(open.start)..open.start;
        let above = open.end..wanted.end.max(open.end);
        self.reservation.open(&below)?;
        if let Err(error) = self.reservation.open(&above) {
            self.reservation.close(&below);
            return Err(error);
        }
        self.open = below.start..above.end;
        Ok(())
    }
}

fn pages(start: usize, length: usize) -> Range<usize> {
    let page = page_size();
    let first = start - start % page;
    first..(start + length).next_multiple_of(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Window {
        unsafe fn bytes(&self) -> &[u8] {
            // SAFETY: the range is open; the caller keeps writers away.
            unsafe { std::slice::from_raw_parts(self.pointer().as_ptr(), self.length) }
        }
    }

    const MIB: u64 = 1 << 20;

    fn resident_bytes() -> u64 {
        let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("Linux");
        let line = text.lines().find(|line| line.starts_with("Rss:")).expect("it is there");
        let kibibytes: u64 = line
            .split_ascii_whitespace()
            .nth(1)
            .expect("a number")
            .parse()
            .expect("a number");
        kibibytes << 10
    }

    fn fill(storage: &mut Window, byte: u8) {
        // SAFETY: the storage is the test's own.
        unsafe { storage.pointer().as_ptr().write_bytes(byte, storage.length()) };
    }

    #[test]
    fn bytes_keep_their_address_when_the_window_slides_either_way() {
        let place = Place {
            span: 64 * MIB,
            offset: 16 * MIB + 8,
            length: 8 * MIB,
        };
        let mut storage = Window::new(place).expect("memory");
        fill(&mut storage, 7);
        let old = storage.pointer();
        for (shift, length) in [(-(4 * MIB as i64), 12 * MIB), (6 * MIB as i64 + 24, 3 * MIB)] {
            let before = storage.pointer();
            let prepared = storage.prepare_slide(shift, length).expect("memory");
            storage.slide(shift, length);
            assert_eq!(storage.pointer(), prepared);
            assert_eq!(
                prepared.as_ptr().addr(),
                before.as_ptr().addr().wrapping_add_signed(shift as isize)
            );
        }
        // SAFETY: nobody writes.
        let bytes = unsafe { storage.bytes() };
        assert!(storage.pointer() > old && bytes.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn new_bytes_are_zero_and_a_slide_taken_back_changes_nothing() {
        let place = Place {
            span: 8 * MIB,
            offset: 0,
            length: MIB,
        };
        let mut storage = Window::new(place).expect("memory");
        fill(&mut storage, 9);
        let new = storage.prepare_slide(0, 4 * MIB).expect("memory");
        // SAFETY: 4 MiB from here are open.
        let grown = unsafe { std::slice::from_raw_parts_mut(new.as_ptr(), 4 * MIB as usize) };
        assert!(grown[MIB as usize..].iter().all(|byte| *byte == 0));
        grown[MIB as usize..].fill(5);
        storage.settle();
        assert_eq!(storage.length(), MIB as usize);
        // SAFETY: nobody writes.
        assert!(unsafe { storage.bytes() }.iter().all(|byte| *byte == 9));
        storage.prepare_slide(0, 4 * MIB).expect("memory");
        storage.slide(0, 4 * MIB);
        // SAFETY: nobody writes.
        assert!(
            unsafe { &storage.bytes()[MIB as usize..] }
                .iter()
                .all(|byte| *byte == 0)
        );
    }

    #[test]
    fn memory_that_is_not_covered_any_more_goes_back_to_the_system() {
        let place = Place {
            span: 256 * MIB,
            offset: 0,
            length: 128 * MIB,
        };
        let mut storage = Window::new(place).expect("memory");
        fill(&mut storage, 1);
        let full = resident_bytes();
        storage.prepare_slide(96 * MIB as i64, 32 * MIB).expect("memory");
        storage.slide(96 * MIB as i64, 32 * MIB);
        let rest = resident_bytes();
        assert!(rest + 64 * MIB < full, "{full} before, {rest} afterwards");
    }

    #[test]
    fn storage_of_no_bytes_has_an_address() {
        let place = Place {
            span: 0,
            offset: 0,
            length: 0,
        };
        let storage = Window::new(place).expect("memory");
        // SAFETY: nobody writes.
        assert_eq!(unsafe { storage.bytes() }, &[] as &[u8]);
    }

    #[test]
    fn more_than_a_process_can_address_is_an_error() {
        let place = Place {
            span: 1 << 62,
            offset: 0,
            length: 1 << 62,
        };
        assert!(Window::new(place).is_err());
    }
}
