//! The daemon's side of one rank: its PMI socket, its library's channel, its shared page, its standard streams.
//!
//! [`RankHandle::attach`] takes the descriptors of a process ([`crate::keeper_link::Handed`]) and starts to listen:
//! what the process asks arrives as [`RankEvent`]; what it prints, once [`RankHandle::read_output`] was called, as
//! [`Output`]. Each comes in a bounded queue that the
//! daemon gives, so that a slow reader holds back the process and nobody else. All calls of the handle but
//! [`RankHandle::stdin`] are immediate. Dropping it stops listening; the descriptors stay open in the keeper.
//!
//! A PMI request stays in the socket until [`RankHandle::pmi_answer`]. A daemon that takes over finds it there again;
//! [`RankHandle::is_asking`] says whether there is one.

mod channel;
mod handle;
mod output;
mod page;
mod pmi_port;

pub use handle::{AttachError, RankEvent, RankHandle};
pub use output::{CHUNK_BYTES_MAX, Output};
pub use page::{PageFile, PageMap};
