//! Any bytes as a packet: nobody without the key is answered or remembered. Any bytes as the body behind the seal:
//! every fragment that is believed lies within its message and is written back as it was read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pcm_fabric::{
    ClusterKey,
    datagram::{Core, DatagramLimits, Incarnation, wire},
};
use std::time::Duration;

fuzz_target!(|data: &[u8]| {
    let key = ClusterKey::from_hex("fuzz", &"5a".repeat(32)).expect("a key");
    let mut core: Core<u16> = Core::new(&key, 1, Incarnation([7; 16]), DatagramLimits::default());
    let mut packet = data.to_vec();
    // Most bytes are no packet of this layout; these are.
    if let [layout, kind, rest @ ..] = packet.as_mut_slice() {
        (*layout, *kind) = (0xd1, 1 + *kind % 4);
        if let Some(epoch) = rest.first_chunk_mut::<4>() {
            *epoch = 1_u32.to_le_bytes();
        }
    }
    for mut bytes in [data.to_vec(), packet] {
        core.on_packet(Duration::ZERO, 1, &mut bytes);
        assert_eq!(core.held(), (0, 0, 0));
        assert_eq!(core.poll_transmit(Duration::ZERO, &mut Vec::new()), None);
    }
    if let Some(fragment) = wire::Fragment::parse(data) {
        let length = usize::try_from(fragment.length).expect("a length");
        let range = wire::fragment_range(length, fragment.index, fragment.count);
        let range = range.expect("a believed fragment has a place");
        assert!(range.end <= length && range.len() == fragment.bytes.len());
        let mut written = Vec::new();
        fragment.write(&mut written);
        assert_eq!(wire::Fragment::parse(&written), Some(fragment));
    }
    if let Some((_, entries)) = wire::parse_ack(data) {
        assert!(entries.count() <= data.len() / wire::ACK_ENTRY_LENGTH);
    }
    let _ = wire::parse_challenge(data);
});
