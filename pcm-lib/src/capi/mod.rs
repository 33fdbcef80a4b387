//! The C API. `include/pcm.h` is generated from these files; no panic leaves them.

mod arguments;
mod array;
mod failure;
mod option;
mod result;
mod session;
mod status;
mod value;
