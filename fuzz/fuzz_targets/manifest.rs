//! Any bytes as the manifest of a checkpoint: what it claims is refused or within its rules, and nothing that it claims
//! is made room for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pcm_checkpoint::Manifest;

fuzz_target!(|data: &[u8]| {
    let Ok(manifest) = serde_json::from_slice::<Manifest>(data) else {
        return;
    };
    if manifest.fault().is_some() {
        return;
    }
    assert!(manifest.ranks > 0 && manifest.block_bytes > 0);
    for (region, part) in manifest.parts() {
        assert!(!part.file.contains('/') && !part.file.starts_with('.'));
        assert!(part.rank < manifest.ranks, "{}", region.name);
        assert!(part.crc32.len() as u64 * manifest.block_bytes >= part.plain_bytes());
    }
    let text = serde_json::to_vec(&manifest).expect("what was read can be written");
    assert!(serde_json::from_slice::<Manifest>(&text).is_ok());
});
