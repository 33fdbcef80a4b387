//! Buffers for chunks that lie in several pieces. Their number is bounded by what may be under way; memory is taken
//! when first needed and kept for the rest of the move.

/// Buffers of one length.
#[derive(Debug)]
pub(super) struct Staging {
    bytes: usize,
    free: Vec<Vec<u8>>,
    made: usize,
    made_max: usize,
}

impl Staging {
    pub(super) fn new(bytes: usize, made_max: usize) -> Self {
        Self {
            bytes,
            free: Vec::new(),
            made: 0,
            made_max,
        }
    }

    /// A buffer; none if all are in use.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        if let Some(buffer) = self.free.pop() {
            return Some(buffer);
        }
        if self.made == self.made_max {
            return None;
        }
        self.made += 1;
        Some(vec![0; self.bytes])
    }

    pub(super) fn give_back(&mut self, buffer: Vec<u8>) {
        self.free.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_buffers_are_made_than_allowed_and_they_are_used_again() {
        let mut staging = Staging::new(8, 2);
        let first = staging.take().expect("the first");
        assert!(staging.take().is_some() && staging.take().is_none());
        staging.give_back(first);
        assert!(staging.take().is_some() && staging.take().is_none());
    }
}
