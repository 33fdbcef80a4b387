//! A process that cannot take part is found before a byte moves: all hear of it, nothing changes, and the job goes on.

use crate::{
    contents,
    control::{self, Outcome},
    job::Job,
    launch::under_mpi,
    pieces,
};
use pcm_core::{
    partition::{ArraySpec, AxisSpec},
    redistribution::HaloFill,
};
use pcm_lib::{
    redistribute::{Limits, MoveError},
    region::{ArrayForm, ElementType, Home, HookFailed, PerRankHooks, Registry, Value},
};

fn rows(rows: u64) -> ArrayForm {
    ArrayForm {
        element: ElementType::Double,
        spec: ArraySpec::new(8, [AxisSpec::block(rows).with_halo(1), AxisSpec::whole(50)]),
        halo: HaloFill::Filled,
        is_scratch: false,
        is_constant: false,
    }
}

/// A move to `next` that fails on every process: with an error that `has_error` knows where it arises, and elsewhere
/// with one that names such a process, or one that has stopped sending. Afterwards nothing has changed.
fn fails(
    job: &mut Job,
    next: &[u32],
    newcomer: impl FnOnce(&Job, u32, u32) -> Registry,
    culprit: u32,
    has_error: impl Fn(&MoveError) -> bool,
) {
    let old = job.registry.as_mut().map(contents::snapshot);
    fails_without_snapshot(job, next, newcomer, culprit, has_error);
    if job.rank().is_some() {
        assert!(job.registry.as_mut().map(contents::snapshot) == old);
    }
}

fn fails_without_snapshot(
    job: &mut Job,
    next: &[u32],
    newcomer: impl FnOnce(&Job, u32, u32) -> Registry,
    culprit: u32,
    has_error: impl Fn(&MoveError) -> bool,
) {
    let Some(mut under) = job.begin_as(next, &[], newcomer) else {
        return;
    };
    let registry = job.registry.as_mut().unwrap();
    match control::drive(
        &mut under.movement,
        registry,
        under.transfer.transport(),
        &under.control,
    ) {
        Outcome::Complete { .. } => panic!("it cannot complete"),
        Outcome::Failed(Some(error)) if has_error(&error) => {}
        Outcome::Failed(Some(error)) => {
            assert!(
                job.me != culprit && matches!(error, MoveError::Elsewhere { .. } | MoveError::SenderStopped { .. }),
                "{error}"
            );
        }
        Outcome::Failed(None) => assert_ne!(job.me, culprit),
    }
    job.abort(under);
}

fn job(ranks: u32) -> Job {
    let mut job = Job::new(ranks, vec![rows(40)], Limits::default());
    if let Some(registry) = &mut job.registry {
        contents::fill(registry, 1);
    }
    job
}

#[test]
fn other_registrations_on_a_newcomer_are_named_and_nothing_moves() {
    let test = "misuse::other_registrations_on_a_newcomer_are_named_and_nothing_moves";
    under_mpi(test, 3, || {
        let mut job = job(2);
        let newcomer = |job: &Job, rank, size| {
            let mut registry = Registry::new(Home {
                rank,
                size,
                ranks_here: 1,
                is_first: false,
            });
            registry.array("array0", rows(41)).unwrap();
            contents::register_opaque(&mut registry, &job.objects);
            registry
        };
        fails(&mut job, &[0, 1, 2], newcomer, 2, |error| {
            let text = error.to_string();
            matches!(error, MoveError::RegistrationsDiffer { rank: 2, region, .. } if region == "array0")
                && text.contains("[41 by blocks, halo 1]")
                && text.contains("[40 by blocks, halo 1]")
        });
    });
}

#[test]
fn memory_that_one_process_cannot_have_aborts_the_move_for_all() {
    let test = "misuse::memory_that_one_process_cannot_have_aborts_the_move_for_all";
    under_mpi(test, 3, || {
        let mut form = rows(1 << 14);
        form.spec.axes[1].extent = 1 << 9;
        // Columns to other columns: new storage beside the old one.
        form.spec.axes.swap(0, 1);
        let mut job = Job::new(2, vec![form], Limits::default());
        if let Some(registry) = &mut job.registry {
            contents::fill(registry, 1);
        }
        let old = job.registry.as_mut().map(contents::snapshot);
        // Room for messages, not for another part of the array.
        let limit = limit_addresses(job.me == 1, 8 << 20);
        fails_without_snapshot(
            &mut job,
            &[1, 0, 2],
            |job, rank, size| job.registered(rank, size, false),
            1,
            |error| matches!(error, MoveError::Memory { region, .. } if region == "array0"),
        );
        restore_addresses(limit);
        assert!(job.registry.as_mut().map(contents::snapshot) == old);
    });
}

#[test]
fn memory_that_rows_or_records_cannot_have_aborts_the_move_for_all_and_the_next_one_works() {
    let test = "misuse::memory_that_rows_or_records_cannot_have_aborts_the_move_for_all_and_the_next_one_works";
    under_mpi(test, 3, || {
        let mut job = Job::new(2, Vec::new(), Limits::default());
        if let Some(registry) = &mut job.registry {
            contents::fill(registry, pieces::LARGE);
        }
        let old = job.registry.as_mut().map(contents::snapshot);
        // The first rank's data comes to the second, which has no place for it beside its own: the limit leaves room
        // for messages and for one of the two.
        let limit = limit_addresses(job.me == 1, 8 << 20);
        fails_without_snapshot(
            &mut job,
            &[1, 2],
            |job, rank, size| job.registered(rank, size, false),
            1,
            |error| matches!(error, MoveError::Memory { region, .. } if region == "rows" || region == "records"),
        );
        restore_addresses(limit);
        assert!(job.registry.as_mut().map(contents::snapshot) == old);
        // New memory has no addresses beside it now.
        let limit = limit_addresses(true, 256 << 20);
        for (method, next) in [
            ("p2p", &[1, 2][..]),
            ("collective", &[0, 1, 2]),
            ("p2p", &[2, 0]),
            ("collective", &[1]),
        ] {
            job.method = format!("merge-{method}-sync").parse().unwrap();
            moves_on(&mut job, next);
        }
        restore_addresses(limit);
    });
}

/// A move that is made.
fn moves_on(job: &mut Job, next: &[u32]) {
    match job.begin(next, &[]) {
        None => job.took_place(next),
        Some(mut under) => {
            let registry = job.registry.as_mut().unwrap();
            let transfer = under.transfer.transport();
            let outcome = control::drive(&mut under.movement, registry, transfer, &under.control);
            assert!(matches!(outcome, Outcome::Complete { .. }), "{next:?}");
            job.commit(under);
        }
    }
    if let Some(registry) = &mut job.registry {
        contents::check(registry, pieces::LARGE);
    }
}

#[test]
fn a_job_with_values_that_nobody_merges_does_not_shrink() {
    let test = "misuse::a_job_with_values_that_nobody_merges_does_not_shrink";
    under_mpi(test, 2, || {
        let mut job = job(2);
        let registry = job.registry.as_mut().unwrap();
        *registry = Registry::new(registry.home());
        registry.value("iteration", Value::owned([1; 8])).unwrap();
        registry
            .per_rank("tally", Value::owned([2; 8]), PerRankHooks::default())
            .unwrap();
        fails(
            &mut job,
            &[0],
            |_, _, _| unreachable!(),
            0,
            |error| matches!(error, MoveError::NoMergeHook { region } if region == "tally"),
        );
    });
}

#[test]
fn a_hook_that_fails_aborts_the_move_and_is_named() {
    let test = "misuse::a_hook_that_fails_aborts_the_move_and_is_named";
    under_mpi(test, 2, || {
        let mut job = job(2);
        let registry = job.registry.as_mut().unwrap();
        *registry = Registry::new(registry.home());
        registry.value("iteration", Value::owned([1; 8])).unwrap();
        let hooks = PerRankHooks {
            merge: Some(Box::new(|_, _| Err(HookFailed::with_code(7)))),
            split: None,
        };
        registry.per_rank("tally", Value::owned([2; 8]), hooks).unwrap();
        fails(
            &mut job,
            &[0],
            |_, _, _| unreachable!(),
            0,
            |error| error.to_string() == "region \"tally\": its merge hook failed: it returned 7",
        );
    });
}

#[allow(unsafe_code, reason = "sets a limit of this process")]
fn limit_addresses(is_meant: bool, more: u64) -> Option<libc::rlimit> {
    let in_use = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
    };
    let mut before = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both point to locals.
    is_meant.then(|| unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut before), 0);
        let now = libc::rlimit {
            rlim_cur: in_use() + more,
            ..before
        };
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &now), 0);
        before
    })
}

#[allow(unsafe_code, reason = "sets a limit of this process")]
fn restore_addresses(limit: Option<libc::rlimit>) {
    if let Some(limit) = limit {
        // SAFETY: it points to a local.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    }
}
