//! Any bytes as the head of a request to the dashboard: without the token none is admitted.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pcm_view::dashboard::is_admitted;

fuzz_target!(|data: &[u8]| {
    let Ok(head) = std::str::from_utf8(data) else {
        return;
    };
    // Longer than anything that is found by trying.
    let token = "8f14e45fceea167a5a36dedd4bea2543";
    if is_admitted(head, token, "127.0.0.1:8000") {
        assert!(head.contains(token));
    }
});
