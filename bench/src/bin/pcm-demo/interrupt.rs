//! ctrl-C during the demo: noted, so that the cluster is taken down before the end.

use pcm_bench::Failure;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Whether somebody asked for an end.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on these signals are noted and end nothing by themselves.
    pub(super) fn watch() -> Result<Self, Failure> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register(signal, Arc::clone(&interrupt.0)).map_err(|source| Failure::Start {
                program: "the watch for signals".into(),
                source,
            })?;
        }
        Ok(interrupt)
    }

    /// An error once somebody asked.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.0.load(Ordering::Relaxed) {
            Err(Failure::Interrupted)
        } else {
            Ok(())
        }
    }
}
