//! What a process needs of this machine before the keeper can start it: its program and its shared page.

use crate::rank::PageFile;
use crate::rank::program::{ProgramError, program_find};
use pcm_core::node::ranks::effect::RankFact;
use pcm_core::node::ranks::launch::Launch;
use pcm_proto::keeper::ProcessSpec;
use pcm_proto::refusal;
use std::path::PathBuf;

/// Finds the program and makes the page, or says why the process is not started.
pub(super) fn prepare(launch: Launch) -> Result<(ProcessSpec, PageFile), RankFact> {
    let Launch {
        mut spec,
        search_path,
        peers_max,
    } = launch;
    let key = spec.key;
    let failed = |code: &str, reason: String| RankFact::LaunchFailed {
        key,
        code: code.to_owned(),
        reason,
    };
    let typed = spec.program.as_os_str().as_encoded_bytes();
    spec.program =
        program_find(typed, &spec.cwd, &search_path).map_err(|error| failed(code_of(&error), error.to_string()))?;
    let page = PageFile::new(peers_max).map_err(|error| failed(refusal::START_FAILED, error.to_string()))?;
    Ok((spec, page))
}

fn code_of(error: &ProgramError) -> &'static str {
    match error {
        ProgramError::NotFound { .. } => refusal::UNKNOWN_PROGRAM,
        ProgramError::NotExecutable { .. } | ProgramError::NotFile { .. } | ProgramError::NotProgram { .. } => {
            refusal::NOT_EXECUTABLE
        }
        ProgramError::Directory { .. } => refusal::BAD_DIRECTORY,
    }
}

/// The library in front of MPI, for programs that are not linked with it. It is beside the daemon.
pub fn library_in_front() -> Option<PathBuf> {
    let library = std::env::current_exe().ok()?.with_file_name("libpcm.so");
    library.is_file().then_some(library)
}
