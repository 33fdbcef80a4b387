//! The list of nodes in the cluster's directory, as nodes that join by themselves keep it. `pcmctl` finds a daemon with
//! it. Changed under the lock that `pcmctl up` and `down` take, and always replaced as a whole.

use pcm_proto::boot::{BootSpec, is_cluster_id};
use pcm_proto::cluster_record::{ClusterRecord, LOCK_FILE, RECORD_FILE};
use rustix::fs::FlockOperation;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Others hold the lock for as long as it takes to write a small file; many nodes may join at once.
const LOCK_WITHIN: Duration = Duration::from_secs(20);

/// `pcmctl down` holds the lock until all keepers have ended, and removes the list.
const LOCK_AT_END_WITHIN: Duration = Duration::from_millis(100);

const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The record; `None` where there is none.
pub(crate) fn read(cluster_dir: &Path) -> io::Result<Option<ClusterRecord>> {
    let text = match fs::read(cluster_dir.join(RECORD_FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let record: ClusterRecord = serde_json::from_slice(&text)?;
    if !is_cluster_id(&record.id) {
        return Err(io::Error::other("the id in it is not valid"));
    }
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
    let (path, fresh) = (cluster_dir.join(RECORD_FILE), cluster_dir.join("cluster.json.new"));
    let text = serde_json::to_vec_pretty(&record)?;
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&fresh)?;
    file.write_all(&text)?;
    fs::rename(fresh, path)
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

fn lock(cluster_dir: &Path, within: Duration) -> io::Result<File> {
    let deadline = Instant::now() + within;
    loop {
        let path = cluster_dir.join(LOCK_FILE);
        // No file is made in a directory that `down` has emptied meanwhile: it could not be removed any more.
        let opened = OpenOptions::new().write(true).open(&path);
        match opened {
            Ok(file) => match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_same_file(&file, &path) => return Ok(file),
                // `down` removed the file while we waited for it.
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(error) => return Err(error.into()),
            },
            Err(error) => return Err(error),
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

fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(named)) => held.dev() == named.dev() && held.ino() == named.ino(),
        _ => false,
    }
}
