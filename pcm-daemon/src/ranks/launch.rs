//! What a process needs of this daemon before the keeper can start it: its shared page.

use crate::rank::PageFile;
use pcm_core::node::ranks::effect::RankFact;
use pcm_core::node::ranks::launch::Launch;
use pcm_proto::keeper::ProcessSpec;
use pcm_proto::refusal;
use std::path::PathBuf;

/// The order for the keeper and the process's page, or why the process is not started.
pub(super) fn prepare(launch: Launch) -> Result<(ProcessSpec, PageFile), RankFact> {
    let Launch { spec, peers_max } = launch;
    match PageFile::new(peers_max) {
        Ok(page) => Ok((spec, page)),
        Err(error) => Err(RankFact::LaunchFailed {
            key: spec.key,
            code: refusal::START_FAILED.to_owned(),
            reason: error.to_string(),
        }),
    }
}

/// The library in front of MPI, for programs that are not linked with it. It is beside the daemon.
pub fn library_in_front() -> Option<PathBuf> {
    let library = std::env::current_exe().ok()?.with_file_name("libpcm.so");
    library.is_file().then_some(library)
}
