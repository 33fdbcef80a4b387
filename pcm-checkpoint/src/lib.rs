//! Checkpoints as files: one directory each, readable without this software. The format is told in
//! `docs/checkpoint-format.md`.

mod assemble;
mod block;
mod checkpoint;
mod damage;
mod direct;
mod draft;
mod error;
mod manifest;
mod npy;
mod opening;
mod pace;
mod part;
mod reader;
mod restore;
mod seal;

pub use assemble::{ExportError, export};
pub use block::{BLOCK_BYTES, Compression};
pub use checkpoint::{Checkpoint, is_checkpoint, remove};
pub use damage::{Damage, Fault};
pub use draft::{Draft, is_unfinished, part_file, remove_drafts};
pub use error::{ReadError, WriteError};
pub use manifest::{
    Application, ArrayRecord, Contents, FORMAT, Manifest, PartRecord, RanksOfProgram, RegionRecord, VERSION,
};
pub use npy::dtype_of_size;
pub use pace::{Pace, Progress};
pub use part::{Content, Data, write_part, write_part_paced};
pub use reader::PartReader;
pub use restore::{RestoreError, array_fill};
