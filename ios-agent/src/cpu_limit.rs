//! The CPU time that the control group of this process may take, where the kernel limits it: a container, a batch
//! system's group, a virtual node of a bench. Knows both versions of control groups; reads a handful of small files.

use proc_files::{ControlGroup, OwnGroups};
use std::fs;
use std::path::{Path, PathBuf};

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

impl CpuLimit {
    /// The limit this process is under now, if there is one.
    pub fn find() -> Option<Self> {
        let groups = OwnGroups::read();
        let in_unified = groups.unified().and_then(|group| {
            let cpus = tightest(&group, |folder| {
                limit_of_max(&fs::read_to_string(folder.join("cpu.max")).ok()?)
            })?;
            Some(Self {
                cpus,
                usage: Some((group.folder.join("cpu.stat"), UsageFormat::StatLines)),
            })
        });
        in_unified.or_else(|| {
            let cpus = tightest(&groups.of_controller("cpu")?, |folder| {
                let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
                limit_of_quota(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?)
            })?;
            let usage = groups.of_controller("cpuacct");
            Some(Self {
                cpus,
                usage: usage.map(|group| (group.folder.join("cpuacct.usage"), UsageFormat::Number)),
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
fn tightest(group: &ControlGroup, limit: impl Fn(&Path) -> Option<f64>) -> Option<f64> {
    group.and_above().filter_map(limit).min_by(f64::total_cmp)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_quota_is_no_limit() {
        assert_eq!(limit_of_max("50000 100000\n"), Some(0.5));
        assert_eq!(limit_of_max("max 100000\n"), None);
        assert_eq!(limit_of_quota("-1\n", "100000\n"), None);
        assert_eq!(limit_of_quota("8000\n", "10000\n"), Some(0.8));
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
