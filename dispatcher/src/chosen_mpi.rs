//! Which MPI the ranks of a job load and which libpcm comes before it: what the user names, else what the program was
//! linked with. Both go to the nodes as variables of the ranks' environment.

use crate::failure::Failure;
use crate::program::{self, Abi};
use pcm_proto::app::environment::{MPI_ABI, MPI_LIBRARY};
use pcm_proto::job::JobSpec;
use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// MPI's functions for Fortran, in MPICH and Intel MPI.
const FORTRAN_LAYER: &str = "libmpifort.so.12";

/// Completes the environment of a job whose ranks get libpcm; refuses what it cannot work with. The MPI in `PCM_MPI`
/// is that of all ranks, whatever they were linked with.
pub(crate) fn complete(spec: &mut JobSpec) -> Result<(), Failure> {
    let of_program = program::abi(OsStr::from_bytes(&spec.program))?;
    let named = variable(spec, MPI_LIBRARY).map(PathBuf::from);
    let told = told(spec)?;
    let of_library = named.as_deref().map(Abi::of_library);
    if let (Some(library), Some(chosen), Some(wanted)) = (&named, of_library, told.or(of_program))
        && chosen != wanted
    {
        return Err(Failure::usage(format!(
            "the program was compiled for {}, and {} has {}: name an MPI that the program can call",
            wanted.name(),
            library.display(),
            chosen.name()
        )));
    }
    let abi = told.or(of_library).or(of_program).unwrap_or(Abi::Mpich);
    let of_prefix = of_prefix(abi).filter(|_| named.is_none());
    if let Some(library) = named.as_ref().or(of_prefix.as_ref()) {
        check_fortran_layer(OsStr::from_bytes(&spec.program), library)?;
    }
    if let Some(library) = of_prefix {
        set(spec, MPI_LIBRARY, library.as_os_str());
    }
    if abi == Abi::Standard {
        set(spec, MPI_ABI, OsStr::new(abi.word()));
    }
    Ok(())
}

/// Each MPI's layer for Fortran calls what only that MPI has. Intel's `mpicc` links it to programs in C, too.
fn check_fortran_layer(program: &OsStr, library: &Path) -> Result<(), Failure> {
    let real = library.canonicalize().unwrap_or_else(|_| library.to_owned());
    if !program::names(program, FORTRAN_LAYER) || real.with_file_name(FORTRAN_LAYER).is_file() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{} was linked with {FORTRAN_LAYER}, which {} does not have: run it on the MPI that it was compiled with \
         (without PCM_MPI, or by --mpi-lib), or compile it with this one",
        program.display(),
        library.display()
    )))
}

/// The ABI that the user names, where the program's file does not say it.
fn told(spec: &JobSpec) -> Result<Option<Abi>, Failure> {
    let Some(word) = variable(spec, MPI_ABI) else {
        return Ok(None);
    };
    let abi = Abi::of_word(word);
    abi.map(Some).ok_or_else(|| {
        Failure::usage(format!(
            "{MPI_ABI}={}: write mpich or standard, or unset it",
            word.display()
        ))
    })
}

/// The library of an MPI that the user names by its file, or by its folder, for this job's program.
pub(crate) fn library(named: &Path, spec: &JobSpec) -> Result<PathBuf, Failure> {
    let file = if named.is_dir() {
        let of_program = || program::abi(OsStr::from_bytes(&spec.program));
        let abi = told(spec)?.map_or_else(of_program, |abi| Ok(Some(abi)))?;
        named.join(abi.unwrap_or(Abi::Mpich).library())
    } else {
        named.to_owned()
    };
    let found = file.metadata().and_then(|_| std::path::absolute(&file));
    found.map_err(|error| {
        Failure::usage(format!(
            "--mpi-lib {}: {error}: name the library of an MPI, or its folder",
            file.display()
        ))
    })
}

/// Whether the user names an MPI for all ranks.
pub(crate) fn is_named() -> bool {
    env::var_os(MPI_LIBRARY).is_some() || of_prefix(Abi::Mpich).is_some()
}

/// The library of the MPI in `PCM_MPI`, if there is one.
fn of_prefix(abi: Abi) -> Option<PathBuf> {
    let prefix = env::var_os("PCM_MPI").filter(|prefix| !prefix.is_empty())?;
    let library = PathBuf::from(prefix).join("lib").join(abi.library());
    library.is_file().then_some(library)
}

fn variable<'a>(spec: &'a JobSpec, name: &str) -> Option<&'a OsStr> {
    let entry = spec.env.iter().find(|(known, _)| known == name.as_bytes());
    entry
        .map(|(_, value)| OsStr::from_bytes(value))
        .filter(|value| !value.is_empty())
}

fn set(spec: &mut JobSpec, name: &str, value: &OsStr) {
    spec.env.retain(|(known, _)| known != name.as_bytes());
    spec.env.push((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
}
