//! The C API. `include/pcm.h` is generated from these files; no panic leaves them.

mod result;
mod status;
