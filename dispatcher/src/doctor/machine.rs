//! Checks of this machine that need no cluster: programs, CPUs, shared memory, limits, ptrace, ssh.

use super::finding::Finding;
use crate::boot::daemon_program;
use crate::installed;
use crate::output::bytes;
use crate::program::{self, Abi};
use pcm_proto::open_files::{self, RanksMax};
use rustix::process::{Resource, Rlimit, getrlimit};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Below this, ranks of one node cannot set up their shared memory: MPICH takes about 4 MiB a rank.
const SHARED_MEMORY_MIN: u64 = 16 << 20;

/// Below this, in-memory checkpoints and many ranks may not fit.
const SHARED_MEMORY_WANTED: u64 = 256 << 20;

/// A rank holds some tens of descriptors, and one or two for each rank of other nodes that it speaks with.
const DESCRIPTORS_WANTED: u64 = 1024;

/// A node of fewer ranks than this is soon too small.
const RANKS_WANTED: u64 = 64;

/// Processes: ranks, each with a helper thread or two, beside what the user runs.
const PROCESSES_WANTED: u64 = 512;

/// All of them, in the order they are shown.
pub(crate) fn check() -> Vec<Finding> {
    vec![
        programs(),
        libraries(installed::part),
        cpus(),
        scheduler(
            &rustix::system::uname().release().to_string_lossy(),
            fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled")
                .ok()
                .as_deref(),
        ),
        shared_memory(Path::new("/dev/shm")),
        descriptors(getrlimit(Resource::Nofile)),
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
    match installed::part("ios-agent") {
        None => Finding::warning(
            NAME,
            format!("{version}; ios-agent is not beside pcmctl"),
            "build it with 'cargo xtask build': without it jobs do not adapt by themselves",
        ),
        Some(_) => Finding::ok(NAME, format!("{version}, ios-agent beside pcmctl")),
    }
}

/// The libpcm for each way to call MPI: it is there, and it is that one.
fn libraries(part: impl Fn(&str) -> Option<PathBuf>) -> Finding {
    const NAME: &str = "libpcm";
    const INSTALL: &str = "install all parts from the same build";
    for abi in Abi::ALL {
        let name = abi.libpcm();
        let Some(file) = part(name) else {
            let found = format!("{name} is not beside pcmctl");
            let advice = format!(
                "{INSTALL}: programs for {} run without it, but cannot be inspected or moved",
                abi.name()
            );
            return Finding::warning(NAME, found, advice);
        };
        let own_name = program::own_name(&file).unwrap_or_else(|| "no library".to_owned());
        if own_name != format!("{name}.0") {
            let found = format!("{} is not libpcm for {}, but {own_name}", file.display(), abi.name());
            return Finding::broken(NAME, found, INSTALL);
        }
    }
    Finding::ok(NAME, "libpcm.so, libpcm_abi.so and libpcm_openmpi.so beside pcmctl")
}

fn cpus() -> Finding {
    let count = std::thread::available_parallelism().map_or(0, usize::from);
    Finding::ok("CPUs", format!("{count} may be used by this user's processes"))
}

/// The first Linux without a defect that came with 6.13: where processes are in scheduling groups, one that can run may
/// get no CPU for a minute.
const FAIR_SINCE: (u32, u32, u32) = (6, 18, 45);

fn scheduler(release: &str, groups: Option<&str>) -> Finding {
    const NAME: &str = "scheduler";
    let numbers = release.split(|sign: char| !sign.is_ascii_digit());
    let mut numbers = numbers.map(|number| number.parse().unwrap_or(0));
    let mut number = || numbers.next().unwrap_or(0);
    let is_fair = !((6, 13, 0)..FAIR_SINCE).contains(&(number(), number(), number()));
    let found = format!("Linux {release}");
    match groups.map(str::trim) {
        _ if is_fair => Finding::ok(NAME, found),
        Some("1") => Finding::warning(
            NAME,
            format!("{found} groups processes by session, and can leave one without a CPU for a minute"),
            "boot 6.18.45 or newer, or as root: sysctl kernel.sched_autogroup_enabled=0",
        ),
        _ => Finding::ok(
            NAME,
            format!("{found}; give jobs no control groups with shares of CPUs on it"),
        ),
    }
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

/// Ranks get the limit as it is; a keeper and its daemon raise theirs as far as they may.
fn descriptors(limit: Rlimit) -> Finding {
    const NAME: &str = "open files";
    let own = limit.current.unwrap_or(u64::MAX);
    let daemons = limit.maximum.unwrap_or(u64::MAX).min(open_files::LIMIT_MAX).max(own);
    let RanksMax {
        without_checkpoints: ranks,
        with_checkpoints: kept,
    } = open_files::ranks_max(daemons);
    let text = |value: Option<u64>| value.map_or("unlimited".to_owned(), |value| value.to_string());
    let found = format!(
        "limit {} for a rank, {} for a daemon: enough for {ranks} ranks of a node, {kept} with checkpoints in memory",
        text(limit.current),
        text(limit.maximum),
    );
    if kept < RANKS_WANTED {
        let wanted = open_files::limit_for(RANKS_WANTED);
        let advice = format!("raise the hard limit to {wanted} or more (limits.conf), before 'pcmctl up'");
        Finding::warning(NAME, found, advice)
    } else if own < DESCRIPTORS_WANTED {
        Finding::warning(
            NAME,
            found,
            format!("raise it for ranks: ulimit -n {DESCRIPTORS_WANTED}, before 'pcmctl up'"),
        )
    } else {
        Finding::ok(NAME, found)
    }
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
    fn a_scheduler_that_starves_processes_in_groups_is_a_warning() {
        for (release, groups, verdict) in [
            ("6.18.44-fc-v595", Some("1\n"), Verdict::Warning),
            ("6.13.0", Some("1"), Verdict::Warning),
            ("6.18.44", Some("0\n"), Verdict::Ok),
            ("6.18.44", None, Verdict::Ok),
            ("6.18.45", Some("1"), Verdict::Ok),
            ("6.12.30", Some("1"), Verdict::Ok),
            ("7.0", Some("1"), Verdict::Ok),
            ("odd", Some("1"), Verdict::Ok),
        ] {
            assert_eq!(scheduler(release, groups).verdict, verdict, "{release} {groups:?}");
        }
    }

    #[test]
    fn a_limit_of_open_files_is_told_in_ranks_and_checkpoints() {
        let of = |current, maximum| descriptors(Rlimit { current, maximum });
        let plenty = of(Some(1024), Some(1_048_576));
        assert_eq!(plenty.verdict, Verdict::Ok);
        assert!(
            plenty.found.contains("12979 ranks of a node, 512 with checkpoints"),
            "{}",
            plenty.found
        );
        let few = of(Some(1024), Some(1024));
        assert_eq!(few.verdict, Verdict::Warning);
        assert!(few.found.contains("76 ranks of a node, 32 with"), "{}", few.found);
        assert!(few.advice.contains("1408"), "{}", few.advice);
        assert_eq!(of(Some(256), Some(1 << 16)).verdict, Verdict::Warning);
        assert_eq!(of(None, None).verdict, Verdict::Ok);
    }

    #[test]
    fn a_libpcm_that_is_missing_or_another_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let found = || {
            libraries(|name| {
                let file = folder.path().join(name);
                file.is_file().then_some(file)
            })
        };
        let make = |name: &str, own_name: &str| {
            let mut compile = Command::new("cc");
            compile.args(["-shared", "-nostdlib", "-x", "c", "/dev/null", "-o"]);
            compile
                .arg(folder.path().join(name))
                .arg(format!("-Wl,-soname,{own_name}"));
            assert!(compile.status().unwrap().success());
        };
        assert!(found().found.contains("libpcm.so is not beside"));
        make("libpcm.so", "libpcm.so.0");
        let missing = found();
        assert_eq!(missing.verdict, Verdict::Warning);
        assert!(
            missing.found.contains("libpcm_abi.so is not beside"),
            "{}",
            missing.found
        );
        make("libpcm_abi.so", "libpcm.so.0");
        let another = found();
        assert_eq!(another.verdict, Verdict::Broken);
        assert!(
            another
                .found
                .ends_with("is not libpcm for the standard ABI of MPI-5, but libpcm.so.0"),
            "{}",
            another.found
        );
        fs::write(folder.path().join("libpcm_abi.so"), "text").unwrap();
        assert!(found().found.ends_with("but no library"));
        make("libpcm_abi.so", "libpcm_abi.so.0");
        assert!(found().found.contains("libpcm_openmpi.so is not beside"));
        make("libpcm_openmpi.so", "libpcm_openmpi.so.0");
        assert_eq!(found().verdict, Verdict::Ok);
    }

    #[test]
    fn a_missing_shared_memory_is_broken() {
        assert_eq!(shared_memory(Path::new("/no/such/place")).verdict, Verdict::Broken);
    }
}
