//! Messages of agents, ranks and other daemons that were damaged: each is refused or is a message, and judging it
//! survives whatever it says.

#![allow(clippy::unwrap_used, reason = "a test")]

use pcm_proto::agent::{AgentToAgent, AgentToDaemon, DaemonToAgent};
use pcm_proto::app::AppToDaemon;
use pcm_proto::frame;
use pcm_proto::peer::DaemonToDaemon;
use pcm_proto::random::Random;
use pcm_proto::sound::{fault_of_peer, fault_of_rank};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;
use wire_samples::Samples;

const ROUNDS: u64 = 300;

/// Bytes that mean a long text, list or map, or a large number.
const LARGE: [u8; 8] = [0xc6, 0xcf, 0xdb, 0xdd, 0xdf, 0xff, 0x7f, 0xcb];

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.index(bytes.len());
    match random.below(5) {
        0 => bytes.truncate(at),
        1 => bytes[at] ^= 1 << random.below(8),
        2 => bytes[at] = LARGE[random.index(LARGE.len())],
        3 => bytes.insert(at, random.number() as u8),
        _ => bytes[at] = random.number() as u8,
    }
}

/// Damages every sample of a type many times; `judge` sees what is a message all the same.
fn damaged<T: Serialize + DeserializeOwned + Debug>(judge: impl Fn(&T)) {
    // Names of methods are checked when they are read.
    let samples = Samples::trying(&["merge-p2p-sync"]).of::<T>();
    let mut random = Random::new(22);
    let (mut read, mut refused) = (0_u64, 0_u64);
    for sample in samples {
        let bytes = rmp_serde::to_vec(&sample.value).unwrap();
        for _ in 0..ROUNDS {
            let mut bytes = bytes.clone();
            for _ in 0..=random.below(2) {
                if !bytes.is_empty() {
                    damage(&mut bytes, &mut random);
                }
            }
            let Ok(message) = frame::decode::<T>(&bytes) else {
                refused += 1;
                continue;
            };
            read += 1;
            judge(&message);
            let again = frame::decode::<T>(&rmp_serde::to_vec(&message).unwrap()).unwrap();
            // Numbers that are none are not equal to themselves.
            assert_eq!(format!("{again:?}"), format!("{message:?}"));
        }
    }
    assert!(read > ROUNDS && refused > ROUNDS, "{read} {refused}");
}

#[test]
fn damaged_messages_of_agents_are_refused_or_read_as_they_are_written() {
    damaged::<AgentToDaemon>(|_| ());
    damaged::<AgentToAgent>(|_| ());
    damaged::<DaemonToAgent>(|_| ());
}

#[test]
fn damaged_messages_of_ranks_and_daemons_are_refused_or_can_be_judged() {
    damaged::<AppToDaemon>(|message| _ = fault_of_rank(message));
    damaged::<DaemonToDaemon>(|message| _ = fault_of_peer(message));
}
