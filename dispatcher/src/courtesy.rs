//! Who only looks gives way to those who compute.

/// What is added to the niceness: ranks on the same CPUs get nine tenths and more of them.
const NICENESS: i32 = 10;

/// Lowers the priority of this process for the rest of its life.
pub(crate) fn give_way() {
    // A refusal costs the ranks a little time, nothing else.
    _ = rustix::process::nice(NICENESS);
}
