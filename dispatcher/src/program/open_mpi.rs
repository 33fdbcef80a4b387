//! Open MPI by its files: which release its library is of, and which libpmix belongs to it.

use super::elf::Elf;
use super::{FOLDERS, Family, families, folders, found, in_one_of, interpreted};
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// What the library of Open MPI 5.0 needs; 4.1 has the same name for itself and another one for this.
const OF_RELEASE: &str = "libopen-pal.so.80";

const PMIX: &str = "libpmix.so.2";

/// Whether a program was linked with Open MPI and no other MPI, and where the loader would find that.
pub(crate) fn linked(program: &OsStr) -> Option<Option<PathBuf>> {
    let path = interpreted(found(program, env::var_os("PATH"))?);
    let elf = Elf::read(&path).ok().flatten()?;
    let folders = folders(&elf, env::var_os("LD_LIBRARY_PATH"));
    let all = families(&elf, &folders);
    let library = all.get(&Family::OpenMpi).filter(|_| all.len() == 1)?;
    Some(in_one_of(&folders, library))
}

/// The libpmix through which PMIx can be served to ranks that load this library; an error is the predicate of a
/// sentence about that.
pub(crate) fn pmix_of(library: &Path) -> Result<PathBuf, String> {
    let elf = Elf::read(library).map_err(|error| format!("cannot be read: {error}"))?;
    let elf = elf.ok_or("is no library")?;
    if !elf.needed.iter().any(|needed| needed == OF_RELEASE) {
        return Err(
            "is no Open MPI 5.0: start the program with the mpirun of its own Open MPI, or compile it with 5.0".into(),
        );
    }
    let searched = env::var_os("LD_LIBRARY_PATH");
    let searched = searched.iter().flat_map(env::split_paths);
    let folders = elf.run_paths.iter().cloned().chain(searched);
    let folders: Vec<PathBuf> = folders.chain(FOLDERS.map(PathBuf::from)).collect();
    in_one_of(&folders, PMIX).ok_or_else(|| format!("needs {PMIX}, which is not where the loader looks"))
}
