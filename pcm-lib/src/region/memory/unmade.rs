//! Open pages that the system has not made yet: it makes and clears them at their first use, or before, when asked to.
//! Never reads or writes them, so whoever holds this may do so beside the owner of the memory.
#![allow(unsafe_code, reason = "has pages made")]

/// Pages by their addresses. Should they be given back meanwhile, asking for them is refused or of no use, and
/// harmless.
#[derive(Debug)]
pub struct Unmade {
    pub(super) address: usize,
    pub(super) length: usize,
}

impl Unmade {
    /// Bytes that are left.
    pub fn bytes(&self) -> u64 {
        self.length as u64
    }

    /// Has the first `bytes_max` made and leaves the rest; how many that were. None are left after 0.
    pub fn make_some(&mut self, bytes_max: usize) -> u64 {
        let length = self.length.min(bytes_max);
        if length == 0 {
            return 0;
        }
        let at = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: makes pages that are mapped and not there, and changes no byte of others. A kernel that cannot do it
        // refuses.
        let code = unsafe { libc::madvise(at, length, libc::MADV_POPULATE_WRITE) };
        if code != 0 {
            self.length = 0;
            return 0;
        }
        (self.address, self.length) = (self.address + length, self.length - length);
        length as u64
    }
}
