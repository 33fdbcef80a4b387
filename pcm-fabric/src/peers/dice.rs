//! Random numbers of tests that several tasks share. Must never depend on anything but a seed.

use pcm_proto::random::Random;
use std::sync::Mutex;

#[derive(Debug)]
pub(super) struct Dice(Mutex<Random>);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(Mutex::new(Random::new(seed)))
    }

    pub(super) fn below(&self, bound: u64) -> u64 {
        self.0.lock().expect("no holder panics").below(bound)
    }
}
