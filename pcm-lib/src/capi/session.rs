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

/// Called on every rank after the ranks have changed, with the new layout in force, to rebuild what depends on the
/// ranks, such as communicators. Every rank calls it at the same iteration, so it may use MPI_COMM_WORLD. Returns 0,
/// or another number for a failure.
pub type pcm_change_hook = Option<unsafe extern "C" fn(context: *mut c_void) -> c_int>;

/// Called on a rank that leaves, before it ends. It must not communicate: the other ranks do not wait for it.
pub type pcm_exit_hook = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// Most hooks of each kind: a program needs one or two, a library it uses perhaps one more.
const HOOKS_MAX: usize = 64;

#[derive(Default)]
struct Hooks {
    change: Vec<(unsafe extern "C" fn(*mut c_void) -> c_int, *mut c_void)>,
    exit: Vec<(unsafe extern "C" fn(*mut c_void), *mut c_void)>,
}

thread_local! {
    static HOOKS: RefCell<Hooks> = RefCell::default();
}

/// Ends the registration of data. Every rank calls it once, after it has registered all regions and before the loop.
/// At the first start of a job, and under mpiexec, it returns immediately. In a process that joins a running job it
/// blocks until the process has its rank: when it returns, MPI_COMM_WORLD is the job's, and the registered data and
/// values are in place.
///
/// Before pcm_start a joining process sees its future rank and size, but cannot communicate on MPI_COMM_WORLD (see
/// pcm_joining).
#[unsafe(no_mangle)]
pub extern "C" fn pcm_start() -> pcm_result {
    let outcome = catch_unwind(AssertUnwindSafe(|| present::with(|session| session.begin())));
    match outcome {
        Ok(Ok(Ok(()))) => PCM_OK,
        Ok(Ok(Err(error)) | Err(error)) => failed(&error),
        Err(_) => defect(),
    }
}

/// Marks the top of an iteration: every rank calls it at the beginning of each iteration of the program's loop. Costs
/// nanoseconds while nothing changes.
///
/// Returns PCM_OK, or PCM_CHANGED if ranks joined, left or moved. After PCM_CHANGED call MPI_Comm_rank, MPI_Comm_size,
/// pcm_data and pcm_bounds again, and create communicators again, before the iteration continues. A process that
/// joined gets PCM_CHANGED from its first call. It does not return on a rank that leaves: the exit hooks run, MPI is
/// finalised, and the process exits with code 0.
///
/// Any other number is an error, one of pcm_result. PCM_ERROR_HOOK and PCM_ERROR_MOVE follow a change; after all others
/// nothing has changed.
#[unsafe(no_mangle)]
pub extern "C" fn pcm_iterate() -> c_int {
    let result = match catch_unwind(AssertUnwindSafe(|| present::with_quickly(|session| session.top()))) {
        Ok(Ok(Ok(Some(Step::Same)))) => PCM_OK,
        Ok(Ok(Ok(Some(Step::Changed)))) => match changed() {
            PCM_OK => return PCM_CHANGED,
            error => error,
        },
        Ok(Ok(Ok(None))) => leave(),
        Ok(Ok(Err(error)) | Err(error)) => failed(&error),
        Err(_) => defect(),
    };
    result as c_int
}

/// Makes a checkpoint of all registered data in files. Every rank calls it at the same iteration, right after
/// pcm_iterate, before the iteration changes data. It returns when the data is copied and the previous checkpoint is
/// on disk. The files are written while the program continues; MPI_Finalize waits for them. They are in the directory
/// that PCM_CHECKPOINT_DIR names (default: pcm-checkpoints), which all ranks must share. To restore, start the program
/// with PCM_RESTORE set to the checkpoint's directory, by mpiexec or pcmctl, on any number of ranks: the data is in
/// place when pcm_start returns. With PCM_CHECKPOINT_EVERY, a number of seconds or auto, pcm_iterate makes checkpoints
/// by itself.
///
/// Returns PCM_OK, or PCM_ERROR_CHECKPOINT if no checkpoint was begun; the program can continue. Call
/// pcm_checkpoint_wait to learn whether it reached the disk.
#[unsafe(no_mangle)]
pub extern "C" fn pcm_checkpoint() -> pcm_result {
    match catch_unwind(AssertUnwindSafe(|| present::with(|session| session.checkpoint()))) {
        Ok(Ok(Ok(_))) => PCM_OK,
        Ok(Ok(Err(error)) | Err(error)) => failed(&error),
        Err(_) => defect(),
    }
}

/// Waits until the last checkpoint is on disk. Every rank calls it. Returns PCM_OK, also if no checkpoint was made, or
/// PCM_ERROR_CHECKPOINT on every rank if the checkpoint failed; the program can continue.
#[unsafe(no_mangle)]
pub extern "C" fn pcm_checkpoint_wait() -> pcm_result {
    match catch_unwind(AssertUnwindSafe(|| present::with(|session| session.checkpoint_wait()))) {
        Ok(Ok(Ok(()))) => PCM_OK,
        Ok(Ok(Err(error)) | Err(error)) => failed(&error),
        Err(_) => defect(),
    }
}

/// Returns 1 in a process that joined a running job, before and after pcm_start; 0 in any other process. Use it to
/// guard what only the first ranks do: reading input, setting initial values, communicating before pcm_start.
#[unsafe(no_mangle)]
pub extern "C" fn pcm_joining() -> c_int {
    let role = start::started().map(|started| started.role);
    c_int::from(role.is_some_and(|role| role != Role::First))
}

/// Asks for this number of ranks, as pcmctl expand and shrink do. One rank calls it, after pcm_start. A later
/// pcm_iterate makes the change, or none if it is refused. Does nothing under mpiexec.
#[unsafe(no_mangle)]
pub extern "C" fn pcm_request(ranks: c_int) -> pcm_result {
    let ranks = u32::try_from(ranks).unwrap_or(0);
    match catch_unwind(AssertUnwindSafe(|| present::with(|session| session.request(ranks)))) {
        Ok(Ok(Ok(()))) => PCM_OK,
        Ok(Ok(Err(error)) | Err(error)) => failed(&error),
        Err(_) => defect(),
    }
}

/// Declares how many iterations remain, beginning with the next pcm_iterate. Every rank calls it after pcm_start,
/// including a process that joins. A change that would come too late is then refused, and agents make none that would
/// no longer pay. It may be declared again at any time; running more iterations is not an error. Does nothing under
/// mpiexec.
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

/// Registers `hook`, called with `context` on every rank after the ranks have changed, at the end of pcm_iterate, in
/// the order of registration. If one fails, pcm_iterate returns PCM_ERROR_HOOK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcm_on_change(hook: pcm_change_hook, context: *mut c_void) -> pcm_result {
    add(hook, context, |hooks| &mut hooks.change)
}

/// Registers `hook`, called with `context` on a rank that leaves, inside its last pcm_iterate.
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
    PCM_OK
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
    keep("a defect in libpcm; please report it with the call that was made");
    PCM_ERROR_INTERNAL
}
