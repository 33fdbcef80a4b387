//! Moves between real MPI processes: subsets of one MPI_COMM_WORLD play survivors, leavers and newcomers. Each test
//! runs itself under mpiexec and is, there, the program of every rank.
#![allow(clippy::unwrap_used, reason = "all of it is test code")]

mod abort;
mod contents;
mod control;
mod damage;
mod first_contact;
mod job;
mod large;
mod launch;
mod memory;
mod misuse;
mod pieces;
mod rounds;
