//! Open MPI by its files: which release its library is of, and which libpmix belongs to it.

use super::elf::Elf;
use super::{Abi, FOLDERS, folders, in_one_of};
use std::env;
use std::path::{Path, PathBuf};

/// Only releases before 5 have this layer; their `libmpi.so.40` needs it, and has the name of that of release 5.
const OF_OLDER: &str = "libopen-rte.so";

pub(crate) const PMIX: &str = "libpmix.so.2";

/// The libpmix that ranks load with this library, if it is where the loader looks; an error is the predicate of a
/// sentence. Programs of Open MPI 4 run with Open MPI 5, and are judged by what they load.
pub(crate) fn pmix_of(library: &Path) -> Result<Option<PathBuf>, String> {
    let elf = Elf::read(library).map_err(|error| format!("cannot be read: {error}"))?;
    let elf = elf.ok_or("is no library")?;
    if elf.needed.iter().any(|needed| needed.starts_with(OF_OLDER)) {
        return Err(
            "is of Open MPI 4, and the daemons need Open MPI 5, which runs the same programs: name its libmpi.so.40 \
             with --mpi-lib"
                .into(),
        );
    }
    Ok(in_one_of(&folders(&elf, env::var_os("LD_LIBRARY_PATH")), PMIX))
}

/// The one that the loader finds for a program without folders of its own.
pub(crate) fn of_environment() -> Option<PathBuf> {
    let searched = env::var_os("LD_LIBRARY_PATH");
    let searched = searched.iter().flat_map(env::split_paths);
    let folders: Vec<PathBuf> = searched.chain(FOLDERS.map(PathBuf::from)).collect();
    in_one_of(&folders, Abi::OpenMpi.library())
}
