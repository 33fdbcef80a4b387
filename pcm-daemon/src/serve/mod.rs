//! The daemon proper: one loop over sockets, processes and timers that drives the state machines of `pcm-core`.
