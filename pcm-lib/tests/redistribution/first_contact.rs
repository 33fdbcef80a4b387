//! Two groups that have just met make first contact before anything collective.
#![allow(unsafe_code, reason = "messages whose memory outlives them")]

use super::launch::under_mpi;
use pcm_lib::mpi::{Communicator, InterCommunicator, Port, Request, Waited};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(30);

/// Ranks below this one are the side that connects.
const SECOND: u32 = 2;

/// The two sides, joined as a meeting joins them.
fn between() -> (u32, InterCommunicator) {
    let world = Communicator::world().dup().unwrap();
    let rank = world.rank().unwrap();
    let connects = rank < SECOND;
    let side = if connects {
        0..SECOND
    } else {
        SECOND..world.size().unwrap()
    };
    let own = world.create(&side.collect::<Vec<_>>()).unwrap().unwrap();
    let met = if connects {
        let mut name = vec![0_u8; 1024];
        if rank == 0 {
            // SAFETY: the room stays until the message is there.
            let length = waited(unsafe { world.irecv(&mut name, SECOND, 0) }.unwrap());
            name.truncate(length as usize);
        }
        let name = String::from_utf8(name).unwrap();
        let port = Port::named(name.trim_end_matches('\0')).unwrap();
        own.connect(&port, 0, LIMIT)
    } else {
        let port = if rank == SECOND {
            Port::open().unwrap()
        } else {
            Port::named("").unwrap()
        };
        if rank == SECOND {
            let name = port.name();
            // SAFETY: the name stays until the message is gone.
            waited(unsafe { world.isend(name.as_bytes(), 0, 0) }.unwrap());
        }
        own.accept(&port, 0, LIMIT)
    };
    (rank, met.unwrap())
}

fn waited(mut request: Request) -> u64 {
    match Request::wait_any(std::slice::from_mut(&mut request), LIMIT).unwrap() {
        Waited::Complete { received, .. } => received.bytes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_groups_merge_after_first_contact() {
    under_mpi("first_contact::two_groups_merge_after_first_contact", 5, || {
        let (rank, between) = between();
        between.make_first_contact(rank < SECOND, LIMIT).unwrap();
        let all = between.merge(rank >= SECOND).unwrap();
        assert_eq!((all.rank().unwrap(), all.size().unwrap()), (rank, 5));
    });
}

#[test]
fn a_process_that_makes_no_contact_is_named_when_the_limit_has_passed() {
    under_mpi(
        "first_contact::a_process_that_makes_no_contact_is_named_when_the_limit_has_passed",
        4,
        || {
            let limit = Duration::from_millis(300);
            let (rank, between) = between();
            let begun = Instant::now();
            // The last one of the accepting side stays silent.
            if rank < SECOND {
                let error = between.make_first_contact(true, limit).unwrap_err().to_string();
                assert!(error.contains("process 1 of the other side"), "{error}");
                assert!(begun.elapsed() >= limit);
            } else if rank == SECOND {
                between.make_first_contact(false, limit).unwrap();
            }
        },
    );
}
