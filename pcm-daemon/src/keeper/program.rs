//! Finds and checks a program before any rank of a job is started, so that a wrong name is one error and not half a
//! job.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Why a program cannot be started.
#[derive(Debug)]
pub(super) enum ProgramError {
    /// No such file, neither as a path nor in the search path.
    NotFound {
        program: PathBuf,
        /// Whether it has a slash and so was not searched for.
        is_path: bool,
    },
    /// It exists but must not be executed.
    NotExecutable {
        program: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It is a directory or another thing that is no program.
    NotFile {
        /// What was found.
        program: PathBuf,
    },
    /// Neither a binary nor a script that names its interpreter.
    NotProgram { program: PathBuf },
    /// The working directory cannot be used.
    Directory {
        directory: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { program, is_path: true } => {
                write!(f, "no program {}: check the path on every node", program.display())
            }
            Self::NotFound {
                program,
                is_path: false,
            } => write!(
                f,
                "no program {} in PATH: give its path (./{0}) or extend PATH",
                program.display()
            ),
            Self::NotExecutable { program, error } => {
                write!(
                    f,
                    "{} cannot be executed: {error}; `chmod +x` makes a file executable",
                    program.display()
                )
            }
            Self::NotFile { program } => write!(f, "{} is not a file", program.display()),
            Self::NotProgram { program } => write!(
                f,
                "{} is neither a binary nor a script with `#!` in its first line",
                program.display()
            ),
            Self::Directory { directory, error } => {
                write!(
                    f,
                    "working directory {}: {error}; it must exist on every node",
                    directory.display()
                )
            }
        }
    }
}

impl std::error::Error for ProgramError {}

/// The file that `program`, as typed in `cwd` with this search path, stands for.
pub(super) fn program_find(program: &[u8], cwd: &Path, search_path: &[u8]) -> Result<PathBuf, ProgramError> {
    directory_check(cwd)?;
    let typed = PathBuf::from(OsStr::from_bytes(program));
    if program.contains(&b'/') {
        let path = cwd.join(&typed);
        return match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ProgramError::NotFound {
                program: typed,
                is_path: true,
            }),
            _ => program_check(&path).map(|()| path),
        };
    }
    let mut refused = None;
    let directories = search_path.split(|b| *b == b':');
    for directory in directories.filter(|_| !program.is_empty()) {
        let path = cwd.join(OsStr::from_bytes(directory)).join(&typed);
        if path.is_file() {
            match program_check(&path) {
                Ok(()) => return Ok(path),
                // As a shell does: a later directory may hold one that can be executed.
                Err(error) => refused = refused.or(Some(error)),
            }
        }
    }
    Err(refused.unwrap_or(ProgramError::NotFound {
        program: typed,
        is_path: false,
    }))
}

fn directory_check(cwd: &Path) -> Result<(), ProgramError> {
    let failed = |error: io::Error| ProgramError::Directory {
        directory: cwd.to_owned(),
        error,
    };
    if !cwd.metadata().map_err(failed)?.is_dir() {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    }
    rustix::fs::access(cwd, rustix::fs::Access::EXEC_OK).map_err(|error| failed(error.into()))
}

fn program_check(path: &Path) -> Result<(), ProgramError> {
    let refused = |error: io::Error| ProgramError::NotExecutable {
        program: path.to_owned(),
        error,
    };
    if !path.metadata().map_err(refused)?.is_file() {
        return Err(ProgramError::NotFile {
            program: path.to_owned(),
        });
    }
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).map_err(|error| refused(error.into()))?;
    // A program that may be executed but not read is left to the system's judgement.
    let mut beginning = [0; 4];
    match File::open(path).and_then(|mut file| file.read_exact(&mut beginning)) {
        Ok(()) if beginning == *b"\x7fELF" || beginning.starts_with(b"#!") => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        _ => Err(ProgramError::NotProgram {
            program: path.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn file(directory: &Path, name: &str, content: &str, mode: u32) {
        fs::write(directory.join(name), content).unwrap();
        fs::set_permissions(directory.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_name_is_searched_for_and_a_path_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        file(here, "prog", "#!/bin/sh\n", 0o755);
        let path = here.as_os_str().as_bytes();
        assert_eq!(program_find(b"prog", here, path).unwrap(), here.join("prog"));
        assert_eq!(program_find(b"./prog", here, b"").unwrap(), here.join("./prog"));
        assert!(matches!(
            program_find(b"prog", here, b"/nowhere"),
            Err(ProgramError::NotFound { .. })
        ));
        assert!(matches!(
            program_find(b"./none", here, path),
            Err(ProgramError::NotFound { .. })
        ));
    }

    #[test]
    fn what_the_system_would_not_execute_is_refused_before() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        file(here, "text", "hello, world", 0o755);
        file(here, "plain", "#!/bin/sh\n", 0o644);
        fs::create_dir(here.join("folder")).unwrap();
        assert!(matches!(
            program_find(b"./text", here, b""),
            Err(ProgramError::NotProgram { .. })
        ));
        assert!(matches!(
            program_find(b"./plain", here, b""),
            Err(ProgramError::NotExecutable { .. })
        ));
        assert!(matches!(
            program_find(b"./folder", here, b""),
            Err(ProgramError::NotFile { .. })
        ));
        assert!(matches!(
            program_find(b"sh", &here.join("none"), b"/bin"),
            Err(ProgramError::Directory { .. })
        ));
    }
}
