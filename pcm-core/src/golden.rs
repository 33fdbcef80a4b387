//! Golden files of what leaves a process inside other messages: the bytes of every sample are those of this version of
//! the protocol, as `pcm-proto/tests/golden.rs` says of the messages themselves.

use crate::job::coordinator::Coordinator;
use crate::parked::Head;
use pcm_proto::frame;
use pcm_proto::handshake::PROTOCOL_VERSION;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use wire_samples::{Golden, Version, Wire};

/// Compares the samples of a type with the file of this name.
pub(crate) fn check<T: Serialize + DeserializeOwned>(name: &str) {
    let version = Version {
        constant: "PROTOCOL_VERSION",
        source: "pcm-proto/src/handshake.rs",
        number: PROTOCOL_VERSION,
        command: "PCM_GOLDEN=write cargo test -p pcm-proto -p pcm-core golden",
    };
    let wire = Wire::<T> {
        encode: |value| rmp_serde::to_vec(value).expect("a sample can be written"),
        decode: |bytes| frame::decode(bytes).expect("what was written can be read"),
    };
    // Names of methods are checked when they are read.
    let mut golden = Golden::trying(&["merge-p2p-sync"]);
    golden.add(name, &wire);
    let file = format!("tests/golden/{name}.txt");
    golden.check(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file), &version);
}

#[test]
fn golden_samples_of_a_will_are_those_of_this_version() {
    check::<(Coordinator, Vec<(pcm_proto::ids::Iteration, Vec<u8>)>)>("will");
}

#[test]
fn golden_samples_of_the_head_of_an_image_are_those_of_this_version() {
    check::<Head>("image_head");
}
