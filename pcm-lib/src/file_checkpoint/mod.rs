//! Checkpoints of a program in files, written and read by its ranks together: what `pcm_checkpoint`, the variables
//! `PCM_CHECKPOINT_*` and `PCM_RESTORE` do. Works with and without daemons. The format is that of [`pcm_checkpoint`].

mod agree;
mod begun;
mod behind;
mod error;
mod looks;
mod outline;
mod records;
mod restore;
mod settings;
mod source;
mod write;

pub(crate) use begun::{begin_together, end_together};
pub(crate) use behind::{Behind, Task, Tell, finish_all};
pub use error::CheckpointError;
pub(crate) use looks::{Due, Looks, Said};
pub(crate) use outline::Outline;
pub(crate) use restore::restore;
pub(crate) use settings::Settings;
pub(crate) use source::Source;
