//! What the links of one endpoint have seen, refused and dropped. Only counts; who acts on them is not known here.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one endpoint, shared by its links.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[$doc])* pub(crate) $name: AtomicU64,)* }

        /// The counters at one moment.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct CountersSnapshot { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            /// All counters now.
            pub fn snapshot(&self) -> CountersSnapshot {
                CountersSnapshot { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Links made by peers that came to us.
    accepted,
    /// Links we made to peers.
    connected,
    /// Peers whose first bytes were not those of this protocol.
    rejected_not_ours,
    /// Peers that do not hold the cluster's key, or replayed or altered a handshake.
    rejected_key,
    /// Peers with the key but another protocol version.
    rejected_version,
    /// Peers with the key whose hello was malformed.
    rejected_hello,
    /// Peers that did not finish the handshake in its deadline.
    rejected_deadline,
    /// Peers that went away during the handshake.
    rejected_lost,
    /// Local peers that run as another user.
    rejected_user,
    /// Unfinished handshakes that made room for newer ones.
    half_open_displaced,
    /// Finished links dropped because nobody accepted them in time.
    accept_queue_full,
    /// Connections that could not be accepted, mostly for want of descriptors.
    accept_failed,
    /// Messages refused because the peer's queue was full.
    send_refused,
    /// Links ended because the peer did not read.
    stalled,
    /// Links whose peer vanished without a goodbye.
    lost,
    /// Links ended because of a frame that was too large or of an unknown kind.
    frames_rejected,
    /// Links ended because a record was not encrypted by the peer or came out of order.
    records_rejected,
    /// Messages that were not of the expected type; the link went on.
    messages_rejected,
}

impl Counters {
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
