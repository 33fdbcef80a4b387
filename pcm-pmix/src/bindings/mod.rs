//! What is used of PMIx, under the names of its header: types, numbers, names of attributes, and the functions of a
//! libpmix that is loaded at run time. Nothing is linked. A test holds each line against the header.

pub mod attributes;
pub mod functions;
pub mod numbers;
pub mod types;
