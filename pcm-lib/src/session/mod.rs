//! The session: registrations, the start, the top of each iteration, and what happens there when the daemons change
//! the job's ranks. Drives [`pcm_core::reconfiguration::rank`] over the channel and the page, joins and parts processes
//! over [`crate::mpi`], moves data by [`crate::redistribute`].

mod checkpoints;
mod departure;
mod early;
mod error;
mod hold;
mod joint;
mod meeting;
mod parking;
mod part;
pub(crate) mod present;
mod run;

pub use crate::channel::ChannelError;
pub(crate) use departure::before_finalize;
pub use error::{NotUsable, SessionError};
pub use run::{Session, Step};
