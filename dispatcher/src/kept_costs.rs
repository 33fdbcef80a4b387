//! What changes have cost by method, among the user's settings: kept from one cluster and brought to the next ones. Must
//! never read it: daemons do, and say what they think of it.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use pcm_proto::method::COSTS_FILE;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Keeps what the daemons of this cluster have written down; they began with what was kept before.
pub(crate) fn keep(cluster: &ClusterDir) -> Result<PathBuf, Failure> {
    let from = cluster.method_costs_path();
    let text = fs::read(&from).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::system(format!(
            "{} is not there: daemons on other machines have written it there, copy it from them",
            from.display()
        )),
        _ => Failure::file("read", &from, &error),
    })?;
    let path = own_file()?;
    write(&path, &text)?;
    Ok(path)
}

/// Gives a new cluster what was kept before, if anything was.
pub(crate) fn bring(cluster: &ClusterDir) -> Result<(), Failure> {
    match own_file().map(fs::read) {
        Ok(Ok(text)) => cluster.save_method_costs(&text),
        _ => Ok(()),
    }
}

fn write(path: &Path, text: &[u8]) -> Result<(), Failure> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(|error| Failure::file("create", parent, &error))?;
    let fresh = path.with_extension("new");
    fs::write(&fresh, text)
        .and_then(|()| fs::rename(&fresh, path))
        .map_err(|error| Failure::file("write", path, &error))
}

/// Where a user's are kept.
fn own_file() -> Result<PathBuf, Failure> {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from);
    from("XDG_CONFIG_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| from("HOME").map(|home| home.join(".config")))
        .map(|config| config.join("pcm").join(COSTS_FILE))
        .ok_or_else(|| Failure::usage("HOME is not set: there is no place to keep what changes cost"))
}
