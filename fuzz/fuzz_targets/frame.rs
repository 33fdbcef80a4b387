//! Any bytes, cut in any pieces: the frame decoder neither panics nor holds more than one frame, gives the same frames
//! however the stream is cut, and the message decoder survives every payload.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pcm_proto::{
    control::{ControlToDaemon, DaemonToControl},
    envelope::{DatagramBody, Envelope},
    frame::{self, Decoder, HEADER_LENGTH},
    peer::DaemonToDaemon,
};

const MAX: usize = 1 << 16;

/// The frames of a stream and whether it ended in order.
fn cut(stream: &[u8], piece: usize) -> (Vec<(u8, Vec<u8>)>, bool) {
    let mut decoder = Decoder::new(MAX);
    let mut frames = Vec::new();
    for bytes in stream.chunks(piece) {
        decoder.push(bytes);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push((frame.kind as u8, frame.payload.to_vec())),
                Ok(None) => break,
                Err(_) => return (frames, false),
            }
        }
        assert!(decoder.buffered() <= HEADER_LENGTH + MAX);
    }
    (frames, decoder.finish().is_ok())
}

fuzz_target!(|data: &[u8]| {
    let Some((&piece, stream)) = data.split_first() else {
        return;
    };
    let (frames, in_order) = cut(stream, usize::from(piece).max(1));
    assert_eq!(cut(stream, stream.len().max(1)), (frames.clone(), in_order));
    for (_, payload) in &frames {
        let _ = frame::decode::<ControlToDaemon>(payload);
        let _ = frame::decode::<DaemonToControl>(payload);
        let _ = frame::decode::<DaemonToDaemon>(payload);
        let _ = frame::decode::<Envelope>(payload);
        let _ = frame::decode::<DatagramBody>(payload);
    }
});
