//! The buffers of checkpoints that the keeper holds, so that they outlive their ranks and the daemon. Not dropped with
//! the processes of a job: the job may be started again from them. Never looks inside one.

use super::images::Image;
use pcm_proto::checkpoint::BufferKey;
use pcm_proto::open_files;
use std::collections::BTreeMap;

/// All of them.
#[derive(Debug)]
pub(super) struct Buffers {
    held: BTreeMap<BufferKey, Image>,
    /// The keeper's limit of open files.
    limit: u64,
}

/// What else the keeper has open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    pub(super) ranks: usize,
    pub(super) images: usize,
}

impl Buffers {
    pub(super) fn within(limit: u64) -> Self {
        Self {
            held: BTreeMap::new(),
            limit,
        }
    }

    /// Holds a buffer, or says why not.
    pub(super) fn hold(&mut self, key: BufferKey, image: Image, beside: Beside) -> Result<(), String> {
        let Beside { ranks, images } = beside;
        let full = open_files::buffers_max(self.limit, ranks as u64, images as u64);
        let held = self.held.len();
        if held as u64 >= full && !self.held.contains_key(&key) {
            let limit = self.limit;
            return Err(format!(
                "the keeper holds {held} buffers of checkpoints beside {ranks} processes, and has no room for another \
                 within its limit of {limit} open files (see `pcmctl doctor`)"
            ));
        }
        self.held.insert(key, image);
        Ok(())
    }

    pub(super) fn drop_these(&mut self, keys: &[BufferKey]) {
        for key in keys {
            self.held.remove(key);
        }
    }

    pub(super) fn get(&self, key: BufferKey) -> Option<&Image> {
        self.held.get(&key)
    }

    /// What is held, with its sizes.
    pub(super) fn list(&self) -> Vec<(BufferKey, u64)> {
        self.held.iter().map(|(key, image)| (*key, image.bytes)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{JobId, ProcessId};

    #[test]
    fn a_full_keeper_takes_no_new_buffer_but_replaces_one() {
        let image = || Image {
            file: std::fs::File::open("/dev/null").unwrap().into(),
            bytes: 1,
        };
        let key = |number| BufferKey {
            job: JobId(1),
            process: ProcessId(0),
            number,
            is_copy: false,
        };
        let beside = Beside { ranks: 10, images: 2 };
        let mut buffers = Buffers::within(256);
        let full = open_files::buffers_max(256, 10, 2) as u32;
        for number in 0..full {
            buffers.hold(key(number), image(), beside).unwrap();
        }
        let refused = buffers.hold(key(full), image(), beside).unwrap_err();
        assert!(
            refused.contains("140 buffers") && refused.contains("256 open files"),
            "{refused}"
        );
        buffers.hold(key(0), image(), beside).unwrap();
        let fewer = Beside { ranks: 9, ..beside };
        buffers.hold(key(full), image(), fewer).unwrap();
        buffers.drop_these(&[key(1), key(7000)]);
        assert!(buffers.get(key(1)).is_none() && buffers.get(key(full)).is_some());
    }
}
