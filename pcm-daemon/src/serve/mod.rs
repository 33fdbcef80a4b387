//! The daemon proper: one loop over sockets, processes and timers that drives the state machines of `pcm-core`.

mod abandoned;
mod agent;
mod agent_messages;
mod asks;
mod boot;
mod checkpoints;
mod control;
mod coordinating;
mod daemon;
mod datagram_way;
mod datagrams;
#[cfg(test)]
mod dice;
mod drain;
mod event;
mod event_log;
mod fabric_news;
mod fetch;
mod gather;
mod host;
mod image_sums;
mod job_output;
mod job_stdin;
mod journal;
mod keeper_orders;
mod kept;
mod launch;
mod layout_requests;
mod logs;
mod look;
mod members;
mod methods;
mod nodes;
mod notice;
mod order;
#[cfg(test)]
mod order_tests;
mod output_files;
mod parked;
mod part_copies;
mod part_output;
mod part_stdin;
mod parts;
mod peers;
mod ps;
mod reconfiguring;
mod series;
mod shutdown;
mod sight;
mod start;
mod timers;
mod traces;
mod wills;
mod wishes;

pub use start::run;
