//! The program files of processes, each opened once.

use crate::image::Image;
use proc_files::Mapping;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// See the file head.
#[derive(Default)]
pub(crate) struct Images {
    known: BTreeMap<(u64, String), Result<Arc<Image>, String>>,
}

impl Images {
    /// The file of a mapping.
    pub(crate) fn open(&mut self, pid: u32, map: &Mapping) -> Result<Arc<Image>, String> {
        let open = || {
            Image::open(&path(pid, map), map.inode)
                .map(Arc::new)
                .map_err(|error| error.to_string())
        };
        self.known
            .entry((map.inode, map.path.clone()))
            .or_insert_with(open)
            .clone()
    }
}

/// Where this process finds the file of a mapping.
pub(crate) fn path(pid: u32, map: &Mapping) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root{}", map.path))
}
