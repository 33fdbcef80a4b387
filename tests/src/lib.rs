//! What the test targets `sim_*`, `system_*` and `fault_*` share. Must never hold a test's own logic.

pub mod binaries;
pub mod heat2d;
pub mod limited;
pub mod skip;
