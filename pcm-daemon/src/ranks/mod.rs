//! The processes of this node's ranks as the shell holds them: handles by process, the tasks that feed their streams,
//! and the readers of their shared pages. Decides nothing: [`table::RankTable`] carries out
//! [`pcm_core::node::ranks::effect::RankEffect`].

mod counters;
mod hang_report;
mod launch;
mod looks;
mod monotonic;
mod statuses;
mod streams;
mod table;
mod traces;

pub use launch::libraries_in_front;
pub use streams::RankNews;
pub use table::{Outcome, RankTable};
