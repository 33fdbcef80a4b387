//! How long a thread's turns on the CPU are, for those that others wait for. Nothing of jobs, nodes or MPI.

mod short_turns;
mod turn_ender;

pub use short_turns::ShortTurns;
pub use turn_ender::TurnEnder;
