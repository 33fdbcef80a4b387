//! The terminal interface: `state` knows what is shown and chosen, `keys` what a key means, `draw` how it looks,
//! `watch` talks to the daemon and the terminal. The first three are pure.

mod draw;
mod keys;
mod state;
mod watch;

#[cfg(test)]
mod tests;

pub(crate) use watch::watch;
