//! Any bytes as the header, the opening or the ledger of a bulk transfer: what is believed is within its limits and
//! written back as it was read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pcm_fabric::bulk::{
    Ledger,
    wire::{self, BLOCK_LENGTH, HEADER_LENGTH, Header, REGION_LENGTH_MAX},
};

fuzz_target!(|data: &[u8]| {
    if let Some((bytes, _)) = data.split_first_chunk::<HEADER_LENGTH>()
        && let Some(header) = Header::parse(bytes)
    {
        assert!(usize::try_from(header.length).expect("a length") <= BLOCK_LENGTH);
        assert_eq!(header.to_bytes(), *bytes);
    }
    if let Some((token, length)) = wire::parse_open(data) {
        assert!(length <= REGION_LENGTH_MAX);
        assert_eq!(wire::open_payload(token, length), data);
    }
    if let Some((length, ledger)) = data.split_first_chunk::<8>() {
        let length = u64::from_le_bytes(*length);
        if let Some(mut ledger) = Ledger::from_bytes(length, ledger) {
            let missing: Vec<u32> = ledger.missing().collect();
            assert_eq!(missing.len(), usize::try_from(ledger.missing_count()).expect("a count"));
            for block in missing {
                assert!(ledger.range(block).is_some_and(|range| range.end as u64 <= length));
                ledger.note(block);
            }
            assert!(ledger.is_complete());
        }
    }
});
