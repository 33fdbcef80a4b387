//! Any bytes as a journal: records are read up to the first that is none, what is read is written back as it was, and
//! what a daemon takes in of it, but for the jobs' machines, it survives.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pcm_core::node::record::{Past, Record};
use pcm_core::reconfiguration::limits::Limits;
use pcm_proto::frame::{self, Decoder, FrameKind};
use pcm_proto::ids::NodeName;

const MAX: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let mut decoder = Decoder::new(MAX);
    decoder.push(data);
    let mut past = Past::new(NodeName::new("n0").expect("a name"), Limits::default());
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
        // A job's machine that panics costs the job, and nothing else.
        if !matches!(record, Record::Job { .. }) {
            past.take(record);
        }
    }
});
