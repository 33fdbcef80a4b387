//! Asks the daemon for parked data and waits for it, within limits.

use super::{RestoreError, opened::Source, restore::Relaunched};
use crate::start::Started;
use pcm_core::parked::BlockSet;
use pcm_proto::{
    app::AppToDaemon,
    ids::Rank,
    parked::{Asked, RestoreAnswer, RestoreAsk},
    reconfiguration::Attempt,
};
use std::{
    fs::File,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// A daemon that is started again does not know what its predecessor was asked.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// For all of the data: below the time the coordinator gives the new set.
const ANSWERED_WITHIN: Duration = Duration::from_secs(50);

/// A process that said that it failed is ended by its daemon within this time, before it can compute with wrong data.
const ENDED_WITHIN: Duration = Duration::from_secs(10);

/// A request of this process for data of an old rank, told apart from all before.
pub(crate) fn request(rank: Rank) -> Asked {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    Asked { rank, number }
}

/// See the file head.
pub(crate) struct Client {
    started: &'static Started,
    deadline: Instant,
    /// Answers about other attempts are late ones.
    attempt: Option<Attempt>,
}

impl Client {
    pub(crate) fn new(started: &'static Started) -> Self {
        Self {
            started,
            deadline: Instant::now() + ANSWERED_WITHIN,
            attempt: None,
        }
    }

    /// For what travels ahead of the meeting of an attempt.
    pub(crate) fn ahead(started: &'static Started, attempt: Attempt, deadline: Instant) -> Self {
        Self {
            started,
            deadline,
            attempt: Some(attempt),
        }
    }

    /// What the relaunch changes.
    pub(crate) fn plan(&mut self) -> Result<Relaunched, RestoreError> {
        self.ask(&RestoreAsk::Plan, |answer, _| match answer {
            RestoreAnswer::Plan {
                awaited,
                old_size,
                weights,
                ..
            } => Some(Ok(Relaunched {
                awaited,
                old_size,
                weights,
            })),
            RestoreAnswer::Image { .. } | RestoreAnswer::Lost { .. } => None,
        })
    }

    fn ask<T>(
        &mut self,
        ask: &RestoreAsk,
        take: impl Fn(RestoreAnswer, Option<File>) -> Option<Result<T, RestoreError>>,
    ) -> Result<T, RestoreError> {
        loop {
            // A daemon that cannot be told is being started again; it is told once more.
            _ = self.started.channel.send(&AppToDaemon::Restore(ask.clone()));
            let again = (Instant::now() + ASK_AGAIN).min(self.deadline);
            while let Some(left) = again.checked_duration_since(Instant::now()) {
                if self.started.channel.wait(left) {
                    self.started.hear();
                }
                while let Some((answer, file)) = self.started.restore_answer() {
                    if let Some(taken) = take(answer, file.map(File::from)) {
                        return taken;
                    }
                }
            }
            if Instant::now() >= self.deadline {
                let asked = match ask {
                    RestoreAsk::Plan => "the plan of the relaunch".to_owned(),
                    RestoreAsk::Blocks { asked, .. } => format!("the data of rank {}", asked.rank),
                };
                return Err(RestoreError::NoAnswer { asked });
            }
        }
    }
}

impl Source for Client {
    fn blocks(&mut self, rank: Rank, blocks: &BlockSet) -> Result<File, RestoreError> {
        let runs = blocks.runs().collect();
        let wanted = self.attempt;
        let asked = request(rank);
        let is_it = |of: Asked, attempt: Option<Attempt>| of == asked && (wanted.is_none() || wanted == attempt);
        self.ask(&RestoreAsk::Blocks { asked, runs }, |answer, file| match answer {
            RestoreAnswer::Image { attempt, asked, .. } if is_it(asked, attempt) => file.map(Ok),
            RestoreAnswer::Lost { attempt, asked, reason } if is_it(asked, attempt) => {
                Some(Err(RestoreError::Lost { rank: rank.0, reason }))
            }
            _ => None,
        })
    }
}

/// Says that this process cannot take up its data, and waits for its end.
pub(crate) fn failed(started: &Started, error: &RestoreError) {
    _ = started.channel.send(&AppToDaemon::RestoreFailed {
        reason: error.to_string(),
        is_unanswered: matches!(error, RestoreError::NoAnswer { .. }),
    });
    thread::sleep(ENDED_WITHIN);
}
