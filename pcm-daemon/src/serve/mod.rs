//! The daemon proper: one loop over sockets, processes and timers that drives the node of `pcm-core`.

mod agent_process;
mod boot;
mod control_link;
mod control_senders;
mod event;
mod event_log;
mod hands;
mod host;
mod journal;
mod journal_head;
mod keeper_orders;
mod logs;
mod memory;
mod method_file;
mod peer_links;
mod preemption;
mod shell;
mod start;
mod timers;

pub use start::run;
