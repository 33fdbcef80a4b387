//! Why a process of a job was not started, as its daemon hears it.

use super::program::ProgramError;
use super::start::StartError;
use pcm_proto::refusal;
use rustix::io::Errno;
use std::path::Path;

#[derive(Debug)]
pub(super) struct StartRefused {
    /// As in [`refusal`].
    pub(super) code: &'static str,
    pub(super) reason: String,
}

impl StartRefused {
    pub(super) fn plain(reason: String) -> Self {
        let code = refusal::START_FAILED;
        Self { code, reason }
    }

    pub(super) fn by_system(program: &Path, error: &StartError) -> Self {
        let code = match Errno::from_raw_os_error(error.errno) {
            Errno::NOENT | Errno::NOTDIR => refusal::UNKNOWN_PROGRAM,
            Errno::ACCESS | Errno::NOEXEC => refusal::NOT_EXECUTABLE,
            Errno::TOOBIG => refusal::ENVIRONMENT_TOO_LARGE,
            _ => refusal::START_FAILED,
        };
        let (program, what) = (program.display(), error.step.text());
        let reason = format!("{program}: {what}: {}", error.text());
        Self { code, reason }
    }
}

impl From<ProgramError> for StartRefused {
    fn from(error: ProgramError) -> Self {
        let code = match &error {
            ProgramError::NotFound { .. } => refusal::UNKNOWN_PROGRAM,
            ProgramError::NotExecutable { .. } | ProgramError::NotFile { .. } | ProgramError::NotProgram { .. } => {
                refusal::NOT_EXECUTABLE
            }
            ProgramError::Directory { .. } => refusal::BAD_DIRECTORY,
        };
        let reason = error.to_string();
        Self { code, reason }
    }
}
