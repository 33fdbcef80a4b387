//! Any bytes in the place of each handshake message: nobody without the key is ever answered, confirmed or believed,
//! and nothing panics. What only a holder of the key can send is fuzzed behind the encryption.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pcm_fabric::{
    ClusterKey,
    noise::{self, Initiator, OPENING_LENGTH, Responder},
};
use pcm_proto::handshake::{Identity, PROTOCOL_VERSION, Role};
use std::sync::LazyLock;

static KEY: LazyLock<ClusterKey> = LazyLock::new(|| ClusterKey::generate().expect("random bytes"));

fuzz_target!(|data: &[u8]| {
    let local = Identity::new(Role::Control);
    if let Some((opening, message)) = data.split_first_chunk::<OPENING_LENGTH>() {
        if let Ok(length) = noise::message_length(opening) {
            assert!(length <= noise::MESSAGE_LENGTH_MAX);
        }
        assert!(Responder::answer(&KEY, &local, message).is_err());
    }
    let (initiator, first) = Initiator::new(&KEY, local.clone()).expect("a handshake begins");
    assert!(initiator.receive(data).is_err());
    let (responder, _) = Responder::answer(&KEY, &local, &first[OPENING_LENGTH..]).expect("a member is answered");
    assert!(responder.confirm(data).is_err());
    let _ = Identity::from_payload(data, PROTOCOL_VERSION);
});
