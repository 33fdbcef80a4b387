//! Everything two processes of the project must agree on: ids, messages by direction, framing, limits.

pub mod ids;
