//! A replicated value: the same bytes on every rank, held by the application (C) or here (Rust).
#![allow(unsafe_code, reason = "reads and writes memory the application registered")]

use std::ptr::NonNull;

/// Where the bytes of a value are.
#[derive(Debug)]
pub enum ValueMemory {
    /// The application's own variable.
    Application {
        /// Its first byte.
        first: NonNull<u8>,
        length: usize,
    },
    Own(Box<[u8]>),
}

/// A registered value.
#[derive(Debug)]
pub struct Value {
    memory: ValueMemory,
}

impl Value {
    /// A value in the application's memory.
    ///
    /// # Safety
    /// The memory lives as long as the registry, and nobody touches it while a call of the library runs.
    pub unsafe fn borrowed(first: NonNull<u8>, length: usize) -> Self {
        Self {
            memory: ValueMemory::Application { first, length },
        }
    }

    /// A value kept here.
    pub fn owned(bytes: impl Into<Box<[u8]>>) -> Self {
        Self {
            memory: ValueMemory::Own(bytes.into()),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match &self.memory {
            // SAFETY: by the contract of `borrowed`.
            ValueMemory::Application { first, length } => unsafe {
                std::slice::from_raw_parts(first.as_ptr(), *length)
            },
            ValueMemory::Own(bytes) => bytes,
        }
    }

    /// Its bytes, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            // SAFETY: by the contract of `borrowed`.
            ValueMemory::Application { first, length } => unsafe {
                std::slice::from_raw_parts_mut(first.as_ptr(), *length)
            },
            ValueMemory::Own(bytes) => bytes,
        }
    }

    pub fn length(&self) -> usize {
        match &self.memory {
            ValueMemory::Application { length, .. } => *length,
            ValueMemory::Own(bytes) => bytes.len(),
        }
    }

    /// Where it lies, if that is the application's memory.
    pub(super) fn lies_at(&self) -> Option<std::ops::Range<usize>> {
        match &self.memory {
            ValueMemory::Application { first, length } => {
                let start = first.as_ptr().addr();
                Some(start..start.saturating_add(*length))
            }
            ValueMemory::Own(_) => None,
        }
    }
}
