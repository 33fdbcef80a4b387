//! Files and directories whose contents decide what runs: the cluster's directory and what lies in it. They are checked
//! before use and made so that no other user gets in or has planted what is opened. Never ends a process, never prints.

mod foreign;
mod locking;
mod making;
mod reading;

pub use foreign::{Foreign, check_directory, check_file};
pub use locking::{Lock, Locking, lock};
pub use making::{append, make_directory, open_lock, replace};
pub use reading::{open, read};
