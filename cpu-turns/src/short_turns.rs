//! Short turns on the CPU for a thread that others wait for. MPI waits by spinning: where processes share a CPU, each
//! step of what they do together would otherwise cost the whole turn of one that only spins. Changes nothing but the
//! length of the turns, and gives back the old one.
#![allow(unsafe_code, reason = "two system calls that no library wraps")]

use rustix::thread::gettid;

/// The shortest turn the kernel gives.
const TURN_NS: u64 = 100_000;

/// The scheduling attributes of a thread as the kernel lays them out in its first version.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// For an ordinary thread the length of its turns, since Linux 6.12; ignored before.
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// While it lives, this thread has short turns.
#[derive(Debug)]
pub struct ShortTurns {
    /// What to return to; nothing where the turns could not be shortened.
    before: Option<Attributes>,
}

impl ShortTurns {
    /// Shortens the turns of the thread that calls it. Where the kernel cannot, nothing changes.
    pub fn begin() -> Self {
        let before = attributes().filter(|found| {
            // Other policies are somebody's decision, and their runtime means something else.
            found.policy == libc::SCHED_OTHER as u32 && found.runtime > TURN_NS
        });
        let shortened = before.filter(|found| {
            set(Attributes {
                runtime: TURN_NS,
                ..*found
            })
        });
        Self { before: shortened }
    }
}

impl Drop for ShortTurns {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            set(before);
        }
    }
}

fn attributes() -> Option<Attributes> {
    let mut found = Attributes::default();
    let size = size_of::<Attributes>() as libc::c_uint;
    let thread = gettid().as_raw_nonzero().get();
    // SAFETY: the kernel writes at most `size` bytes to `found`, which has as many.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, &raw mut found, size, 0) };
    (outcome == 0).then_some(found)
}

fn set(wanted: Attributes) -> bool {
    let wanted = Attributes {
        size: size_of::<Attributes>() as u32,
        ..wanted
    };
    let thread = gettid().as_raw_nonzero().get();
    // SAFETY: the kernel reads the number of bytes that `size` says, and `wanted` has as many.
    unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const wanted, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_short_while_it_lives_and_as_before_afterwards() {
        let before = attributes().unwrap();
        let short = ShortTurns::begin();
        let during = attributes().unwrap();
        let is_known_here = before.runtime > 0;
        assert_eq!(during.runtime, if is_known_here { TURN_NS } else { 0 });
        assert_eq!((during.policy, during.nice), (before.policy, before.nice));
        drop(short);
        assert_eq!(attributes().unwrap().runtime, before.runtime);
    }
}
