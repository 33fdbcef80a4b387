//! Return addresses, found from the copy of a thread's stack. An address that no call can have left ends the stack:
//! less is better than wrong.

use crate::image::{Bytes, Image};
use crate::thread::Copy;
use framehop::{CacheNative, Module, UnwindRegsNative, Unwinder, UnwinderNative};
use pcm_proto::stack::FRAMES_MAX;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Frames that are looked at: those of the program, and MPI's own below them.
const DEPTH_MAX: usize = FRAMES_MAX + 64;

/// The longest call instruction by which an address is recognised.
const CALL_BYTES_MAX: u64 = 7;

/// A file in the memory of a process.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    /// Its name without folders.
    pub(crate) name: String,
    /// Where this process can open it; none of the kernel's own.
    pub(crate) path: Option<PathBuf>,
    pub(crate) addresses: Range<u64>,
    /// What is added to the file's addresses.
    pub(crate) bias: u64,
    pub(crate) image: Arc<Image>,
}

/// Where a frame is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Number of the file among those loaded.
    pub(crate) module: usize,
    /// Address in the file at which names and lines are looked up.
    pub(crate) address: u64,
}

/// Unwinds stacks of one process.
pub(crate) struct Stacks<'a> {
    loaded: &'a [Loaded],
    unwinder: UnwinderNative<Bytes, framehop::MayAllocateDuringUnwind>,
    cache: CacheNative<framehop::MayAllocateDuringUnwind>,
}

impl<'a> Stacks<'a> {
    pub(crate) fn new(loaded: &'a [Loaded]) -> Self {
        let mut unwinder = UnwinderNative::new();
        for file in loaded {
            let (name, addresses) = (file.name.clone(), file.addresses.clone());
            unwinder.add_module(Module::new(name, addresses, file.bias, file.image.unwind_sections()));
        }
        Self {
            loaded,
            unwinder,
            cache: CacheNative::new(),
        }
    }

    /// The frames of a thread, innermost first, and why they end before the outermost one, if they do.
    pub(crate) fn frames(&mut self, copy: &Copy) -> (Vec<Place>, Option<String>) {
        let mut word = |address: u64| copy.word(address).ok_or(());
        let registers = UnwindRegsNative::new(copy.instruction, copy.stack_pointer, copy.frame_pointer);
        let mut frames = self
            .unwinder
            .iter_frames(copy.instruction, registers, &mut self.cache, &mut word);
        let mut places = Vec::new();
        while places.len() < DEPTH_MAX {
            let frame = match frames.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => return (places, None),
                Err(_) => return (places, Some("the stack cannot be followed further".to_owned())),
            };
            let address = frame.address();
            let Some(module) = self.loaded.iter().position(|file| file.addresses.contains(&address)) else {
                return (
                    places,
                    Some("the stack leads into code that lies in no file".to_owned()),
                );
            };
            let file = &self.loaded[module];
            let is_return = frame.is_return_address();
            if is_return && !is_after_call(&file.image, address.wrapping_sub(file.bias)) {
                return (places, Some("the stack cannot be followed further".to_owned()));
            }
            let address = frame.address_for_lookup().wrapping_sub(file.bias);
            places.push(Place { module, address });
        }
        (places, Some("the stack is too deep to be read wholly".to_owned()))
    }
}

fn is_after_call(image: &Image, address: u64) -> bool {
    image.before(address, CALL_BYTES_MAX).is_some_and(ends_with_call)
}

/// Whether the code ends with a call: E8 with a distance, or FF /2 with an operand of zero to five bytes more.
fn ends_with_call(code: &[u8]) -> bool {
    let at = |back: usize| code.len().checked_sub(back).and_then(|index| code.get(index)).copied();
    let is_by_operand =
        |back: usize| at(back) == Some(0xff) && at(back - 1).is_some_and(|operand| operand >> 3 & 7 == 2);
    at(5) == Some(0xe8) || [2, 3, 4, 6, 7].into_iter().any(is_by_operand)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_from_other_code() {
        assert!(ends_with_call(&[0x90, 0x90, 0xe8, 1, 2, 3, 4]));
        assert!(ends_with_call(&[0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0]));
        assert!(ends_with_call(&[0x90, 0xff, 0x15, 1, 2, 3, 4]));
        assert!(!ends_with_call(&[0x90; 7]));
        assert!(!ends_with_call(&[0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xe0]));
        assert!(!ends_with_call(&[]));
    }
}
