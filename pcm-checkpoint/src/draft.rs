//! A checkpoint being written: a directory of another name beside the final one, which appears whole or not at all. One
//! process opens and publishes it; any number writes parts into it.

use crate::{
    block::Compression,
    damage::{Damage, Fault},
    error::{WriteError, writing},
    manifest::Manifest,
    seal::{MANIFEST, SEAL, Seal},
};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
};

/// Others may read a checkpoint as far as its user's umask lets them, and never write it.
const DIRECTORY_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// The name of a part's file: the region's number, as much of its name as can stand in one, the rank.
pub fn part_file(region: u32, name: &str, rank: u32, is_array: bool, compression: Compression) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = name.chars().take(32).map(plain).collect();
    let kind = if is_array { "npy" } else { "bin" };
    format!("region{region:03}-{name}.rank{rank:05}.{kind}{}", compression.suffix())
}

/// Between the name of a checkpoint and the owner in that of its draft; the number of a process ends it.
const PARTIAL: &str = ".partial-";

/// Whether this directory is what is left of a checkpoint that was not completed, or one that is being written.
pub fn is_unfinished(directory: &Path) -> bool {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let is_draft = name.starts_with('.') && name.contains(PARTIAL);
    let is_cut = || directory.join(MANIFEST).is_file() && !directory.join(SEAL).exists();
    directory.is_dir() && (is_draft || is_cut())
}

/// Removes drafts below a directory whose owners are gone.
pub fn remove_drafts(parent: &Path, is_gone: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let owner = name.strip_prefix('.').and_then(|name| name.rsplit_once(PARTIAL));
        let owner = owner.map(|(_, owner)| owner.trim_end_matches(|c: char| c.is_ascii_digit()));
        if owner.is_some_and(&is_gone) {
            // One that stays only takes room.
            _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// See the file head. Dropped before it is published, it leaves nothing.
#[derive(Debug)]
pub struct Draft {
    directory: PathBuf,
    target: PathBuf,
    is_published: bool,
}

impl Draft {
    /// Begins a checkpoint that is to be found at `target`.
    pub fn begin(target: &Path) -> Result<Self, WriteError> {
        Self::begin_for(target, "")
    }

    /// The same for an owner, plain text, whose drafts [`remove_drafts`] finds.
    pub fn begin_for(target: &Path, owner: &str) -> Result<Self, WriteError> {
        let path = target.to_owned();
        if target.symlink_metadata().is_ok() {
            return Err(WriteError::Exists { path });
        }
        let name = target.file_name().ok_or_else(|| WriteError::System {
            action: "make",
            path,
            source: ErrorKind::InvalidInput.into(),
        })?;
        let parent = parent(target);
        fs::create_dir_all(parent).map_err(writing("make", parent))?;
        let directory = parent.join(format!(".{}{PARTIAL}{owner}{}", name.to_string_lossy(), process::id()));
        DirBuilder::new()
            .mode(DIRECTORY_MODE)
            .create(&directory)
            .map_err(writing("make", &directory))?;
        Ok(Self {
            directory,
            target: target.to_owned(),
            is_published: false,
        })
    }

    /// Where parts are to be written.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where it will be.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Gives it its name, when all parts are written. From the moment this returns it survives a loss of power.
    pub fn publish(mut self, manifest: &Manifest) -> Result<PathBuf, WriteError> {
        if let Some(fault) = manifest.fault() {
            return Err(WriteError::Manifest { fault });
        }
        for (region, part) in manifest.parts() {
            let path = self.directory.join(&part.file);
            let fault = match path.metadata() {
                Ok(found) if found.len() == part.file_bytes() => continue,
                Ok(found) => Fault::Length {
                    expected: part.file_bytes(),
                    found: found.len(),
                },
                Err(error) if error.kind() == ErrorKind::NotFound => Fault::Missing,
                Err(error) => Fault::Unreadable(error),
            };
            let (region, rank) = (region.name.clone(), part.rank);
            return Err(WriteError::Part(Damage {
                region,
                rank,
                path,
                fault,
            }));
        }
        let mut text = serde_json::to_vec_pretty(manifest).map_err(|error| WriteError::Manifest {
            fault: error.to_string(),
        })?;
        text.push(b'\n');
        self.file(MANIFEST, &text)?;
        self.file(SEAL, Seal::of(&text).text().as_bytes())?;
        sync_directory(&self.directory)?;
        match renameat_with(CWD, &self.directory, CWD, &self.target, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => {
                let path = self.target.clone();
                return Err(WriteError::Exists { path });
            }
            // A file system without the flag: renaming a directory replaces an empty one only.
            Err(rustix::io::Errno::INVAL) => {
                fs::rename(&self.directory, &self.target).map_err(writing("publish", &self.target))?;
            }
            Err(error) => return Err(writing("publish", &self.target)(error.into())),
        }
        self.is_published = true;
        sync_directory(parent(&self.target))?;
        Ok(self.target.clone())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
        let path = self.directory.join(name);
        let write = || -> io::Result<()> {
            let mut file = new_file(&path)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().map_err(writing("write", &path))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_published {
            // What cannot be removed has a name that no reader takes for a checkpoint.
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// Makes a file of a checkpoint. What may be restarted from it runs as its owner, so no other user may ever write it,
/// whatever the umask.
pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

fn sync_directory(path: &Path) -> Result<(), WriteError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(writing("make last", path))
}
