//! The browser that the tests of the dashboard drive. Must never install anything but a system package, where it may.

use crate::{failure::Failure, wheel};
use std::env;

/// Names it goes by; the tests look for the same ones.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Installs Chromium unless there is one.
pub(crate) fn bring() -> Result<(), Failure> {
    if is_installed() || (wheel::install_system_package("chromium") && is_installed()) {
        return Ok(());
    }
    Err(Failure::Missing {
        what: "Chromium".into(),
        advice: "run `apt-get install chromium` as root".into(),
    })
}

fn is_installed() -> bool {
    env::var_os("PATH").is_some_and(|path| {
        let mut folders = env::split_paths(&path);
        folders.any(|folder| NAMES.iter().any(|name| folder.join(name).is_file()))
    })
}
