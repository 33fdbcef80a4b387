//! Looks beside an attached job how far it is, for the progress line. Only looks: a look that fails is left out.

use crate::cluster::ClusterDir;
use crate::link::{ASK_DEADLINE, Link};
use crate::progress::{self, ProgressLine};
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::ids::JobId;
use pcm_proto::job::RankStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Faster than this nobody reads; a look costs each rank's daemon some ten microseconds a rank.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What is to be told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) iterations: bool,
    /// How much of a checkpoint of so many bytes was taken in.
    pub(crate) restoring: Option<u64>,
}

impl Wanted {
    pub(crate) fn is_nothing(self) -> bool {
        !self.iterations && self.restoring.is_none()
    }
}

/// Tells until it is dropped.
pub(crate) async fn tell(cluster: ClusterDir, job: JobId, line: Arc<ProgressLine>, wanted: Wanted) {
    let mut link = None;
    let mut teller = Teller::new(wanted);
    loop {
        if link.is_none() {
            link = Link::open(&cluster).await.ok();
        }
        if let Some(open) = &mut link {
            match open.ask(ControlToDaemon::Ps { job }, ASK_DEADLINE).await {
                Ok(DaemonToControl::Ps { ranks, .. }) => line.show(&teller.words(&ranks, Instant::now())),
                Ok(_) => {}
                Err(_) => link = None,
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What was seen so far.
struct Teller {
    wanted: Wanted,
    begun: Instant,
    /// The first look at iterations.
    first: Option<(u64, Instant)>,
}

impl Teller {
    fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            begun: Instant::now(),
            first: None,
        }
    }

    fn words(&mut self, ranks: &[RankStatus], now: Instant) -> String {
        let done = ranks.iter().map(|rank| rank.iteration.0).min().unwrap_or(0);
        match self.wanted.restoring {
            Some(all) if done == 0 => {
                let restored = ranks.iter().map(|rank| rank.restored.0).sum();
                // Halos are read by two ranks, so the sum may pass the whole.
                return progress::restoring(u64::min(restored, all), all, now - self.begun);
            }
            _ if !self.wanted.iterations => return String::new(),
            _ => {}
        }
        let (seen_first, since) = *self.first.get_or_insert((done, now));
        let end = ranks.iter().filter_map(|rank| rank.iterations_declared).max();
        progress::iterations(done, seen_first, end.map(|end| end.0), now - since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank_words::tests::rank;
    use pcm_proto::ids::{Bytes, Iteration};

    fn ranks(iteration: u64, restored: u64) -> Vec<RankStatus> {
        let rank = RankStatus {
            iteration: Iteration(iteration),
            iterations_declared: Some(Iteration(100)),
            restored: Bytes(restored),
            ..rank()
        };
        vec![rank.clone(), rank]
    }

    #[test]
    fn a_restart_is_told_until_the_ranks_iterate() {
        let mut teller = Teller::new(Wanted {
            iterations: false,
            restoring: Some(1 << 20),
        });
        let now = Instant::now();
        let text = teller.words(&ranks(0, 1 << 18), now);
        assert!(text.starts_with("restoring: 512 KiB of 1.0 MiB"), "{text}");
        assert_eq!(teller.words(&ranks(7, 1 << 19), now), "");
    }

    #[test]
    fn iterations_are_told_by_the_slowest_rank() {
        let mut teller = Teller::new(Wanted {
            iterations: true,
            restoring: None,
        });
        let begun = Instant::now();
        teller.words(&ranks(10, 0), begun);
        let mut later = ranks(30, 0);
        later[1].iteration = Iteration(20);
        let text = teller.words(&later, begun + Duration::from_secs(1));
        assert_eq!(text, "iteration 20 of 100 (20 %), 10.0 a second, 8.0 s left");
    }
}
