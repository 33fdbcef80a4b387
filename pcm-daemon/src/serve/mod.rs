//! The daemon proper: one loop over sockets, processes and timers that drives the node of `pcm-core`.

mod agent_process;
mod boot;
mod control_link;
mod control_senders;
mod event;
mod files;
mod hands;
mod host;
mod journal;
mod journal_head;
mod keeper_orders;
mod memory;
mod peer_links;
mod pmix;
mod preemption;
mod replay;
mod shell;
mod stacks;
mod start;
mod timers;

pub use start::run;
