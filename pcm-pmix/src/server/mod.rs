//! The process around libpmix: calls of libpmix become events of the rules, effects become calls of libpmix. Must never
//! decide what `rules` decides.

mod answers;
mod infos;
mod library;
mod link;
mod process;
mod reading;
mod registration;
mod upcalls;
mod watchdog;

pub use process::run;
