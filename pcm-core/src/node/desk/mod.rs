//! The desk of a node: links of `pcmctl`, requests and questions that other nodes have to answer, what this node
//! answers them, and views of jobs that are made of the answers.

pub(in crate::node) mod machine;
mod views;
