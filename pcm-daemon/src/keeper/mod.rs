//! The keeper: parent of a node's daemon and of its ranks. It starts them, holds a duplicate of every descriptor and
//! every exit status until a daemon has acted on it, and decides nothing. One `poll`, no runtime, and beside it a
//! thread for the log alone: what is not here cannot fail.
//!
//! Crash points: the daemon dies → it is started again and handed everything; it cannot be kept alive → all ranks are
//! ended and the keeper with them; the keeper dies → the ranks die by their parent-death signal, and the daemon
//! sweeps what they had started ([`sweep`]).

mod boot;
mod checkpoint_store;
mod clearing;
mod daemon;
mod foreground;
mod held;
mod images;
mod node_environment;
mod program;
mod run;
mod salvage;
mod segments;
mod signals;
mod standbys;
mod start;
mod start_refused;
mod strays;

pub use boot::{BootError, become_keeper};
pub use foreground::Stance;
pub use run::run;
pub use strays::{Swept, sweep};
