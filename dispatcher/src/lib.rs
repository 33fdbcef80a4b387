//! What `pcmctl` and `pcmcc` are made of: one verb per file in `verbs`, and what several verbs share beside it.

pub mod boot;
pub mod build_flags;
pub mod cli;
pub mod cluster;
pub mod compiler;
mod courtesy;
pub mod cpus;
mod dashboard;
mod doctor;
pub mod failure;
pub mod hostfile;
mod layout;
pub mod link;
pub mod lookup;
mod metrics;
pub mod output;
mod progress;
mod rank_words;
mod run;
pub mod signals;
mod steer;
pub mod sweep;
pub mod time;
mod top;
mod trace;
mod verbs;
mod view;
