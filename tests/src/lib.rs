//! What the test targets `sim_*`, `system_*`, `fault_*`, `rdma_*` and `slurm_*` share. Must never hold a test's own
//! logic.

pub mod adapting;
pub mod agents;
pub mod asked;
pub mod background;
pub mod binaries;
pub mod browser;
pub mod c_program;
pub mod cluster;
pub mod cluster_simulation;
pub mod conformance;
pub mod crashing;
pub mod example;
pub mod guests;
pub mod heat2d;
pub mod intel;
pub mod language;
pub mod leak;
pub mod limited;
pub mod logs;
pub mod malleable;
pub mod network;
pub mod own_share;
pub mod packages;
pub mod parked;
pub mod pieces;
pub mod plate;
pub mod processes;
pub mod shared_memory;
pub mod simulation;
pub mod skip;
pub mod slurm;
pub mod stand_in_data;
pub mod trace_format;
pub mod users;
pub mod wait;
