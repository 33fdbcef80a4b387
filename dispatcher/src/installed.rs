//! Where the other parts of this software are, seen from the program that runs: beside it in a build, elsewhere in the
//! same prefix in an installation (`xtask/src/dist/layout.rs` lays that out). Must never name an absolute path.

use crate::program::Abi;
use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Programs that people do not start are here, seen from `bin`.
const FOR_PROGRAMS: &str = "../libexec/pcm";

/// A program or library that `pcmctl` or a daemon uses.
pub(crate) fn part(name: &str) -> Option<PathBuf> {
    part_beside(&own_folder()?, name)
}

/// The folder of the program that runs: `bin`, or that of a build.
fn own_folder() -> Option<PathBuf> {
    Some(env::current_exe().ok()?.parent()?.to_owned())
}

/// The environment of ranks: this process's own. An installed libpcm finds the MPI of its own prefix only, and a rank
/// may be a program that is not linked with MPI; so the MPI in use comes last in the search path of libraries.
pub(crate) fn environment_of_ranks() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut variables: Vec<(OsString, OsString)> = env::vars_os().collect();
    if let Some(folder) = mpi_of_an_installation() {
        let search = variables.iter_mut().find(|(name, _)| name == "LD_LIBRARY_PATH");
        match search {
            Some((_, value)) if !value.is_empty() => {
                value.push(":");
                value.push(folder);
            }
            Some((_, value)) => *value = folder.into_os_string(),
            None => variables.push(("LD_LIBRARY_PATH".into(), folder.into_os_string())),
        }
    }
    variables
        .into_iter()
        .map(|(name, value)| (name.into_vec(), value.into_vec()))
        .collect()
}

/// The folder of the MPI named by `PCM_MPI`, else of the first one in the search path; one of the ABI of MPICH comes
/// before others. None in a build, whose libpcm has it in its run path.
fn mpi_of_an_installation() -> Option<PathBuf> {
    if !own_folder()?.join(FOR_PROGRAMS).is_dir() {
        return None;
    }
    let named = env::var_os("PCM_MPI").filter(|prefix| !prefix.is_empty());
    let on_path = env::var_os("PATH").unwrap_or_default();
    let of_path = env::split_paths(&on_path).filter(|bin| bin.join("mpiexec").is_file());
    let prefixes = named
        .map(PathBuf::from)
        .into_iter()
        .chain(of_path.map(|bin| bin.join("..")));
    let folders: Vec<PathBuf> = prefixes.map(|prefix| prefix.join("lib")).collect();
    let mut libraries = Abi::ALL.iter().map(|abi| abi.library());
    let has = |library: &str| folders.iter().find(|folder| folder.join(library).is_file());
    libraries.find_map(has)?.canonicalize().ok()
}

fn part_beside(bin: &Path, name: &str) -> Option<PathBuf> {
    let places = [bin.join(name), bin.join(FOR_PROGRAMS).join(name)];
    let found = places.into_iter().find(|path| path.is_file())?;
    found.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_part_is_found_beside_the_program_else_in_its_prefix() {
        let prefix = tempfile::tempdir().unwrap();
        let root = prefix.path().canonicalize().unwrap();
        let (bin, programs) = (root.join("bin"), root.join("libexec/pcm"));
        for folder in [&bin, &programs] {
            fs::create_dir_all(folder).unwrap();
        }
        assert_eq!(part_beside(&bin, "pcm-daemon"), None);
        fs::write(programs.join("pcm-daemon"), "").unwrap();
        assert_eq!(part_beside(&bin, "pcm-daemon"), Some(programs.join("pcm-daemon")));
        fs::write(bin.join("pcm-daemon"), "").unwrap();
        assert_eq!(part_beside(&bin, "pcm-daemon"), Some(bin.join("pcm-daemon")));
    }
}
