//! The CPU time that the control group of this process may take, where the kernel limits it: a container, a batch
//! system's group, a virtual node of a bench. Knows both versions of control groups; reads a handful of small files.

use std::fs;
use std::path::{Path, PathBuf};

/// A group deeper than this below its mount is not looked for limits any more.
const DEPTH_MAX: usize = 16;

/// The limit of a group and where its use is counted.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuLimit {
    /// CPUs' worth of time the group may take.
    pub cpus: f64,
    usage: Option<(PathBuf, UsageFormat)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum UsageFormat {
    /// `usage_usec N` among other lines.
    StatLines,
    Number,
}

/// Where the controllers of a group are.
#[derive(Clone, Debug, Default, PartialEq)]
struct Folders {
    /// Version 2, with the mount's own folder.
    unified: Option<(PathBuf, PathBuf)>,
    /// Version 1's controller `cpu`, with the mount's own folder.
    cpu: Option<(PathBuf, PathBuf)>,
    /// Version 1's controller `cpuacct`.
    cpuacct: Option<PathBuf>,
}

impl CpuLimit {
    /// The limit this process is under now, if there is one.
    pub fn find() -> Option<Self> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let folders = folders(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
        let in_unified = folders.unified.as_ref().and_then(|(folder, top)| {
            let cpus = tightest(folder, top, |folder| {
                limit_of_max(&fs::read_to_string(folder.join("cpu.max")).ok()?)
            })?;
            Some(Self {
                cpus,
                usage: Some((folder.join("cpu.stat"), UsageFormat::StatLines)),
            })
        });
        in_unified.or_else(|| {
            let (folder, top) = folders.cpu.as_ref()?;
            let cpus = tightest(folder, top, |folder| {
                let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
                limit_of_quota(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?)
            })?;
            let usage = folders.cpuacct.map(|folder| folder.join("cpuacct.usage"));
            Some(Self {
                cpus,
                usage: usage.map(|path| (path, UsageFormat::Number)),
            })
        })
    }

    /// CPU time the group has taken, in seconds; nothing where the kernel does not count it.
    pub fn usage_s(&self) -> Option<f64> {
        let (path, format) = self.usage.as_ref()?;
        usage_s(&fs::read_to_string(path).ok()?, *format)
    }
}

/// The smallest limit on the way from a group up to the top.
fn tightest(folder: &Path, top: &Path, limit: impl Fn(&Path) -> Option<f64>) -> Option<f64> {
    let on_the_way = folder
        .ancestors()
        .take(DEPTH_MAX)
        .take_while(|path| path.starts_with(top));
    on_the_way.filter_map(limit).min_by(f64::total_cmp)
}

/// `QUOTA PERIOD`, or `max PERIOD`.
fn limit_of_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    limit_of_quota(quota, period)
}

/// A quota of -1, or none that is a number, is no limit.
fn limit_of_quota(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

fn usage_s(text: &str, format: UsageFormat) -> Option<f64> {
    match format {
        UsageFormat::Number => text.trim().parse::<f64>().ok().map(|ns| ns / 1e9),
        UsageFormat::StatLines => {
            let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
            line.trim().parse::<f64>().ok().map(|us| us / 1e6)
        }
    }
}

/// Finds the folders of a group from `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn folders(groups: &str, mounts: &str) -> Folders {
    let group_of = |wanted: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            wanted(controllers).then(|| PathBuf::from(path))
        })
    };
    let of_controller = |name: &'static str| {
        let group = group_of(&|controllers| controllers.split(',').any(|controller| controller == name))?;
        let mount = mount(mounts, "cgroup", |options| {
            options.split(',').any(|option| option == name)
        })?;
        Some(mount.folder_of(&group))
    };
    let unified = group_of(&str::is_empty).and_then(|group| {
        let mount = mount(mounts, "cgroup2", |_| true)?;
        Some(mount.folder_of(&group))
    });
    Folders {
        unified,
        cpu: of_controller("cpu"),
        cpuacct: of_controller("cpuacct").map(|(folder, _)| folder),
    }
}

struct Mount {
    /// What of the hierarchy is mounted.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// The folder of a group, and the top of what can be seen.
    fn folder_of(&self, group: &Path) -> (PathBuf, PathBuf) {
        let below = group.strip_prefix(&self.root).or_else(|_| group.strip_prefix("/"));
        let folder = below.map_or_else(|_| self.point.clone(), |below| self.point.join(below));
        (folder, self.point.clone())
    }
}

fn mount(mounts: &str, kind: &str, has: impl Fn(&str) -> bool) -> Option<Mount> {
    mounts.lines().find_map(|line| {
        let (place, what) = line.split_once(" - ")?;
        let mut what = what.split(' ');
        let (found, options) = (what.next()?, what.nth(1)?);
        if found != kind || !has(options) {
            return None;
        }
        let mut place = place.split(' ').skip(3);
        Some(Mount {
            root: place.next()?.into(),
            point: place.next()?.into(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
31 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
32 23 0:28 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 23 0:29 /box /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct
";

    #[test]
    fn a_group_is_found_in_both_versions_and_below_what_is_mounted() {
        let found = folders("3:cpuacct:/box/n1\n2:cpu:/a/n1\n0::/a\n", MOUNTS);
        let path = |text: &str| PathBuf::from(text);
        assert_eq!(
            found.cpu,
            Some((path("/sys/fs/cgroup/cpu/a/n1"), path("/sys/fs/cgroup/cpu")))
        );
        assert_eq!(found.cpuacct, Some(path("/sys/fs/cgroup/cpuacct/n1")));
        assert_eq!(
            found.unified,
            Some((path("/sys/fs/cgroup/unified/a"), path("/sys/fs/cgroup/unified")))
        );
        assert_eq!(folders("", MOUNTS), Folders::default());
        assert_eq!(folders("2:cpu:/a", "nonsense"), Folders::default());
    }

    #[test]
    fn no_quota_is_no_limit() {
        assert_eq!(limit_of_max("50000 100000\n"), Some(0.5));
        assert_eq!(limit_of_max("max 100000\n"), None);
        assert_eq!(limit_of_quota("-1\n", "100000\n"), None);
        assert_eq!(limit_of_quota("8000\n", "10000\n"), Some(0.8));
    }

    #[test]
    fn the_tightest_limit_on_the_way_up_counts() {
        let limits = [("/top/a/b", 2.0), ("/top/a", 0.5), ("/", 0.1)];
        let limit = |folder: &Path| {
            limits
                .iter()
                .find(|(path, _)| folder == Path::new(path))
                .map(|(_, cpus)| *cpus)
        };
        assert_eq!(tightest(Path::new("/top/a/b"), Path::new("/top"), limit), Some(0.5));
        assert_eq!(tightest(Path::new("/top/c"), Path::new("/top"), limit), None);
    }

    #[test]
    fn use_is_read_in_both_formats() {
        assert_eq!(usage_s("2500000000\n", UsageFormat::Number), Some(2.5));
        assert_eq!(
            usage_s("usage_usec 2500000\nuser_usec 1\n", UsageFormat::StatLines),
            Some(2.5)
        );
        assert_eq!(usage_s("user_usec 1\n", UsageFormat::StatLines), None);
    }
}
