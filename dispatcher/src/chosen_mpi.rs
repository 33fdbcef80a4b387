//! Which MPI the ranks of a job load and which libpcm comes before it: what the user names, else what the program was
//! linked with. Both go to the nodes as variables of the ranks' environment.

use crate::failure::Failure;
use crate::program::{self, Abi, Linked, open_mpi};
use pcm_core::mpi_settings::{Circumstances, Setting, Source, is_polite, settings};
use pcm_proto::app::environment::{MPI_ABI, MPI_ABI_OPEN_MPI, MPI_LIBRARY, PMIX_LIBRARY};
use pcm_proto::job::JobSpec;
use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// MPI's functions for Fortran, in MPICH and Intel MPI.
const FORTRAN_LAYER: &str = "libmpifort.so.12";

/// A library of Open MPI before release 5, which has the same name, is linked with it.
const OF_OPEN_MPI_4: &str = "libopen-rte.so.40";

/// What was chosen for a job, each with its reason.
#[derive(Debug)]
pub(crate) struct Chosen {
    abi: Abi,
    libpcm: String,
    mpi: String,
}

/// Completes the environment of a job whose ranks get libpcm; refuses what it cannot work with.
pub(crate) fn complete(spec: &mut JobSpec) -> Result<Chosen, Failure> {
    let chosen = choose(spec)?;
    // This is all that keeps jobs of Open MPI from starting: daemons speak PMI-1, and it needs PMIx.
    if chosen.abi == Abi::OpenMpi {
        return Err(Failure::usage(format!(
            "{} calls Open MPI, which daemons cannot start yet: run it under Open MPI's own mpirun, or compile it for \
             another MPI",
            OsStr::from_bytes(&spec.program).display()
        )));
    }
    Ok(chosen)
}

/// The MPI in `PCM_MPI` is that of all ranks, whatever they were linked with.
fn choose(spec: &mut JobSpec) -> Result<Chosen, Failure> {
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
    let known = told.or(of_library).or(of_program).or_else(abi_of_prefix);
    let abi = known.unwrap_or(Abi::Mpich);
    let of_prefix = of_prefix(abi).filter(|_| named.is_none());
    if let Some(library) = named.as_ref().or(of_prefix.as_ref()) {
        check_fortran_layer(OsStr::from_bytes(&spec.program), library)?;
    }
    let found = linked.as_ref().and_then(|linked| linked.found.as_ref());
    if let Some(library) = named.as_ref().or(of_prefix.as_ref()).or(found) {
        check_release(library)?;
    }
    let program = OsStr::from_bytes(&spec.program).display().to_string();
    let libpcm = match (told, &named, &linked) {
        (Some(_), ..) => format!("{MPI_ABI}={} says so", abi.word()),
        (None, Some(library), _) => format!("{} has it", library.display()),
        (None, None, Some(linked)) => format!("{program} was linked with {}", linked.library),
        (None, None, None) if abi != Abi::Mpich => {
            format!("the file of {program} names no MPI, and PCM_MPI has this one")
        }
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
    if abi != Abi::Mpich {
        set(spec, MPI_ABI, OsStr::new(abi.word()));
    }
    let libpcm = format!("{}, for {}: {libpcm}", abi.libpcm(), abi.name());
    Ok(Chosen { abi, libpcm, mpi })
}

/// Completes the environment of a job of Open MPI, whose ranks find each other through its libpmix.
pub(crate) fn complete_open_mpi(spec: &mut JobSpec) -> Result<(), Failure> {
    let linked = open_mpi::linked(OsStr::from_bytes(&spec.program));
    let is_told = variable(spec, MPI_ABI).is_some_and(|word| word == MPI_ABI_OPEN_MPI);
    if !is_told && linked.is_none() {
        return Ok(());
    }
    let named = variable(spec, MPI_LIBRARY).map(PathBuf::from);
    let library = named.or(linked.flatten()).ok_or_else(|| {
        let program = OsStr::from_bytes(&spec.program).display();
        Failure::usage(format!(
            "the Open MPI of {program} was not found: name its libmpi.so.40 by {MPI_LIBRARY}"
        ))
    })?;
    if variable(spec, PMIX_LIBRARY).is_none() {
        let pmix =
            open_mpi::pmix_of(&library).map_err(|reason| Failure::usage(format!("{} {reason}", library.display())))?;
        set(spec, PMIX_LIBRARY, pmix.as_os_str());
    }
    set(spec, MPI_ABI, OsStr::new(MPI_ABI_OPEN_MPI));
    // There is no libpcm for it.
    spec.preload = false;
    Ok(())
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
        Some(Chosen { libpcm, mpi, .. }) => (libpcm.as_str(), mpi.as_str()),
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

/// Programs of Open MPI 4 run with Open MPI 5, and are judged by what they load.
fn check_release(library: &Path) -> Result<(), Failure> {
    if !program::names(library.as_os_str(), OF_OPEN_MPI_4) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{} is of Open MPI 4, and libpcm needs Open MPI 5, which runs the same programs: name its libmpi.so.40 with \
         --mpi-lib",
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
            "{MPI_ABI}={}: write mpich, standard or openmpi, or unset it",
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

/// What the MPI in `PCM_MPI` has.
fn abi_of_prefix() -> Option<Abi> {
    Abi::ALL.into_iter().find(|abi| of_prefix(*abi).is_some())
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A library or program without code, which names these libraries.
    fn made(file: &Path, options: &[&str]) {
        let mut compile = Command::new("cc");
        compile.args(["-nostdlib", "-shared", "-x", "c", "/dev/null", "-o"]);
        compile
            .arg(file)
            .args(["-x", "none", "-Wl,--no-as-needed"])
            .args(options);
        assert!(compile.status().expect("a C compiler").success(), "{compile:?}");
    }

    fn job(program: &Path, env: &[(&str, &str)]) -> JobSpec {
        let bytes = |text: &str| text.as_bytes().to_vec();
        JobSpec {
            program: program.as_os_str().as_bytes().to_vec(),
            env: env.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
            ..JobSpec::default()
        }
    }

    fn value<'a>(spec: &'a JobSpec, name: &str) -> Option<&'a str> {
        variable(spec, name).and_then(OsStr::to_str)
    }

    /// An Open MPI of that many libraries: of release 5, or of 4.
    fn open_mpi(folder: &Path, release: u32) -> PathBuf {
        let (library, layer) = (folder.join("libmpi.so.40"), folder.join(OF_OPEN_MPI_4));
        made(&layer, &["-Wl,-soname,libopen-rte.so.40"]);
        let layer = layer.display().to_string();
        let needed = ["-Wl,-soname,libmpi.so.40", &layer];
        made(&library, if release == 4 { &needed } else { &needed[..1] });
        library
    }

    #[test]
    fn a_program_of_open_mpi_gets_the_libpcm_for_it_once_daemons_can_start_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let library = open_mpi(folder, 5);
        let (program, plain) = (folder.join("program"), folder.join("plain"));
        made(&program, &[&library.display().to_string(), "-Wl,-rpath,$ORIGIN"]);
        made(&plain, &[]);
        let named = library.to_str().expect("a path");
        let linked = format!("{} was linked with libmpi.so.40", program.display());
        let has_it = format!("{named} has it");
        for (program, env, why) in [
            (&program, &[][..], linked.as_str()),
            (&plain, &[(MPI_ABI, "openmpi")], "PCM_MPI_ABI=openmpi says so"),
            (&plain, &[(MPI_LIBRARY, named)], &has_it),
        ] {
            let mut spec = job(program, env);
            let chosen = choose(&mut spec).expect("an MPI that libpcm is for");
            assert_eq!(chosen.abi, Abi::OpenMpi);
            assert_eq!(chosen.libpcm, format!("libpcm_openmpi.so, for Open MPI: {why}"));
            assert_eq!(value(&spec, MPI_ABI), Some("openmpi"));
            let refused = complete(&mut job(program, env)).expect_err("daemons speak PMI-1");
            let line = format!("{} calls Open MPI, which daemons cannot start yet", program.display());
            assert!(refused.to_string().contains(&line), "{refused}");
        }
        let mut spec = job(&plain, &[]);
        assert_eq!(choose(&mut spec).expect("any MPI").abi, Abi::Mpich);
        assert_eq!(value(&spec, MPI_ABI), None);
    }

    #[test]
    fn open_mpi_4_is_refused_by_the_library_that_a_program_would_load() {
        let [new, old] = [5, 4].map(|release| {
            let folder = tempfile::tempdir().expect("a folder");
            open_mpi(folder.path(), release);
            folder
        });
        let library = old.path().join("libmpi.so.40");
        let program = old.path().join("program");
        made(&program, &[&library.display().to_string(), "-Wl,-rpath,$ORIGIN"]);
        let refused = choose(&mut job(&program, &[])).expect_err("of another time");
        let line = format!("{} is of Open MPI 4, and libpcm needs Open MPI 5", library.display());
        assert!(refused.to_string().contains(&line), "{refused}");
        let newer = new.path().join("libmpi.so.40");
        let env = [(MPI_LIBRARY, newer.to_str().expect("a path"))];
        let chosen = choose(&mut job(&program, &env)).expect("a newer one");
        assert!(chosen.mpi.starts_with(env[0].1), "{}", chosen.mpi);
    }
}
