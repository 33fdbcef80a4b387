//! Ends this process if its own thread has not moved for long: a call of libpmix that does not return would else be a
//! hang of the job, where an end is something that the parent can see.

use std::{
    io,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Release},
        },
    },
    thread,
    time::{Duration, Instant},
};

/// The process's own thread moves every second, unless others keep it from a CPU.
const STILL_MAX: Duration = Duration::from_secs(30);

/// Exit code of a process that was ended so.
pub(super) const EXIT_CODE: i32 = 70;

#[derive(Clone)]
pub(super) struct Watchdog {
    moves: Arc<AtomicU64>,
}

impl Watchdog {
    pub(super) fn start() -> io::Result<Self> {
        let moves = Arc::new(AtomicU64::new(0));
        let watched = Arc::clone(&moves);
        let watch = move || {
            let mut seen = (watched.load(Acquire), Instant::now());
            loop {
                thread::sleep(Duration::from_secs(1));
                let now = watched.load(Acquire);
                if now != seen.0 {
                    seen = (now, Instant::now());
                } else if seen.1.elapsed() > STILL_MAX {
                    eprintln!(
                        "pcm-pmix: a call of libpmix has not returned for {} s",
                        STILL_MAX.as_secs()
                    );
                    std::process::exit(EXIT_CODE);
                }
            }
        };
        thread::Builder::new().name("watchdog".into()).spawn(watch)?;
        Ok(Self { moves })
    }

    pub(super) fn moved(&self) {
        let before = self.moves.load(Acquire);
        self.moves.store(before.wrapping_add(1), Release);
    }
}
