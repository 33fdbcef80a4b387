//! What the application has registered: distributed arrays, replicated values, per-rank values, rows, records, custom
//! regions. Pure but for the memory it owns: nothing here calls MPI, speaks with a daemon or knows when data moves.

mod array;
mod block;
mod custom;
mod description;
mod element;
mod error;
mod home;
pub(crate) mod known;
mod landing;
mod lent;
mod limits;
pub mod memory;
mod moved;
mod owners;
mod per_rank;
mod pieces;
mod records;
mod registry;
mod rows;
mod scalar;
mod typed;
mod value;

pub(crate) use array::being_made;
pub use array::{ArrayForm, ArrayRegion, Shares};
pub use custom::{CustomHooks, CustomRegion};
pub use description::{Description, digest};
pub use element::{Element, ElementType};
pub use error::{HookFailed, RegionError};
pub use home::Home;
pub(crate) use landing::{Landing, NotLanded};
pub(crate) use lent::{Given, Pieces};
pub use limits::{NAME_LENGTH_MAX, REGIONS_MAX};
pub use moved::{Delivered, Move};
pub use owners::{Divide, Owners};
pub use per_rank::{Merge, PerRankHooks, PerRankRegion, Split};
pub use records::{Owner, Records};
pub use registry::{Kind, Region, Registry};
pub use rows::Rows;
pub use scalar::Scalar;
pub use typed::{Array, ArrayOptions};
pub use value::{Value, ValueMemory};
