//! The buffers of checkpoints that the keeper holds, so that they outlive their ranks and the daemon. Not dropped with
//! the processes of a job: the job may be started again from them. Never looks inside one.

use super::images::Image;
use pcm_proto::checkpoint::BufferKey;
use std::collections::BTreeMap;

/// Buffers held at once: two for each rank of the node and as many copies for others, each an open file here and in the
/// daemon.
const BUFFERS_MAX: usize = 2048;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    held: BTreeMap<BufferKey, Image>,
}

impl Buffers {
    /// Holds a buffer; whether there was room.
    pub(super) fn hold(&mut self, key: BufferKey, image: Image) -> bool {
        let has_room = self.held.len() < BUFFERS_MAX || self.held.contains_key(&key);
        if has_room {
            self.held.insert(key, image);
        }
        has_room
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
        // As a keeper does; most users' own limit is 1,024.
        crate::keeper::boot::files_raise();
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
        let mut buffers = Buffers::default();
        let full = BUFFERS_MAX as u32;
        assert!((0..full).all(|number| buffers.hold(key(number), image())));
        assert!(!buffers.hold(key(full), image()));
        assert!(buffers.hold(key(0), image()));
        buffers.drop_these(&[key(1), key(7000)]);
        assert!(buffers.hold(key(full), image()));
        assert!(buffers.get(key(1)).is_none() && buffers.get(key(full)).is_some());
    }
}
