//! The folders of this process's control groups, from `/proc/self/cgroup` and `/proc/self/mountinfo`, in both versions
//! of control groups. Does not read what is in the folders.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Groups above this many are not looked at.
const DEPTH_MAX: usize = 16;

/// A group of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    pub folder: PathBuf,
    /// The highest group that can be seen from here.
    top: PathBuf,
}

impl ControlGroup {
    /// The folder of the group and of all above it, from the inside out.
    pub fn and_above(&self) -> impl Iterator<Item = &Path> {
        let above = self.folder.ancestors().take(DEPTH_MAX);
        above.take_while(|folder| folder.starts_with(&self.top))
    }
}

/// All groups of this process.
#[derive(Clone, Debug, Default)]
pub struct OwnGroups {
    groups: String,
    mounts: String,
}

impl OwnGroups {
    pub fn read() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            groups: read("/proc/self/cgroup"),
            mounts: read("/proc/self/mountinfo"),
        }
    }

    /// The group in version 2, which has one hierarchy for all controllers.
    pub fn unified(&self) -> Option<ControlGroup> {
        let group = self.group(str::is_empty)?;
        Some(self.mount("cgroup2", |_| true)?.group(&group))
    }

    /// The group in the hierarchy of a controller of version 1.
    pub fn of_controller(&self, name: &str) -> Option<ControlGroup> {
        let is_among = |names: &str| names.split(',').any(|one| one == name);
        let group = self.group(is_among)?;
        Some(self.mount("cgroup", is_among)?.group(&group))
    }

    fn group(&self, is_wanted: impl Fn(&str) -> bool) -> Option<PathBuf> {
        self.groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            is_wanted(controllers).then(|| PathBuf::from(path))
        })
    }

    fn mount(&self, kind: &str, is_wanted: impl Fn(&str) -> bool) -> Option<Mount> {
        self.mounts.lines().find_map(|line| {
            let (place, what) = line.split_once(" - ")?;
            let mut what = what.split(' ');
            let (found, options) = (what.next()?, what.nth(1)?);
            if found != kind || !is_wanted(options) {
                return None;
            }
            let mut place = place.split(' ').skip(3);
            Some(Mount {
                root: place.next()?.into(),
                point: place.next()?.into(),
            })
        })
    }
}

struct Mount {
    /// What of the hierarchy is mounted.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    fn group(&self, group: &Path) -> ControlGroup {
        let below = group.strip_prefix(&self.root).or_else(|_| group.strip_prefix("/"));
        ControlGroup {
            folder: below.map_or_else(|_| self.point.clone(), |below| self.point.join(below)),
            top: self.point.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
31 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
32 23 0:28 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 23 0:29 /box /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct
";

    fn of(groups: &str, mounts: &str) -> OwnGroups {
        OwnGroups {
            groups: groups.to_owned(),
            mounts: mounts.to_owned(),
        }
    }

    fn folder(group: Option<ControlGroup>) -> Option<String> {
        group.map(|group| group.folder.display().to_string())
    }

    #[test]
    fn a_group_is_found_in_both_versions_and_below_what_is_mounted() {
        let own = of("3:cpuacct:/box/n1\n2:cpu:/a/n1\n0::/a\n", MOUNTS);
        assert_eq!(
            folder(own.of_controller("cpu")).as_deref(),
            Some("/sys/fs/cgroup/cpu/a/n1")
        );
        assert_eq!(
            folder(own.of_controller("cpuacct")).as_deref(),
            Some("/sys/fs/cgroup/cpuacct/n1")
        );
        assert_eq!(folder(own.unified()).as_deref(), Some("/sys/fs/cgroup/unified/a"));
        assert_eq!(own.of_controller("memory"), None);
        assert_eq!(of("", MOUNTS).unified(), None);
        assert_eq!(of("2:cpu:/a", "nonsense").of_controller("cpu"), None);
    }

    #[test]
    fn the_way_up_ends_where_the_groups_are_mounted() {
        let group = of("0::/a/b\n", MOUNTS).unified().unwrap();
        let folders: Vec<_> = group.and_above().map(|folder| folder.display().to_string()).collect();
        let top = "/sys/fs/cgroup/unified";
        assert_eq!(folders, [format!("{top}/a/b"), format!("{top}/a"), top.to_owned()]);
    }
}
