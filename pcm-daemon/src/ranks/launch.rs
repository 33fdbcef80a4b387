//! What a process needs of this daemon before the keeper can start it: its shared page.

use crate::rank::PageFile;
use pcm_core::node::ranks::effect::RankFact;
use pcm_core::node::ranks::launch::{InFront, Launch};
use pcm_proto::keeper::ProcessSpec;
use pcm_proto::refusal;

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

/// The libraries in front of MPI, for programs that are not linked with them. They are beside the daemon.
pub fn libraries_in_front() -> InFront {
    let daemon = std::env::current_exe().ok();
    let beside = |name: &str| {
        let library = daemon.as_ref()?.with_file_name(name);
        library.is_file().then_some(library)
    };
    InFront {
        mpich: beside("libpcm.so"),
        standard: beside("libpcm_abi.so"),
        open_mpi: beside("libpcm_openmpi.so"),
    }
}
