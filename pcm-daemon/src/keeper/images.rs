//! The images of parked data that the keeper holds, so that they outlive a daemon. Never looks inside one.

use super::salvage::{Salvage, SalvageError};
use pcm_proto::ids::JobId;
use pcm_proto::keeper::KeeperToDaemon;
use pcm_proto::parked::ParkKey;
use pcm_proto::reconfiguration::Attempt;
use rustix::process::Pid;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// Images held at once: each is an open file here and in the daemon, and a node runs fewer ranks than this.
const IMAGES_MAX: usize = 1024;

/// The data of one process.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) file: OwnedFd,
    pub(super) bytes: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Images {
    held: BTreeMap<ParkKey, Image>,
    salvages: Vec<Salvage>,
}

impl Images {
    /// Holds an image; the answer to the daemon.
    pub(super) fn hold(&mut self, key: ParkKey, image: Image) -> KeeperToDaemon {
        if self.held.len() >= IMAGES_MAX && !self.held.contains_key(&key) {
            let reason = format!("{IMAGES_MAX} images are held already");
            return KeeperToDaemon::NotParked { key, reason };
        }
        let bytes = image.bytes;
        self.held.insert(key, image);
        KeeperToDaemon::Parked { key, bytes }
    }

    /// Begins to copy the data of a process that hangs; an answer where that is not possible or not needed.
    pub(super) fn salvage(
        &mut self,
        key: ParkKey,
        pid: Option<Pid>,
        table: u64,
        stretches: u32,
    ) -> Option<KeeperToDaemon> {
        if let Some(image) = self.held.get(&key) {
            return Some(KeeperToDaemon::Parked {
                key,
                bytes: image.bytes,
            });
        }
        if self.salvages.iter().any(|salvage| salvage.key == key) {
            return None;
        }
        let Some(pid) = pid else {
            let reason = "the process has ended, and its data with it".to_owned();
            return Some(KeeperToDaemon::NotParked { key, reason });
        };
        match Salvage::begin(key, pid, table, stretches) {
            Ok(salvage) => {
                self.salvages.push(salvage);
                None
            }
            Err(error) => Some(refused(key, &error)),
        }
    }

    /// Whether something is being copied.
    pub(super) fn is_salvaging(&self) -> bool {
        !self.salvages.is_empty()
    }

    /// Copies on; the answer for what is done.
    pub(super) fn salvages_step(&mut self) -> Option<KeeperToDaemon> {
        let salvage = self.salvages.first_mut()?;
        let key = salvage.key;
        let answer = match salvage.step() {
            Ok(None) => return None,
            Ok(Some(image)) => self.hold(key, image),
            Err(error) => refused(key, &error),
        };
        self.salvages.remove(0);
        Some(answer)
    }

    pub(super) fn get(&self, key: ParkKey) -> Option<&Image> {
        self.held.get(&key)
    }

    pub(super) fn count(&self) -> usize {
        self.held.len()
    }

    /// What is held, with its sizes.
    pub(super) fn list(&self) -> Vec<(ParkKey, u64)> {
        self.held.iter().map(|(key, image)| (*key, image.bytes)).collect()
    }

    /// Drops a job's images up to an attempt.
    pub(super) fn drop_up_to(&mut self, job: JobId, attempt: Attempt) {
        let stays = |key: &ParkKey| key.job != job || key.attempt > attempt;
        self.held.retain(|key, _| stays(key));
        self.salvages.retain(|salvage| stays(&salvage.key));
    }

    /// Drops all of a job.
    pub(super) fn drop_job(&mut self, job: JobId) {
        self.held.retain(|key, _| key.job != job);
        self.salvages.retain(|salvage| salvage.key.job != job);
    }
}

fn refused(key: ParkKey, error: &SalvageError) -> KeeperToDaemon {
    KeeperToDaemon::NotParked {
        key,
        reason: error.to_string(),
    }
}
