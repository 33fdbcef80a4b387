//! Memory of distributed arrays: address ranges the library owns, in which local storage can slide and grow without
//! being copied. Never looks at what the bytes mean.

mod capacity;
mod error;
mod reservation;
mod storage;
mod unmade;

pub use capacity::{Available, Capacity};
pub use error::MemoryError;
pub use storage::{Place, Storage};
pub use unmade::Unmade;
