//! Everything two processes of the project must agree on: ids, messages by direction, framing, limits.

pub mod agent;
pub mod apart;
pub mod app;
pub mod boot;
pub mod byte_lists;
pub mod checkpoint;
pub mod control;
pub mod event;
pub mod fabric;
pub mod frame;
pub mod handshake;
pub mod ids;
pub mod job;
pub mod keeper;
pub mod layout;
pub mod look;
pub mod method;
pub mod outcome;
pub mod page;
pub mod parked;
pub mod peer;
pub mod reconfiguration;
pub mod record;
pub mod refusal;
pub mod series;
pub mod trace;
