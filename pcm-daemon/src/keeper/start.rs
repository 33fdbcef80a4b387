//! Starts one program: `clone` with shared memory, the parent waiting until the program is loaded (what `vfork` does),
//! so that a start costs the same whatever the keeper holds, and a failure comes back as step and error number.
//! Between `clone` and `exec` the child shares our memory: it only makes system calls.
#![allow(unsafe_code, reason = "clone, and system calls between clone and exec")]

use rustix::process::Pid;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;

/// The child's stack between `clone` and `exec`: some system calls deep, far below this.
const STACK_BYTES: usize = 64 * 1024;

/// A child's descriptors get numbers below this; those they are made from must have numbers from here on
/// ([`crate::keeper::held`] moves them), so that none is overwritten before it is used.
pub(super) const TARGET_MAX: RawFd = 240;

/// The C library keeps those right above to itself.
const LAST_STANDARD_SIGNAL: c_int = 31;

/// What the keeper was started with and has changed for itself. Ranks get it as the user had it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfUser {
    /// The limit of open files.
    pub(super) files_max: libc::rlimit,
    pub(super) umask: libc::mode_t,
}

/// Everything about one start.
#[derive(Debug)]
pub(super) struct Program<'a> {
    pub(super) file: CString,
    pub(super) args: Vec<CString>,
    pub(super) env: Vec<CString>,
    pub(super) cwd: CString,
    pub(super) descriptors: Vec<(BorrowedFd<'a>, RawFd)>,
    pub(super) cpus: &'a [u32],
    /// Whether it is killed when this process dies.
    pub(super) dies_with_us: bool,
    /// What it starts with of the user's; `None` leaves ours.
    pub(super) of_user: Option<OfUser>,
}

/// The step at which a start failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Step {
    Clone = 1,
    Group,
    ParentDeath,
    Cpus,
    Files,
    Descriptors,
    Directory,
    Signals,
    Exec,
}

impl Step {
    fn from_number(number: i32) -> Self {
        let all = [
            Self::Clone,
            Self::Group,
            Self::ParentDeath,
            Self::Cpus,
            Self::Files,
            Self::Descriptors,
            Self::Directory,
            Self::Signals,
        ];
        all.into_iter()
            .find(|step| *step as i32 == number)
            .unwrap_or(Self::Exec)
    }

    /// What was tried, for a person.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Clone => "making a new process",
            Self::Group => "making its process group",
            Self::ParentDeath => "tying its life to the keeper's",
            Self::Cpus => "binding it to its CPUs",
            Self::Files => "setting its limit of open files",
            Self::Descriptors => "giving it its descriptors",
            Self::Directory => "entering its working directory",
            Self::Signals => "giving it the default signals",
            Self::Exec => "executing it",
        }
    }
}

/// Why a start failed; no process is left of it.
#[derive(Debug)]
pub(super) struct StartError {
    pub(super) step: Step,
    pub(super) errno: i32,
}

impl StartError {
    pub(super) fn text(&self) -> io::Error {
        io::Error::from_raw_os_error(self.errno)
    }
}

struct Order<'a> {
    file: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
    cwd: *const c_char,
    descriptors: &'a [(RawFd, RawFd)],
    cpus: Option<&'a libc::cpu_set_t>,
    parent: Option<libc::pid_t>,
    of_user: Option<OfUser>,
    step: i32,
    errno: c_int,
}

/// Starts a program in a process group of its own and returns when it is loaded.
pub(super) fn start(program: &Program<'_>) -> Result<Pid, StartError> {
    let argv = pointers(&program.args);
    let envp = pointers(&program.env);
    let descriptors: Vec<(RawFd, RawFd)> = program
        .descriptors
        .iter()
        .map(|(source, target)| (source.as_raw_fd(), *target))
        .collect();
    debug_assert!(
        descriptors
            .iter()
            .all(|(source, target)| *source >= TARGET_MAX && *target < TARGET_MAX)
    );
    let cpus = cpu_set(program.cpus)?;
    let mut order = Order {
        file: program.file.as_ptr(),
        argv: argv.as_ptr(),
        envp: envp.as_ptr(),
        cwd: program.cwd.as_ptr(),
        descriptors: &descriptors,
        cpus: cpus.as_ref(),
        parent: program.dies_with_us.then(std::process::id).map(u32::cast_signed),
        of_user: program.of_user,
        step: 0,
        errno: 0,
    };
    let mut stack = vec![0_u128; STACK_BYTES / size_of::<u128>()];
    let top = stack.as_mut_ptr_range().end.cast::<c_void>();
    let argument = ptr::from_mut(&mut order).cast::<c_void>();
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: `child` makes only system calls on the stack given here; CLONE_VFORK suspends this thread until
    // the child has executed or ended, so that everything `order` points to outlives the child's use of it.
    let pid = unsafe { libc::clone(child, top, flags, argument) };
    let failed = |step, errno| Err(StartError { step, errno });
    if pid < 0 {
        return failed(Step::Clone, io::Error::last_os_error().raw_os_error().unwrap_or(0));
    }
    // SAFETY: the child wrote these through the pointer it got, and is done with it.
    let (step, errno) = unsafe {
        (
            ptr::read_volatile(&raw const order.step),
            ptr::read_volatile(&raw const order.errno),
        )
    };
    if step != 0 {
        // SAFETY: waits for our own child, which has ended; no status is asked for.
        unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
        return failed(Step::from_number(step), errno);
    }
    Pid::from_raw(pid).ok_or(StartError {
        step: Step::Clone,
        errno: 0,
    })
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
}

fn cpu_set(cpus: &[u32]) -> Result<Option<libc::cpu_set_t>, StartError> {
    if cpus.is_empty() {
        return Ok(None);
    }
    // SAFETY: a CPU set is plain bits; all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpus {
        let cpu = *cpu as usize;
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(StartError {
                step: Step::Cpus,
                errno: libc::EINVAL,
            });
        }
        // SAFETY: the number is below the size of the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    Ok(Some(set))
}

/// Runs in the child, on our memory: system calls only, no allocation, no panic, no lock.
extern "C" fn child(argument: *mut c_void) -> c_int {
    // SAFETY: `start` passes an `Order` that outlives this call and that nobody else touches meanwhile.
    let order = unsafe { &mut *argument.cast::<Order<'_>>() };
    let step = prepare(order).err().unwrap_or_else(|| {
        // SAFETY: all pointers come from live, terminated arrays of live, terminated strings.
        unsafe { libc::execve(order.file, order.argv, order.envp) };
        Step::Exec
    });
    // SAFETY: reads the error number of the last call and ends this process without running anybody's exit handlers.
    unsafe {
        order.errno = *libc::__errno_location();
        order.step = step as i32;
        libc::_exit(127)
    }
}

fn prepare(order: &Order<'_>) -> Result<(), Step> {
    let check = |result: c_int, step: Step| if result < 0 { Err(step) } else { Ok(()) };
    // SAFETY: plain system calls on numbers and on memory that `start` keeps alive.
    unsafe {
        check(libc::setpgid(0, 0), Step::Group)?;
        if let Some(parent) = order.parent {
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), Step::ParentDeath)?;
            // The parent may have died before the wish was heard.
            if libc::getppid() != parent {
                libc::_exit(127);
            }
        }
        // Keeper and daemon may read this process although it is not the daemon's child. Kernels without that rule
        // refuse, and need no permission.
        libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::from(libc::getppid() as u32));
        if let Some(cpus) = order.cpus {
            check(
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus),
                Step::Cpus,
            )?;
        }
        for (source, target) in order.descriptors {
            check(libc::dup2(*source, *target), Step::Descriptors)?;
        }
        if let Some(OfUser { files_max, umask }) = &order.of_user {
            check(libc::setrlimit(libc::RLIMIT_NOFILE, files_max), Step::Files)?;
            libc::umask(*umask);
        }
        check(libc::chdir(order.cwd), Step::Directory)?;
        // Rust ignores SIGPIPE, a shell SIGQUIT for what it starts in the background, and the keeper blocks the signals
        // it reads; none of that is the program's choice.
        for signal in (1..=LAST_STANDARD_SIGNAL).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal)) {
            if libc::signal(signal, libc::SIG_DFL) == libc::SIG_ERR {
                return Err(Step::Signals);
            }
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        check(
            libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut()),
            Step::Signals,
        )
    }
}

/// A string without zero bytes, or the error a system call would have given for it.
pub(super) fn c_string(bytes: impl Into<Vec<u8>>) -> Result<CString, StartError> {
    CString::new(bytes).map_err(|_| StartError {
        step: Step::Exec,
        errno: libc::EINVAL,
    })
}

/// `NAME=VALUE`, as `exec` wants it.
pub(super) fn env_entry(name: &[u8], value: &[u8]) -> Result<CString, StartError> {
    c_string([name, b"=", value].concat())
}

/// The file a child of ours finds its own program under, also after the file was replaced on disk.
pub(super) const OWN_PROGRAM: &CStr = c"/proc/self/exe";
