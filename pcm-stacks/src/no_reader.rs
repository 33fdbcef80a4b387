//! In place of the reader where the registers of this processor are not known to it.

use pcm_proto::stack::ProcessStack;

/// Nothing is copied.
pub(crate) struct Copied;

pub(crate) fn failed(_pid: u32) -> Copied {
    Copied
}

#[derive(Default)]
pub(crate) struct Reader;

impl Reader {
    pub(crate) fn copy(&mut self, _pid: u32) -> Copied {
        Copied
    }

    pub(crate) fn read(&mut self, _copied: Copied) -> ProcessStack {
        ProcessStack {
            note: Some("stacks are read on x86-64 only".to_owned()),
            ..ProcessStack::default()
        }
    }
}
