//! Memory that the program makes and holds for an array, such as that of a vector. It cannot slide: another part is
//! other memory beside it, and the program lets go of the old one when the new one counts.
#![allow(unsafe_code, reason = "clears memory that the program made")]

use super::MemoryError;
use std::{cell::RefCell, fmt, ptr::NonNull, rc::Rc};

/// How a program makes memory for an array. None of these may call the library, but to ask what part is made.
pub trait ProgramMemory {
    /// Memory for another part, beside the present one, which stays as it is. None: there is none.
    fn make(&mut self, bytes: usize) -> Option<NonNull<u8>>;

    /// The part is in this memory, made before, from now on; what it was in until now is not used any more.
    fn take_up(&mut self, memory: NonNull<u8>, bytes: usize);

    /// This memory, made before and not taken up, is not used any more.
    fn give_back(&mut self, memory: NonNull<u8>);
}

/// The program's side of one array.
pub type SharedMemory = Rc<RefCell<dyn ProgramMemory>>;

/// One piece of such memory.
pub(super) struct Held {
    first: NonNull<u8>,
    length: usize,
    is_taken_up: bool,
    program: SharedMemory,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of the program at {:?}", self.length, self.first)
    }
}

impl Held {
    /// New memory, zeroed.
    pub(super) fn make(program: &SharedMemory, length: u64) -> Result<Self, MemoryError> {
        let Ok(bytes) = usize::try_from(length) else {
            return Err(MemoryError::NotAddressable { wanted: length });
        };
        let made = program.borrow_mut().make(bytes);
        // A part of no bytes needs no memory, only an address that is not NULL.
        let first = made.or((bytes == 0).then(NonNull::dangling));
        let first = first.ok_or(MemoryError::Program { wanted: length })?;
        // SAFETY: the program made it for the library, of this length.
        unsafe { first.as_ptr().write_bytes(0, bytes) };
        Ok(Self {
            first,
            length: bytes,
            is_taken_up: false,
            program: Rc::clone(program),
        })
    }

    pub(super) fn pointer(&self) -> NonNull<u8> {
        self.first
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn take_up(&mut self) {
        self.program.borrow_mut().take_up(self.first, self.length);
        self.is_taken_up = true;
    }

    /// The memory changes hands, as the program has let its variables change places.
    pub(super) fn swap(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.first, &mut other.first);
        std::mem::swap(&mut self.length, &mut other.length);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_taken_up {
            self.program.borrow_mut().give_back(self.first);
        }
    }
}
