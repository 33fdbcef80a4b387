//! What `pcmctl`, `pcmcc`, `pcmcxx` and `pcmfort` are made of: one verb per file in `verbs`, and what
//! several verbs share beside it.

pub mod boot;
pub mod build_flags;
mod chosen_mpi;
pub mod cli;
pub mod cluster;
mod commands;
pub mod compiler;
mod courtesy;
pub mod cpus;
mod doctor;
pub mod engine;
pub mod failure;
pub mod hostfile;
mod installed;
mod kept;
mod kept_costs;
mod layout;
pub mod link;
pub mod lookup;
mod method;
mod metrics;
mod moving_job;
pub mod output;
mod plan;
mod program;
mod progress;
mod rank_words;
mod run;
pub mod signals;
mod top;
mod trace;
mod traffic;
mod tuning;
mod verbs;
