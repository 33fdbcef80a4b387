//! Finds an MPI and judges whether it can join and leave worlds while a job runs. Must never install anything.

use crate::failure::Failure;
use std::{
    env, fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::ErrorKind,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

/// An MPI that can do live reconfiguration.
#[derive(Debug, Clone)]
pub(crate) struct Mpi {
    pub(crate) version: String,
    pub(crate) prefix: PathBuf,
    /// The same folder under a name without white space: mpicc splits its flags at blanks.
    pub(crate) plain_prefix: PathBuf,
    pub(crate) include: PathBuf,
    /// The folder of libmpi: the run path of what is linked.
    pub(crate) library: PathBuf,
    /// Names to link, as after -l: Debian calls it mpich.
    pub(crate) link: Vec<String>,
}

/// MPICH's first release whose ch4 device was found to join worlds; Debian 12 has 4.0.2, which cannot.
const OLDEST_MPICH: (u32, u32) = (4, 2);

impl Mpi {
    /// Judges the MPI installed under `prefix`; the error says why it cannot be used.
    pub(crate) fn judge(prefix: &Path) -> Result<Self, String> {
        let prefix = prefix.canonicalize().map_err(|error| format!("{error}"))?;
        if !prefix.join("bin/mpicc").is_file() {
            return Err("it has no bin/mpicc".into());
        }
        let plain_prefix = plain_name(&prefix)?;
        let mpicc = plain_prefix.join("bin/mpicc");
        let macros = output(Command::new(&mpicc).args(["-E", "-dM", "-include", "mpi.h", "-x", "c", "/dev/null"]));
        let defined = judge_header(&macros.ok_or("its mpicc cannot read mpi.h")?)?;
        let report = output(&mut Command::new(prefix.join("bin/mpichversion")))
            .ok_or("its mpichversion is missing or does not run")?;
        let version = judge_report(&report, &defined)?;
        let show = output(Command::new(mpicc).arg("-show")).ok_or("its mpicc does not answer -show")?;
        let flags = |flag: &'static str| show.split_whitespace().filter_map(move |word| word.strip_prefix(flag));
        let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
        Ok(Self {
            version,
            include: real(flags("-I").next().map_or_else(|| prefix.join("include"), PathBuf::from)),
            library: real(flags("-L").next().map_or_else(|| prefix.join("lib"), PathBuf::from)),
            link: flags("-l").map(str::to_owned).collect(),
            prefix,
            plain_prefix,
        })
    }

    /// Looks where a user would expect: PCM_MPI decides alone, then each mpicc in PATH. Tells why others are refused.
    pub(crate) fn find() -> Result<Option<Self>, Failure> {
        if let Some(prefix) = env::var_os("PCM_MPI")
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
        {
            return Self::judge(&prefix)
                .map(Some)
                .map_err(|reason| Failure::ChosenMpi { prefix, reason });
        }
        let mut seen = Vec::new();
        for bin in env::split_paths(&env::var_os("PATH").unwrap_or_default()) {
            let Ok(mpicc) = bin.join("mpicc").canonicalize() else {
                continue;
            };
            if seen.contains(&mpicc) {
                continue;
            }
            seen.push(mpicc.clone());
            // Debian's alternatives end in bin/mpicc.mpich or bin/mpicc.openmpi: the link's own place decides.
            let prefix = if mpicc.ends_with("bin/mpicc") {
                mpicc.parent().and_then(Path::parent)
            } else {
                bin.parent()
            };
            let Some(prefix) = prefix else { continue };
            match Self::judge(prefix) {
                Ok(mpi) => return Ok(Some(mpi)),
                Err(reason) => eprintln!("not using the MPI of {}: {reason}", bin.display()),
            }
        }
        Ok(None)
    }

    pub(crate) fn mpicc(&self) -> PathBuf {
        self.plain_prefix.join("bin/mpicc")
    }

    pub(crate) fn mpiexec(&self) -> PathBuf {
        self.plain_prefix.join("bin/mpiexec")
    }
}

/// The MPICH version that mpi.h defines, or why this is no MPICH.
fn judge_header(macros: &str) -> Result<String, String> {
    let value = |name: &str| {
        let line = macros
            .lines()
            .find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name)?.strip_prefix(' '));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    if value("OPEN_MPI").is_some() {
        return Err("Open MPI hangs when merged communicators are disconnected; an MPICH is needed".into());
    }
    value("MPICH_VERSION").ok_or_else(|| "its mpi.h is not of MPICH".into())
}

/// The version and device in what `mpichversion` prints, or why that MPICH is refused. It must be of the same
/// installation as mpi.h: several can share one folder for programs.
fn judge_report(report: &str, defined: &str) -> Result<String, String> {
    let field = |name: &str| {
        let rest = report
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
        rest.map(|rest| rest.trim().to_owned())
    };
    let (Some(version), Some(device)) = (field("MPICH Version"), field("MPICH Device")) else {
        return Err("its mpichversion names no version and device".into());
    };
    if version != defined {
        return Err(format!("its mpichversion says {version}, its mpi.h {defined}"));
    }
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|part| part.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < OLDEST_MPICH {
        let (major, minor) = OLDEST_MPICH;
        return Err(format!(
            "MPICH {version} ({device}) cannot join the worlds of running processes; {major}.{minor} or newer is needed"
        ));
    }
    if !device.starts_with("ch4") {
        return Err(format!(
            "MPICH {version} is built for the device {device}; ch4 is needed"
        ));
    }
    Ok(format!("MPICH {version} ({device})"))
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A name of `prefix` without white space: itself, or a link of this user in the folder for temporary files.
fn plain_name(prefix: &Path) -> Result<PathBuf, String> {
    let text = prefix.to_str().ok_or("its path is not UTF-8")?;
    if !text.contains(char::is_whitespace) {
        return Ok(prefix.to_path_buf());
    }
    let owner = fs::metadata("/proc/self")
        .map_err(|error| format!("cannot read /proc/self: {error}"))?
        .uid();
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let link = PathBuf::from(format!("/tmp/pcm-mpi-{owner}-{:016x}", hasher.finish()));
    match symlink(prefix, &link) {
        Ok(()) => return Ok(link),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => {
            return Err(format!(
                "its path has white space and {} cannot be made: {error}",
                link.display()
            ));
        }
    }
    // Anyone may write to /tmp: only a link of our own to the right place is trusted.
    let ours = fs::symlink_metadata(&link).is_ok_and(|found| found.uid() == owner && found.is_symlink());
    if ours && fs::read_link(&link).is_ok_and(|goal| goal == prefix) {
        Ok(link)
    } else {
        Err(format!(
            "its path has white space and {} is somebody else's; remove that",
            link.display()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(version: &str, device: &str) -> String {
        format!("MPICH Version:      {version}\nMPICH Release date: unknown\nMPICH Device:       {device}\n")
    }

    #[test]
    fn an_mpich_that_joins_worlds_is_accepted() {
        let judge = |version, device| judge_report(&report(version, device), version);
        assert_eq!(judge("5.0.2", "ch4:ucx ofi").unwrap(), "MPICH 5.0.2 (ch4:ucx ofi)");
        assert!(judge("4.2", "ch4:ofi").is_ok());
        assert!(judge("4.3.0b1", "ch4:ofi").is_ok());
    }

    #[test]
    fn an_mpich_too_old_or_of_another_device_is_refused_with_the_reason() {
        let refusal = |version, device| judge_report(&report(version, device), version).unwrap_err();
        assert!(refusal("4.0.2", "ch4:ucx").contains("4.2 or newer"));
        assert!(refusal("5.0.0", "ch3:nemesis").contains("ch4 is needed"));
        assert!(judge_report("something else", "5.0.2").is_err());
    }

    #[test]
    fn a_header_of_another_mpi_is_refused_with_the_reason() {
        assert_eq!(
            judge_header("#define X 1\n#define MPICH_VERSION \"5.0.2\"\n").unwrap(),
            "5.0.2"
        );
        assert!(judge_header("#define OPEN_MPI 1\n").unwrap_err().contains("Open MPI"));
        assert!(
            judge_header("#define MPI_VERSION 4\n")
                .unwrap_err()
                .contains("not of MPICH")
        );
        assert!(
            judge_report(&report("5.0.2", "ch4:ofi"), "4.1")
                .unwrap_err()
                .contains("mpi.h 4.1")
        );
    }

    #[test]
    fn a_prefix_with_white_space_gets_a_plain_name_for_the_same_folder() {
        let folder = tempfile::tempdir().unwrap();
        let spaced = folder.path().join("a b");
        fs::create_dir(&spaced).unwrap();
        let plain = plain_name(&spaced).unwrap();
        assert!(!plain.to_str().unwrap().contains(' '));
        assert_eq!(plain.canonicalize().unwrap(), spaced.canonicalize().unwrap());
        assert_eq!(
            plain_name(&spaced).unwrap(),
            plain,
            "the second time finds the first link"
        );
        fs::remove_file(plain).unwrap();
    }

    #[test]
    fn a_link_that_leads_elsewhere_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let spaced = folder.path().join("a b");
        fs::create_dir(&spaced).unwrap();
        let plain = plain_name(&spaced).unwrap();
        fs::remove_file(&plain).unwrap();
        symlink(folder.path(), &plain).unwrap();
        assert!(plain_name(&spaced).is_err());
        fs::remove_file(plain).unwrap();
    }
}
