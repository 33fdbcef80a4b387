//! Checkpoints of a program in files, written and read by its ranks together: what `pcm_checkpoint`, the variables
//! `PCM_CHECKPOINT_*` and `PCM_RESTORE` do. Works with and without daemons. The format is that of [`pcm_checkpoint`].

mod agree;
mod error;
mod looks;
mod restore;
mod settings;
mod write;

pub use error::CheckpointError;
pub(crate) use looks::Looks;
pub(crate) use restore::restore;
pub(crate) use settings::Settings;
pub(crate) use write::write;
