//! The start, the loop and the hooks of a C program.
#![allow(non_camel_case_types, reason = "the names are those of C")]
#![allow(unsafe_code, reason = "C API")]
#![allow(unreachable_pub, reason = "what pcm.h is made of is public")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the words are those of pcm.h: pointers are NULL or good"
)]

use super::{
    failure::{failed, keep},
    result::*,
};
use crate::{
    region::HookFailed,
    role::Role,
    session::{SessionError, Step, present},
    start,
};
use std::{
    cell::RefCell,
    ffi::{c_int, c_longlong, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Called on every rank when the ranks have changed, with the new layout in force: makes anew what depends on the
/// ranks, such as communicators. Every rank calls it at the same iteration, so it may use MPI_COMM_WORLD. Returns 0, or
/// another number for a failure.
pub type pcm_change_hook = Option<unsafe extern "C" fn(context: *mut c_void) -> c_int>;

/// Called on a rank that leaves, before it ends. The others do not wait for it: it must not communicate.
pub type pcm_exit_hook = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// Most hooks of each kind: a program has one or two, a library it uses perhaps one more.
const HOOKS_MAX: usize = 64;

#[derive(Default)]
struct Hooks {
    change: Vec<(unsafe extern "C" fn(*mut c_void) -> c_int, *mut c_void)>,
    exit: Vec<(unsafe extern "C" fn(*mut c_void), *mut c_void)>,
}

thread_local! {
    static HOOKS: RefCell<Hooks> = RefCell::default();
}

/// Ends the registrations and begins. To be called once by every rank, after all regions are registered and before the
/// loop. At the first start of a job, and under mpiexec, it returns at once. In a process that joins a running job it
/// waits for its place: when it returns, MPI_COMM_WORLD is the job's, and the registered data and values are in place.
///
/// Before it, a process that joins sees the rank and size it will have, but has no MPI_COMM_WORLD to communicate on
/// (see pcm_joining).
#[unsafe(no_mangle)]
pub extern "C" fn pcm_start() -> pcm_result {
    let outcome = catch_unwind(AssertUnwindSafe(|| present::with(|session| session.begin())));
    match outcome {
        Ok(Ok(Ok(()))) => PCM_OK,
        Ok(Ok(Err(error)) | Err(error)) => failed(&error),
        Err(_) => defect(),
    }
}

/// The top of an iteration: to be called by every rank at the beginning of each iteration of the program's loop. Costs
/// nanoseconds as long as nothing is to change.
///
/// Returns PCM_OK, or PCM_CHANGED when ranks came, went or moved: then ask MPI_Comm_rank and MPI_Comm_size,
/// pcm_data and pcm_bounds anew, and make communicators anew, before the iteration goes on. A process that joined gets
/// PCM_CHANGED from its first call. To a rank that is to leave it does not return: its exit hooks run, MPI is
/// finalised, the process exits with code 0.
///
/// Any other result is an error: PCM_ERROR_HOOK and PCM_ERROR_MOVE come after a change, all others leave everything as
/// it was.
#[unsafe(no_mangle)]
pub extern "C" fn pcm_iterate() -> pcm_result {
    match catch_unwind(AssertUnwindSafe(|| present::with_quickly(|session| session.top()))) {
        Ok(Ok(Ok(Some(Step::Same)))) => PCM_OK,
        Ok(Ok(Ok(Some(Step::Changed)))) => changed(),
        Ok(Ok(Ok(None))) => leave(),
        Ok(Ok(Err(error)) | Err(error)) => failed(&error),
        Err(_) => defect(),
    }
}

/// Makes a checkpoint of all registered data in files. To be called by every rank at the same iteration, right after
/// pcm_iterate, before the iteration changes data. Returns when the data is copied (and the checkpoint before is on
/// disk); the files are written while the program goes on, and MPI_Finalize waits for them. They go below the directory
/// that PCM_CHECKPOINT_DIR names (default: pcm-checkpoints), which all ranks must share, and survive the program:
/// started again with PCM_RESTORE set to the checkpoint's directory, on any number of ranks, by mpiexec or pcmctl, the
/// program has the data back when pcm_start returns. PCM_CHECKPOINT_EVERY, a number of seconds or auto, has pcm_iterate
/// make one that often, without a call of this function.
///
/// Returns PCM_OK, or PCM_ERROR_CHECKPOINT: then none was begun, and the program can go on. Whether it got onto the
/// disk pcm_checkpoint_wait says.
#[unsafe(no_mangle)]
pub extern "C" fn pcm_checkpoint() -> pcm_result {
    match catch_unwind(AssertUnwindSafe(|| present::with(|session| session.checkpoint()))) {
        Ok(Ok(Ok(_))) => PCM_OK,
        Ok(Ok(Err(error)) | Err(error)) => failed(&error),
        Err(_) => defect(),
    }
}

/// Waits until the checkpoint that was made last is on disk. To be called by every rank. Returns PCM_OK, also where
/// none was made; or PCM_ERROR_CHECKPOINT on every rank: it came to nothing, and the program can go on.
#[unsafe(no_mangle)]
pub extern "C" fn pcm_checkpoint_wait() -> pcm_result {
    match catch_unwind(AssertUnwindSafe(|| present::with(|session| session.checkpoint_wait()))) {
        Ok(Ok(Ok(()))) => PCM_OK,
        Ok(Ok(Err(error)) | Err(error)) => failed(&error),
        Err(_) => defect(),
    }
}

/// 1 in a process that joins a job that was running already, also after it has joined; 0 in any other process. Guards
/// what only the first ranks do: reading input, setting initial values, communicating before pcm_start.
#[unsafe(no_mangle)]
pub extern "C" fn pcm_joining() -> c_int {
    let role = start::started().map(|started| started.role);
    c_int::from(role.is_some_and(|role| role != Role::First))
}

/// Asks that the job have so many ranks, as pcmctl expand and shrink do. To be called on one rank, after pcm_start. The
/// change comes with a later pcm_iterate, or never: what cannot be done is refused. Does nothing under mpiexec.
#[unsafe(no_mangle)]
pub extern "C" fn pcm_request(ranks: c_int) -> pcm_result {
    let ranks = u32::try_from(ranks).unwrap_or(0);
    match catch_unwind(AssertUnwindSafe(|| present::with(|session| session.request(ranks)))) {
        Ok(Ok(Ok(()))) => PCM_OK,
        Ok(Ok(Err(error)) | Err(error)) => failed(&error),
        Err(_) => defect(),
    }
}

/// Declares how many iterations are left, beginning with the next pcm_iterate. To be called after pcm_start, by every
/// rank (a process that joins included). Whoever changes the ranks goes by it: a change that comes too late, or would
/// not be worth it any more, is not made. May be declared anew at any time; more iterations than declared are no error.
/// Does nothing under mpiexec.
#[unsafe(no_mangle)]
pub extern "C" fn pcm_remaining(iterations: c_longlong) -> pcm_result {
    let Ok(iterations) = u64::try_from(iterations) else {
        keep(format_args!("{iterations} iterations cannot be left; give 0 or more"));
        return PCM_ERROR_ARGUMENT;
    };
    match catch_unwind(AssertUnwindSafe(|| {
        present::with(|session| session.remaining(iterations))
    })) {
        Ok(Ok(Ok(()))) => PCM_OK,
        Ok(Ok(Err(error)) | Err(error)) => failed(&error),
        Err(_) => defect(),
    }
}

/// Has `hook` called with `context` on every rank whenever the ranks have changed, at the end of pcm_iterate, in the
/// order in which hooks were given. If one fails, pcm_iterate returns PCM_ERROR_HOOK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_on_change(hook: pcm_change_hook, context: *mut c_void) -> pcm_result {
    add(hook, context, |hooks| &mut hooks.change)
}

/// Has `hook` called with `context` on a rank that leaves, inside its last pcm_iterate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_on_exit(hook: pcm_exit_hook, context: *mut c_void) -> pcm_result {
    add(hook, context, |hooks| &mut hooks.exit)
}

fn add<H>(
    hook: Option<H>,
    context: *mut c_void,
    of: impl FnOnce(&mut Hooks) -> &mut Vec<(H, *mut c_void)>,
) -> pcm_result {
    let Some(hook) = hook else {
        keep("the hook is NULL; give a function");
        return PCM_ERROR_NULL;
    };
    if let Err(error) = present::with(|_| ()) {
        return failed(&error);
    }
    HOOKS.with_borrow_mut(|hooks| {
        let hooks = of(hooks);
        if hooks.len() >= HOOKS_MAX {
            keep(format_args!("there are {HOOKS_MAX} hooks already"));
            return PCM_ERROR_TOO_MANY;
        }
        hooks.push((hook, context));
        PCM_OK
    })
}

fn changed() -> pcm_result {
    for (hook, context) in HOOKS.with_borrow(|hooks| hooks.change.clone()) {
        // SAFETY: the program's function, with the context it gave.
        let code = unsafe { hook(context) };
        if code != 0 {
            return failed(&SessionError::ChangeHook(HookFailed::with_code(code)));
        }
    }
    PCM_CHANGED
}

fn leave() -> pcm_result {
    for (hook, context) in HOOKS.with_borrow(|hooks| hooks.exit.clone()) {
        // SAFETY: as in `changed`.
        unsafe { hook(context) };
    }
    match catch_unwind(AssertUnwindSafe(|| present::with(|session| session.leave()))) {
        Ok(Ok(Ok(()))) => PCM_OK,
        Ok(Ok(Err(error)) | Err(error)) => failed(&error),
        Err(_) => defect(),
    }
}

fn defect() -> pcm_result {
    keep("a defect of libpcm itself; please report it with the call that was made");
    PCM_ERROR_INTERNAL
}
