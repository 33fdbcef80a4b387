//! Any bytes as what a rank says to its process manager: each request ends within what came, what is too long is
//! skipped without being kept, and the same bytes give the same requests.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pcm_core::pmi::wire::{Reading, Skipping, request_read};

fuzz_target!(|data: &[u8]| {
    let mut left = data;
    while !left.is_empty() {
        match request_read(left) {
            Reading::Whole(request, length) => {
                assert!(length > 0 && length <= left.len());
                assert_eq!(request_read(&left[..length]), Reading::Whole(request, length));
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
