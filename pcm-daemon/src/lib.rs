//! The daemon of a node and the keeper above it. The daemon is the process manager of the node's ranks.

mod cluster_record;
pub mod entry;
mod join;
pub mod keeper;
pub mod keeper_link;
mod node_end;
pub mod output_files;
pub mod packet;
pub mod rank;
pub mod ranks;
pub mod serve;
mod watched;
