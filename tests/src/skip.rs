//! How a test says that it cannot run here.

use std::{env, fs::OpenOptions, io::Write, thread};

/// Notes that the calling test cannot run on this machine, and why; the test then returns. `cargo xtask test` counts it
/// as skipped.
///
/// # Panics
/// In continuous integration (`CI=true`), where every test must run.
pub fn cannot_run(reason: &str) {
    assert!(
        env::var("CI").as_deref() != Ok("true"),
        "cannot run, which is a failure in CI: {reason}"
    );
    let line = format!(
        "{}: {}\n",
        thread::current().name().unwrap_or("a test"),
        reason.replace('\n', " ")
    );
    eprint!("cannot run: {line}");
    if let Some(path) = env::var_os("PCM_SKIPPED_LOG") {
        let log = OpenOptions::new().append(true).open(path);
        log.and_then(|mut log| log.write_all(line.as_bytes()))
            .expect("cargo xtask test made this file");
    }
}
