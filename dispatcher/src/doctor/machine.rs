//! Checks of this machine that need no cluster: programs, CPUs, shared memory, limits, ptrace, ssh.

use super::finding::Finding;
use crate::boot::daemon_program;
use crate::installed;
use crate::output::bytes;
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Below this, ranks of one node cannot set up their shared memory: MPICH takes about 4 MiB a rank.
const SHARED_MEMORY_MIN: u64 = 16 << 20;

/// Below this, in-memory checkpoints and many ranks may not fit.
const SHARED_MEMORY_WANTED: u64 = 256 << 20;

/// A daemon holds eight descriptors a rank, a rank some tens of its own.
const DESCRIPTORS_WANTED: u64 = 1024;

/// Processes: ranks, each with a helper thread or two, beside what the user runs.
const PROCESSES_WANTED: u64 = 512;

/// All of them, in the order they are shown.
pub(crate) fn check() -> Vec<Finding> {
    vec![
        programs(),
        cpus(),
        shared_memory(Path::new("/dev/shm")),
        descriptors(),
        processes(),
        locked_memory(),
        ptrace(fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok().as_deref()),
        ssh(),
    ]
}

fn programs() -> Finding {
    const NAME: &str = "programs";
    let daemon = daemon_program();
    let version = Command::new(&daemon).arg("--version").stdin(Stdio::null()).output();
    let version = match version {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => {
            let found = format!("{} cannot be started", daemon.display());
            return Finding::broken(
                NAME,
                found,
                "build it with 'cargo xtask build', or name it in PCM_DAEMON",
            );
        }
    };
    if version != format!("pcm-daemon {}", env!("CARGO_PKG_VERSION")) {
        let found = format!("pcmctl {} beside {version}", env!("CARGO_PKG_VERSION"));
        return Finding::broken(NAME, found, "install both from the same build");
    }
    match ["libpcm.so", "ios-agent"]
        .iter()
        .find(|name| installed::part(name).is_none())
    {
        Some(missing) => Finding::warning(
            NAME,
            format!("{version}; {missing} is not beside pcmctl"),
            "build it with 'cargo xtask build': without it jobs run, but cannot be inspected or moved",
        ),
        None => Finding::ok(NAME, format!("{version}, libpcm.so and ios-agent beside pcmctl")),
    }
}

fn cpus() -> Finding {
    let count = std::thread::available_parallelism().map_or(0, usize::from);
    Finding::ok("CPUs", format!("{count} may be used by this user's processes"))
}

fn shared_memory(path: &Path) -> Finding {
    const NAME: &str = "shared memory";
    let advice = format!(
        "make it larger: mount -o remount,size=1G {}; or remove old files in it",
        path.display()
    );
    let Ok(room) = rustix::fs::statvfs(path) else {
        return Finding::broken(
            NAME,
            format!("{} does not exist", path.display()),
            "mount a tmpfs there",
        );
    };
    let (total, free) = (room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize);
    let found = format!("{} free of {} in {}", bytes(free), bytes(total), path.display());
    if free < SHARED_MEMORY_MIN {
        Finding::broken(NAME, found, advice)
    } else if free < SHARED_MEMORY_WANTED {
        Finding::warning(NAME, found, advice)
    } else {
        Finding::ok(NAME, found)
    }
}

fn limit(resource: Resource) -> (u64, String) {
    let current = getrlimit(resource).current;
    (
        current.unwrap_or(u64::MAX),
        current.map_or("unlimited".to_owned(), |value| value.to_string()),
    )
}

fn descriptors() -> Finding {
    let (value, text) = limit(Resource::Nofile);
    if value < DESCRIPTORS_WANTED {
        let advice = format!("raise it: ulimit -n {DESCRIPTORS_WANTED}, before 'pcmctl up'");
        return Finding::warning("open files", format!("limit {text}"), advice);
    }
    Finding::ok("open files", format!("limit {text}"))
}

fn processes() -> Finding {
    let (value, text) = limit(Resource::Nproc);
    if value < PROCESSES_WANTED {
        let advice = format!("raise it: ulimit -u {PROCESSES_WANTED}, before 'pcmctl up'");
        return Finding::warning("processes", format!("limit {text}"), advice);
    }
    Finding::ok("processes", format!("limit {text}"))
}

fn locked_memory() -> Finding {
    let (value, _) = limit(Resource::Memlock);
    let text = if value == u64::MAX {
        "unlimited".to_owned()
    } else {
        bytes(value)
    };
    let has_verbs = fs::read_dir("/sys/class/infiniband").is_ok_and(|mut entries| entries.next().is_some());
    if has_verbs && value != u64::MAX {
        let advice = "this machine has InfiniBand, which needs 'ulimit -l unlimited' before 'pcmctl up'";
        return Finding::warning("locked memory", format!("limit {text}"), advice);
    }
    let use_of = if has_verbs {
        ""
    } else {
        "; only InfiniBand needs it, and there is none here"
    };
    Finding::ok("locked memory", format!("limit {text}{use_of}"))
}

fn ptrace(scope: Option<&str>) -> Finding {
    match scope.map(str::trim) {
        None | Some("0") => Finding::ok("ptrace scope", "processes of one user may read each other's memory"),
        Some(scope) => Finding::warning(
            "ptrace scope",
            format!(
                "{scope}: processes may not read each other's memory, so large messages within a node are copied twice"
            ),
            "as root: sysctl kernel.yama.ptrace_scope=0",
        ),
    }
}

fn ssh() -> Finding {
    let version = Command::new("ssh").arg("-V").stdin(Stdio::null()).output();
    match version {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stderr);
            Finding::ok("ssh", text.split(',').next().unwrap_or_default().trim().to_owned())
        }
        _ => Finding::warning(
            "ssh",
            "there is no ssh client; clusters on this machine do not need it",
            "install one for 'pcmctl up --hosts'",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    #[test]
    fn a_restricted_ptrace_is_a_warning_that_names_the_setting() {
        assert_eq!(ptrace(Some("0\n")).verdict, Verdict::Ok);
        assert_eq!(ptrace(None).verdict, Verdict::Ok);
        let restricted = ptrace(Some("1\n"));
        assert_eq!(restricted.verdict, Verdict::Warning);
        assert!(restricted.advice.contains("kernel.yama.ptrace_scope"));
    }

    #[test]
    fn a_missing_shared_memory_is_broken() {
        assert_eq!(shared_memory(Path::new("/no/such/place")).verdict, Verdict::Broken);
    }
}
