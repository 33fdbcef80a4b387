//! What the daemon says to this process, read from the channel whoever asks, and the orders among it kept for the
//! session. Never carries out an order.

use crate::{
    keep::CheckpointOrders,
    start::Started,
    start_error::{StartError, failure_keep},
};
use pcm_proto::{app::DaemonToApp, parked::RestoreAnswer, reconfiguration::ReconfigurationOrder};
use std::{
    collections::VecDeque,
    os::fd::OwnedFd,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed},
    },
    sync::{Mutex, PoisonError},
};

/// Orders kept at most: a daemon repeats one per phase; the others stay on the channel, which the kernel bounds.
const ORDERS_MAX: usize = 64;

/// Orders that were heard and not yet taken.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    waiting: Mutex<VecDeque<ReconfigurationOrder>>,
    /// What was said about parked data; only a process that is being restored takes any.
    answers: Mutex<VecDeque<(RestoreAnswer, Option<OwnedFd>)>>,
    pub(crate) checkpoints: CheckpointOrders,
    /// The doorbell's count when the channel was last found empty.
    heard: AtomicU64,
}

impl Orders {
    fn answer_keep(&self, answer: RestoreAnswer, file: Option<OwnedFd>) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() < ORDERS_MAX {
            answers.push_back((answer, file));
        }
    }
}

impl Started {
    /// The oldest answer about parked data that was heard.
    pub(crate) fn restore_answer(&self) -> Option<(RestoreAnswer, Option<OwnedFd>)> {
        let mut answers = self.orders.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.pop_front()
    }

    /// Whether the daemon rang since the channel was last found empty.
    #[inline]
    pub(crate) fn has_rung(&self) -> bool {
        self.recorder.page().head.orders.doorbell.load(Relaxed) != self.orders.heard.load(Relaxed)
    }

    /// Reads the channel if the daemon rang.
    pub(crate) fn hear_if_rung(&self) {
        if self.has_rung() {
            self.hear();
        }
    }

    /// Reads what is on the channel.
    pub(crate) fn hear(&self) {
        let rung = self.recorder.page().head.orders.doorbell.load(Acquire);
        let mut waiting = self.orders.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while waiting.len() < ORDERS_MAX {
            match self.channel.receive() {
                Ok(None) => {
                    self.orders.heard.store(rung, Relaxed);
                    return;
                }
                Ok(Some((DaemonToApp::Refused { version, reason }, _))) => {
                    failure_keep(StartError::Refused { version, reason });
                }
                Ok(Some((DaemonToApp::Reconfiguration(order), _))) => waiting.push_back(order),
                Ok(Some((DaemonToApp::Restore(answer), file))) => {
                    self.orders.answer_keep(answer, file);
                }
                Ok(Some((DaemonToApp::Checkpoint(order), _))) => self.orders.checkpoints.take(&order),
                Err(error) => {
                    failure_keep(StartError::Channel(error));
                    self.orders.heard.store(rung, Relaxed);
                    return;
                }
            }
        }
    }

    /// The oldest order that was heard.
    pub(crate) fn order(&self) -> Option<ReconfigurationOrder> {
        let mut waiting = self.orders.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.pop_front()
    }
}
