//! Files among the user's settings that are kept from one cluster and brought to the next ones. Must never read what is
//! in them: whoever uses them does.

use crate::failure::Failure;
use std::fs;
use std::path::PathBuf;

/// Keeps `text`, which is `what`, under this name. Returns where.
pub(crate) fn keep(name: &str, what: &str, text: &[u8]) -> Result<PathBuf, Failure> {
    let path =
        path(name).ok_or_else(|| Failure::usage(format!("HOME is not set: there is no place to keep {what}")))?;
    let parent = path.parent().unwrap_or(&path);
    fs::create_dir_all(parent).map_err(|error| Failure::file("create", parent, &error))?;
    let fresh = path.with_file_name(format!("{name}.new"));
    fs::write(&fresh, text)
        .and_then(|()| fs::rename(&fresh, &path))
        .map_err(|error| Failure::file("write", &path, &error))?;
    Ok(path)
}

/// What was kept under this name, if anything was.
pub(crate) fn kept(name: &str) -> Option<Vec<u8>> {
    fs::read(path(name)?).ok()
}

fn path(name: &str) -> Option<PathBuf> {
    let from = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    from("XDG_CONFIG_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| from("HOME").map(|home| home.join(".config")))
        .map(|config| config.join("pcm").join(name))
}
