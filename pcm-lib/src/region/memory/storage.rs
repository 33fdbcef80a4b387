//! The local storage of one array: a window of the library's own memory, or memory that the program holds. Never knows
//! partitions.
#![allow(unsafe_code, reason = "hands out memory")]

use super::{
    MemoryError, Unmade,
    held::{Held, SharedMemory},
    window::{Place, Window},
};
use std::ptr::NonNull;

/// Memory of one array on this rank.
#[derive(Debug)]
pub struct Storage(Kind);

#[derive(Debug)]
enum Kind {
    Window(Window),
    Held(Held),
}

impl Storage {
    /// Zeroed storage. Where the whole span cannot be had (a limit on addresses), it has just its length and cannot
    /// slide.
    pub fn new(place: Place) -> Result<Self, MemoryError> {
        Window::new(place).map(Kind::Window).map(Self)
    }

    /// Zeroed storage that the program makes.
    pub fn of_program(program: &SharedMemory, length: u64) -> Result<Self, MemoryError> {
        Held::make(program, length).map(Kind::Held).map(Self)
    }

    /// From now on this is the array's.
    pub fn take_up(&mut self) {
        if let Kind::Held(held) = &mut self.0 {
            held.take_up();
        }
    }

    /// Two arrays change places.
    pub fn swap(&mut self, other: &mut Self) {
        match (&mut self.0, &mut other.0) {
            (Kind::Held(own), Kind::Held(other)) => own.swap(other),
            (own, other) => std::mem::swap(own, other),
        }
    }

    fn window(&self) -> Option<&Window> {
        match &self.0 {
            Kind::Window(window) => Some(window),
            Kind::Held(_) => None,
        }
    }

    fn window_mut(&mut self) -> Option<&mut Window> {
        match &mut self.0 {
            Kind::Window(window) => Some(window),
            Kind::Held(_) => None,
        }
    }

    /// The first byte of local storage. Good until the window slides or the storage is dropped.
    pub fn pointer(&self) -> NonNull<u8> {
        match &self.0 {
            Kind::Window(window) => window.pointer(),
            Kind::Held(held) => held.pointer(),
        }
    }

    /// Bytes of local storage.
    pub fn length(&self) -> usize {
        match &self.0 {
            Kind::Window(window) => window.length(),
            Kind::Held(held) => held.length(),
        }
    }

    /// The bytes of local storage.
    ///
    /// # Safety
    /// Nobody writes to them meanwhile.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the range is open; the caller keeps writers away.
        unsafe { std::slice::from_raw_parts(self.pointer().as_ptr(), self.length()) }
    }

    /// Has all memory made now, so that what arrives later does not wait for it.
    pub fn populate(&mut self) {
        if let Some(window) = self.window_mut() {
            window.populate();
        }
    }

    /// What a prepared slide has opened beside local storage.
    pub fn opened_beside(&self) -> impl Iterator<Item = Unmade> {
        self.window().into_iter().flat_map(Window::opened_beside)
    }

    /// All pages of it that can be made before their first use.
    pub fn opened(&self) -> Option<Unmade> {
        self.window()?.opened()
    }

    /// Whether local storage could begin `shift` bytes later and have this length.
    pub fn can_slide(&self, shift: i64, length: u64) -> bool {
        self.window().is_some_and(|window| window.can_slide(shift, length))
    }

    /// Opens what local storage needs after a slide, beside what it has now. Returns where the new local storage will
    /// begin; [`Storage::slide`] completes it, [`Storage::settle`] takes it back.
    pub fn prepare_slide(&mut self, shift: i64, length: u64) -> Result<NonNull<u8>, MemoryError> {
        match self.window_mut() {
            Some(window) => window.prepare_slide(shift, length),
            None => Err(MemoryError::NotAddressable { wanted: length }),
        }
    }

    /// Where local storage will begin after a slide for which all is open.
    pub fn prepared(&self, shift: i64, length: u64) -> Option<NonNull<u8>> {
        self.window()?.prepared(shift, length)
    }

    /// Makes the prepared local storage the present one and gives back what it does not cover.
    ///
    /// # Panics
    /// If no slide was prepared.
    pub fn slide(&mut self, shift: i64, length: u64) {
        self.window_mut().expect("a slide was prepared").slide(shift, length);
    }

    /// Gives back all that local storage does not cover.
    pub fn settle(&mut self) {
        if let Some(window) = self.window_mut() {
            window.settle();
        }
    }
}
