//! Memory of distributed arrays: address ranges the library owns, in which local storage can slide and grow without
//! being copied, or memory of the program. Never looks at what the bytes mean.

mod capacity;
mod error;
mod held;
mod reservation;
mod storage;
mod unmade;
mod window;

pub use capacity::{Available, Capacity};
pub use error::MemoryError;
pub use held::{ProgramMemory, SharedMemory};
pub use storage::Storage;
pub use unmade::Unmade;
pub use window::Place;
