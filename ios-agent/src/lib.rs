//! The agent of a node. It may be killed at any moment and must never matter to a job.
//!
//! The modules that decide are pure, as `clippy.toml` demands; those of the shell name what they need of the world.

#[expect(clippy::disallowed_methods, reason = "shell: measures this CPU")]
pub mod calibration;
#[expect(clippy::disallowed_methods, reason = "shell: reads the files of the kernel")]
pub mod cpu_limit;
pub mod decide;
pub mod families;
pub mod own_node;
pub mod policy;
pub mod protocol;
pub mod rank_window;
#[expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "shell: reads the command line and the environment"
)]
pub mod run;
#[expect(clippy::disallowed_methods, reason = "shell: reads the files of the kernel")]
pub mod sampling;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "shell: the event loop over the link and the clock"
)]
mod shell;
pub mod window;
