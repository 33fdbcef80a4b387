//! Any bytes as a journal: records are read up to the first that is none, and what is read is written back as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pcm_core::node::record::Record;
use pcm_proto::frame::{self, Decoder, FrameKind};

const MAX: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let mut decoder = Decoder::new(MAX);
    decoder.push(data);
    while let Ok(Some(frame)) = decoder.next_frame() {
        let Ok(record) = frame::decode::<Record>(frame.payload) else {
            break;
        };
        let mut written = Vec::new();
        frame::encode(FrameKind::Message, &record, MAX, &mut written).expect("what was read can be written");
        let mut again = Decoder::new(MAX);
        again.push(&written);
        let frame = again.next_frame().expect("a frame").expect("a whole one");
        let read = frame::decode::<Record>(frame.payload).expect("a record");
        // Numbers that are none are not equal to themselves.
        assert_eq!(format!("{read:?}"), format!("{record:?}"));
    }
});
