//! The node's files in the cluster's directory: events, logs, costs of methods and of exchanges. One thread touches
//! them: a disk that is full, slow or away does not hold up the daemon. What the thread cannot take is dropped and
//! counted.

mod event_file;
mod event_log;
mod log_levels;
mod logs;
mod method_file;
mod tuning_file;
mod writer;

pub(super) use event_log::EventLog;
pub(super) use log_levels::LogLevels;
pub(super) use logs::node_dir;
pub(super) use writer::{Files, FilesSpec, Work, publish};
