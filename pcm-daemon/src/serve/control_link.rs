//! Reads the links of `pcmctl`: requests become events. Never answers them.

use super::event::Event;
use pcm_core::node::requester::LinkId;
use pcm_fabric::{Link, RecvError};
use pcm_proto::control::ControlToDaemon;
use tokio::sync::mpsc;

/// Reports what arrives on the link of a `pcmctl` until its end.
pub(super) async fn listen_to_control(link: Link, id: LinkId, events: &mpsc::Sender<Event>) {
    let (sender, mut receiver) = link.split();
    if events.send(Event::ControlLinked { link: id, sender }).await.is_err() {
        return;
    }
    let in_order = loop {
        match receiver.recv::<ControlToDaemon>().await {
            Ok(message) => {
                let message = Box::new(message);
                if events.send(Event::ControlSaid { link: id, message }).await.is_err() {
                    return;
                }
            }
            Err(RecvError::Closed) => break true,
            Err(_) => break false,
        }
    };
    // Without a receiver the daemon ends.
    let _ = events.send(Event::ControlLost { link: id, in_order }).await;
}
