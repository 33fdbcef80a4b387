//! Packets of a member gone mad: the detector refuses or understands each, never panics, and stays within its limits.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pcm_core::membership::{Details, LocalNode, Membership, timing};
use pcm_proto::ids::NodeName;
use std::time::Duration;

fuzz_target!(|data: &[u8]| {
    let name = |name: &str| NodeName::new(name).expect("a good name");
    let details = Details {
        address: "a:1".into(),
        site: "s".into(),
        cpus: vec![0],
        host: 0,
        ud: None,
    };
    let local = LocalNode {
        node: name("n0"),
        boot: 1,
        details,
        patience: timing::PATIENCE,
    };
    let mut detector = Membership::new(local, vec!["b:1".into()], Duration::ZERO);
    let mut out = Vec::new();
    for (index, packet) in data.split(|byte| *byte == 0xc1).enumerate().take(64) {
        let now = Duration::from_millis(100 * u64::try_from(index).unwrap_or(0));
        let from = if index % 2 == 0 { name("n1") } else { name("n2") };
        let _ = detector.on_message(now, &from, packet, &mut out);
        detector.on_tick(now, &mut out);
        out.clear();
    }
});
