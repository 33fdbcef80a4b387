//! Which MPI the ranks of a job load and which libpcm comes before it: what the user names, else what the program was
//! linked with. Both go to the nodes as variables of the ranks' environment.

use crate::failure::Failure;
use crate::program::{self, Abi, Linked};
use pcm_core::mpi_settings::{Circumstances, Setting, Source, is_polite, settings};
use pcm_proto::app::environment::{MPI_ABI, MPI_LIBRARY};
use pcm_proto::job::JobSpec;
use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// MPI's functions for Fortran, in MPICH and Intel MPI.
const FORTRAN_LAYER: &str = "libmpifort.so.12";

/// What was chosen for a job, each with its reason.
#[derive(Debug)]
pub(crate) struct Chosen {
    libpcm: String,
    mpi: String,
}

/// Completes the environment of a job whose ranks get libpcm; refuses what it cannot work with. The MPI in `PCM_MPI`
/// is that of all ranks, whatever they were linked with.
pub(crate) fn complete(spec: &mut JobSpec) -> Result<Chosen, Failure> {
    let linked = program::linked(OsStr::from_bytes(&spec.program))?;
    let of_program = linked.as_ref().map(|linked| linked.abi);
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
    let program = OsStr::from_bytes(&spec.program).display().to_string();
    let libpcm = match (told, &named, &linked) {
        (Some(_), ..) => format!("{MPI_ABI}={} says so", abi.word()),
        (None, Some(library), _) => format!("{} has it", library.display()),
        (None, None, Some(linked)) => format!("{program} was linked with {}", linked.library),
        (None, None, None) => format!("the file of {program} names no MPI, and most have this ABI"),
    };
    let mpi = match (&named, &of_prefix) {
        (Some(library), _) => format!("{}: named by --mpi-lib or {MPI_LIBRARY}", library.display()),
        (None, Some(library)) => format!("{}: the one in PCM_MPI", library.display()),
        (None, None) => of_loader(&program, linked.filter(|linked| linked.abi == abi)),
    };
    if let Some(library) = of_prefix {
        set(spec, MPI_LIBRARY, library.as_os_str());
    }
    if abi == Abi::Standard {
        set(spec, MPI_ABI, OsStr::new(abi.word()));
    }
    let libpcm = format!("{}, for {}: {libpcm}", abi.libpcm(), abi.name());
    Ok(Chosen { libpcm, mpi })
}

fn of_loader(program: &str, linked: Option<Linked>) -> String {
    match linked {
        Some(Linked { found: Some(found), .. }) => format!("{}: {program} was linked with it", found.display()),
        Some(Linked { library, .. }) => format!("{library}: {program} was linked with it, and the nodes find it"),
        None => "what the ranks load, else what libpcm was built for: nothing names one".to_owned(),
    }
}

/// For `run --verbose`: what was chosen, and what a daemon sets of MPI for such a job.
pub(crate) fn explained(chosen: Option<&Chosen>, spec: &JobSpec) -> String {
    let (libpcm, mpi) = match chosen {
        Some(Chosen { libpcm, mpi }) => (libpcm.as_str(), mpi.as_str()),
        None => ("not preloaded: --no-preload", "what the ranks load"),
    };
    let of = |is_oversubscribed| {
        let circumstances = Circumstances {
            is_oversubscribed,
            is_polite: is_polite(spec),
            interface: None,
        };
        settings(circumstances, &spec.env, &spec.mpi_settings)
    };
    let (always, mut crowded) = (of(false), of(true));
    crowded.retain(|setting| !always.iter().any(|known| known.name == setting.name));
    let mut text = format!("pcmctl: libpcm: {libpcm}\npcmctl: MPI: {mpi}\npcmctl: MPI settings:\n");
    text.push_str(&settings_text(&always));
    if !crowded.is_empty() {
        text.push_str("pcmctl: and where ranks outnumber the CPUs of a node:\n");
        text.push_str(&settings_text(&crowded));
    }
    text
}

/// Two lines for each setting.
pub(crate) fn settings_text(settings: &[Setting]) -> String {
    let mut text = String::new();
    for setting in settings {
        let from = match setting.source {
            Source::Default => "ours",
            Source::Environment => "from the environment",
            Source::Option => "from the command line",
        };
        let value = setting.value.as_deref().unwrap_or("(unset)");
        text.push_str(&format!("  {}={value}  {from}\n", setting.name));
        if !setting.why.is_empty() {
            text.push_str(&format!("      {}\n", setting.why));
        }
    }
    text
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
        let of_program = || program::linked(OsStr::from_bytes(&spec.program)).map(|linked| linked.map(|it| it.abi));
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
