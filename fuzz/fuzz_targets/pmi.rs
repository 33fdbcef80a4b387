//! Any bytes as what a rank says to its process manager: each request ends within what came, what is too long is
//! skipped without being kept.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pcm_core::pmi::wire::{Reading, Skipping, request_read};

fuzz_target!(|data: &[u8]| {
    let mut left = data;
    while !left.is_empty() {
        match request_read(left) {
            Reading::Whole(_, length) => {
                assert!(length > 0 && length <= left.len());
                left = &left[length..];
            }
            Reading::Incomplete => break,
            Reading::TooLong => {
                let mut skipping = Skipping::new(left);
                match skipping.over(left) {
                    Ok((_, end)) => {
                        assert!(end > 0 && end <= left.len());
                        left = &left[end..];
                    }
                    Err(thrown) => {
                        assert!(thrown <= left.len());
                        break;
                    }
                }
            }
        }
    }
});
