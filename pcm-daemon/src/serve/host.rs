//! What of the machine the daemon sees: which host it is, so that MPI knows whose processes share memory, and which
//! CPUs there are.

use pcm_proto::fnv::fnv1a;
use std::os::linux::fs::MetadataExt;
use std::path::Path;

/// The machine, or container, this daemon is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    /// Equal numbers mean: their processes can share memory and reach each other's loopback.
    pub(super) number: u64,
    pub(super) name: String,
}

impl Host {
    pub(super) fn look() -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let device = |path: &str| std::fs::metadata(path).map_or(0, |metadata| metadata.st_dev());
        let namespace = |name: &str| {
            let link = std::fs::read_link(Path::new("/proc/self/ns").join(name)).unwrap_or_default();
            link.to_string_lossy().into_owned()
        };
        let text = format!(
            "{} {} {} {}",
            boot.trim(),
            device("/dev/shm"),
            namespace("net"),
            namespace("ipc")
        );
        Self {
            // A clash between two hosts of one cluster is out of the question.
            number: fnv1a(text.bytes()),
            name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        }
    }
}

/// The CPUs this process may use.
pub(super) fn cpus_allowed() -> Vec<u32> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else {
        return vec![0];
    };
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .map(|cpu| cpu as u32)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_the_same_each_time_one_looks() {
        assert_eq!(Host::look(), Host::look());
        assert!(!cpus_allowed().is_empty());
    }
}
