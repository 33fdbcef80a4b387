//! The processes of this node's ranks. The driver holds their sockets, pipes and pages; here is what the node knows of
//! them, what it has done with them ([`effect::RankEffect`]) and what it hears back ([`effect::RankFact`]).

pub mod effect;
pub mod environment;
pub mod launch;
pub mod local;
pub mod oversubscription;
pub(in crate::node) mod page_questions;
pub mod pages;
