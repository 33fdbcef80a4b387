//! One verb per file. Each has `Args`, as clap reads them, and `run`, which returns the exit code.

pub(crate) mod checkpoints;
pub(crate) mod completions;
pub(crate) mod dashboard;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod drain;
pub(crate) mod env;
pub(crate) mod events;
pub(crate) mod expand;
pub(crate) mod explain;
pub(crate) mod grow;
pub(crate) mod jobs;
pub(crate) mod join;
pub(crate) mod kill;
pub(crate) mod logs;
pub(crate) mod messages;
pub(crate) mod migrate;
pub(crate) mod nodes;
pub(crate) mod ping;
pub(crate) mod ps;
pub(crate) mod rebalance;
pub(crate) mod remove;
<<<<<<< HEAD
pub(crate) mod restart;
=======
pub(crate) mod report;
>>>>>>> 3c5ba8c (pcmctl: top, report, dashboard; pcm-daemon: series of samples; tests: a real browser (system tests not yet run))
pub(crate) mod run;
pub(crate) mod shrink;
pub(crate) mod signal;
pub(crate) mod top;
pub(crate) mod up;
