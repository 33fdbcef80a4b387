//! Reconfiguration of a running job: coordinator, participants, the lease between them, and the application's side.
//! The protocol is told in the README beside this file.

pub mod ceiling;
mod coordinator;
pub mod effects;
mod lease;
pub mod limits;
mod limits_text;
pub use limits_text::LimitsError;
pub mod method_costs;
pub mod method_costs_text;
mod participant;
mod planning;
pub use planning::meet_order;
pub mod rank;
pub mod reconfigurer;
pub mod record;
pub mod refusal;
pub mod seat;
mod step;
