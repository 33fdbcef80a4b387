//! The daemon proper: one loop over sockets, processes and timers that drives the state machines of `pcm-core`.

mod agent;
mod agent_messages;
mod asks;
mod boot;
mod control;
mod coordinating;
mod daemon;
mod drain;
mod event;
mod event_log;
mod fetch;
mod gather;
mod host;
mod job_output;
mod job_stdin;
mod journal;
mod keeper_orders;
mod launch;
mod layout_requests;
mod logs;
mod look;
mod members;
mod nodes;
mod output_files;
mod parked;
mod part_output;
mod part_stdin;
mod parts;
mod peers;
mod ps;
mod reconfiguring;
mod shutdown;
mod start;
mod timers;
mod wishes;

pub use start::run;
