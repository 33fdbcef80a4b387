//! The C API. `include/pcm.h` is generated from these files. No panic crosses this boundary.

mod arguments;
mod array;
mod axis;
mod failure;
mod memory;
mod option;
mod pieces;
mod result;
mod session;
mod status;
mod value;
