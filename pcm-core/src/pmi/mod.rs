//! PMI-1, the protocol by which an MPICH process talks to its process manager: the text ([`wire`]), one world of
//! processes as seen from one node ([`world`]), its barrier along a tree of nodes ([`gather`]), whether its processes
//! have one MPI, and the shared memory that MPI makes for it ([`segment`]). A README beside this file tells the
//! protocol.

pub mod gather;
mod likeness;
pub mod segment;
pub mod spawn;
pub mod wire;
pub mod world;
