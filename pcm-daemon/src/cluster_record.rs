//! The list of nodes in the cluster's directory, as nodes that join by themselves keep it. `pcmctl` finds a daemon with
//! it. Changed under the lock that `pcmctl up` and `down` take, and always replaced as a whole.

use own_files::{Lock, Locking};
use pcm_proto::boot::BootSpec;
use pcm_proto::cluster_record::{ClusterRecord, LOCK_FILE, RECORD_BYTES_MAX, RECORD_FILE};
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Others hold the lock for as long as it takes to write a small file; many nodes may join at once.
const LOCK_WITHIN: Duration = Duration::from_secs(20);

/// `pcmctl down` holds the lock until all keepers have ended, and removes the list.
const LOCK_AT_END_WITHIN: Duration = Duration::from_millis(100);

const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The record; `None` where there is none.
pub(crate) fn read(cluster_dir: &Path) -> io::Result<Option<ClusterRecord>> {
    let text = match own_files::read(&cluster_dir.join(RECORD_FILE), RECORD_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let record: ClusterRecord = serde_json::from_slice(&text)?;
    record.check().map_err(io::Error::other)?;
    Ok(Some(record))
}

/// Replaces the record by what `change` makes of it; nothing is written where it makes nothing.
pub(crate) fn change(
    cluster_dir: &Path,
    change: impl FnOnce(Option<ClusterRecord>) -> Option<ClusterRecord>,
) -> io::Result<()> {
    change_within(cluster_dir, LOCK_WITHIN, change)
}

fn change_within(
    cluster_dir: &Path,
    within: Duration,
    change: impl FnOnce(Option<ClusterRecord>) -> Option<ClusterRecord>,
) -> io::Result<()> {
    let _lock = lock(cluster_dir, within)?;
    let Some(record) = change(read(cluster_dir)?) else {
        return Ok(());
    };
    own_files::replace(&cluster_dir.join(RECORD_FILE), &serde_json::to_vec_pretty(&record)?)
}

/// Takes a node that ends out of its cluster's list, if the list is there and is still that of this cluster.
pub(crate) fn take_out(spec: &BootSpec) {
    let taken = change_within(&spec.cluster_dir, LOCK_AT_END_WITHIN, |record| {
        let mut record = record.filter(|record| record.id == spec.cluster_id)?;
        record.nodes.retain(|node| node.spec.name != spec.node.name);
        Some(record)
    });
    if let Err(error) = taken {
        tracing::info!(%error, "the node stays in the cluster's list, which is being removed or cannot be written");
    }
}

fn lock(cluster_dir: &Path, within: Duration) -> io::Result<Lock> {
    let deadline = Instant::now() + within;
    let path = cluster_dir.join(LOCK_FILE);
    loop {
        // No file is made in a directory that `down` has emptied meanwhile: it could not be removed any more.
        let file = OpenOptions::new().write(true).open(&path)?;
        if let Locking::Held(lock) = own_files::lock(file, &path)? {
            return Ok(lock);
        }
        if Instant::now() >= deadline {
            return Err(io::Error::new(
                ErrorKind::TimedOut,
                "another change of the cluster takes long",
            ));
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}
