//! A checkpoint opened for reading: its seal and manifest are sound; parts are checked as they are read.

use crate::{
    block::checksum,
    damage::Damage,
    error::{ReadError, reading},
    manifest::{Manifest, PartRecord, RegionRecord, VERSION},
    opening::open_regular,
    reader::PartReader,
    seal::{MANIFEST, SEAL, Seal},
};
use own_files::{Foreign, check_directory, check_file};
use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
};

/// Longest manifest: a million parts of a kilobyte each.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// Longest seal: one line.
const SEAL_BYTES_MAX: u64 = 4096;

/// See the file head.
#[derive(Debug)]
pub struct Checkpoint {
    directory: PathBuf,
    manifest: Manifest,
}

/// Whether a directory looks like a complete checkpoint; it may still be damaged.
pub fn is_checkpoint(directory: &Path) -> bool {
    directory.join(SEAL).is_file()
}

/// Removes a checkpoint. If it is interrupted, what is left is none.
pub fn remove(directory: &Path) -> io::Result<()> {
    fs::remove_file(directory.join(SEAL))?;
    fs::remove_dir_all(directory)
}

impl Checkpoint {
    /// Opens a checkpoint, whoever made it.
    pub fn open(directory: &Path) -> Result<Self, ReadError> {
        Self::open_with(directory, |_, _| Ok(()))
    }

    /// Opens a checkpoint that only its user may write, as one must be whose program is run. The files are judged as
    /// they are read: other files may stand under their names before and after.
    pub fn open_own(directory: &Path) -> Result<Self, ReadError> {
        check_directory(directory).map_err(ReadError::Foreign)?;
        Self::open_with(directory, check_file)
    }

    fn open_with(directory: &Path, check: impl Fn(&Path, &File) -> Result<(), Foreign>) -> Result<Self, ReadError> {
        let text = read(directory, SEAL, SEAL_BYTES_MAX, &check)?;
        let damaged = |file: &str, fault: String| ReadError::Manifest {
            path: directory.join(file),
            fault,
        };
        let seal = std::str::from_utf8(&text).ok().and_then(Seal::parse);
        let seal = seal.ok_or_else(|| damaged(SEAL, "it is not the seal of a checkpoint".to_owned()))?;
        if seal.version > VERSION {
            let (path, found) = (directory.to_owned(), seal.version);
            return Err(ReadError::Version { path, found });
        }
        let text = read(directory, MANIFEST, MANIFEST_BYTES_MAX, &check)?;
        if text.len() as u64 != seal.manifest_bytes || checksum(&text) != seal.manifest_crc32 {
            return Err(damaged(MANIFEST, "it is not the sealed manifest".to_owned()));
        }
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| damaged(MANIFEST, error.to_string()))?;
        match manifest.fault() {
            Some(fault) => Err(damaged(MANIFEST, fault)),
            None => Ok(Self {
                directory: directory.to_owned(),
                manifest,
            }),
        }
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What it is of.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// A part, to be read.
    pub fn part(&self, region: &RegionRecord, part: &PartRecord) -> Result<PartReader, Damage> {
        PartReader::open(&self.directory, &self.manifest, region, part)
    }

    /// Reads every part and names those that are damaged, truncated or missing.
    pub fn verify(&self) -> Vec<Damage> {
        let check = |(region, part): (&RegionRecord, &PartRecord)| self.part(region, part)?.verify();
        self.manifest.parts().filter_map(|part| check(part).err()).collect()
    }
}

fn read(
    directory: &Path,
    name: &'static str,
    bytes_max: u64,
    check: impl Fn(&Path, &File) -> Result<(), Foreign>,
) -> Result<Vec<u8>, ReadError> {
    let path = directory.join(name);
    let file = match open_regular(&path) {
        Ok(file) => file,
        Err(_) if !directory.exists() => {
            let path = directory.to_owned();
            return Err(ReadError::NoDirectory { path });
        }
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Err(ReadError::NotACheckpoint {
                path: directory.to_owned(),
                missing: name,
            });
        }
        Err(error) => return Err(reading("read", path)(error)),
    };
    check(&path, &file).map_err(ReadError::Foreign)?;
    let mut bytes = Vec::new();
    file.take(bytes_max)
        .read_to_end(&mut bytes)
        .map_err(reading("read", path))?;
    Ok(bytes)
}
