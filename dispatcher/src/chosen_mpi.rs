//! Which MPI the ranks of a job load and which libpcm comes before it: what the user names, else what the program was
//! linked with. Both go to the nodes as variables of the ranks' environment.

use crate::failure::Failure;
use crate::program::{self, Abi, Linked, open_mpi};
use pcm_core::mpi_settings::{Circumstances, Setting, Source, is_polite, settings};
use pcm_proto::app::environment::{MPI_ABI, MPI_LIBRARY, PMIX_LIBRARY};
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

/// Completes the environment of a job; refuses what libpcm or the daemons cannot work with. None where libpcm stays
/// away: such a program is judged by nothing but whether Open MPI is its MPI.
pub(crate) fn complete(spec: &mut JobSpec) -> Result<Option<Chosen>, Failure> {
    if spec.preload {
        return choose(spec).map(Some);
    }
    let linked = program::linked(OsStr::from_bytes(&spec.program)).ok().flatten();
    let named = variable(spec, MPI_LIBRARY).map(PathBuf::from);
    let of_library = named.as_deref().map(Abi::of_library);
    let known = told(spec)?.or(of_library).or(linked.as_ref().map(|linked| linked.abi));
    if known == Some(Abi::OpenMpi) {
        let linked = linked.filter(|linked| linked.abi == Abi::OpenMpi);
        serve_pmix(spec, named.or(linked.and_then(|linked| linked.found)))?;
        set(spec, MPI_ABI, OsStr::new(Abi::OpenMpi.word()));
    }
    Ok(None)
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
    if abi == Abi::OpenMpi {
        let linked = linked.as_ref().filter(|linked| linked.abi == abi);
        let found = linked.and_then(|linked| linked.found.clone());
        serve_pmix(spec, named.clone().or(of_prefix.clone()).or(found))?;
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
    Ok(Chosen { libpcm, mpi })
}

/// Ranks of Open MPI find each other through the libpmix of their own Open MPI. That is known by its library: this one,
/// else what the loader finds without the program's help. One of another release is refused.
fn serve_pmix(spec: &mut JobSpec, library: Option<PathBuf>) -> Result<(), Failure> {
    let mut pmix = variable(spec, PMIX_LIBRARY).map(PathBuf::from);
    let of_environment = || pmix.is_none().then(open_mpi::of_environment).flatten();
    if let Some(library) = library.or_else(of_environment) {
        let of_library = open_mpi::pmix_of(&library);
        let of_library = of_library.map_err(|reason| Failure::usage(format!("{} {reason}", library.display())))?;
        pmix = pmix.or(of_library);
    }
    let Some(pmix) = pmix else {
        return Err(Failure::usage(format!(
            "the loader would find no {} for {}: name the libmpi.so.40 of its Open MPI with --mpi-lib, or the libpmix \
             that belongs to it in {PMIX_LIBRARY}",
            open_mpi::PMIX,
            OsStr::from_bytes(&spec.program).display()
        )));
    };
    set(spec, PMIX_LIBRARY, pmix.as_os_str());
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
            preload: true,
            ..JobSpec::default()
        }
    }

    fn value<'a>(spec: &'a JobSpec, name: &str) -> Option<&'a str> {
        variable(spec, name).and_then(OsStr::to_str)
    }

    /// The library of an Open MPI of that release, and its libpmix.
    fn open_mpi(folder: &Path, release: u32) -> PathBuf {
        let [library, pmix, layer] =
            ["libmpi.so.40", "libpmix.so.2", "libopen-rte.so.40"].map(|name| folder.join(name));
        for (library, name) in [(&pmix, "libpmix.so.2"), (&layer, "libopen-rte.so.40")] {
            made(library, &[&format!("-Wl,-soname,{name}")]);
        }
        let [pmix, layer] = [pmix, layer].map(|file| file.display().to_string());
        let needed = ["-Wl,-soname,libmpi.so.40", "-Wl,-rpath,$ORIGIN", &pmix, &layer];
        made(&library, if release == 4 { &needed } else { &needed[..3] });
        library
    }

    #[test]
    fn a_program_of_open_mpi_gets_the_libpcm_and_the_libpmix_for_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let library = open_mpi(folder, 5);
        let (program, plain) = (folder.join("program"), folder.join("plain"));
        made(&program, &[&library.display().to_string(), "-Wl,-rpath,$ORIGIN"]);
        made(&plain, &[]);
        let named = library.to_str().expect("a path");
        let pmix = library.with_file_name("libpmix.so.2");
        let pmix = pmix.to_str().expect("a path");
        let linked = format!("{} was linked with libmpi.so.40", program.display());
        let has_it = format!("{named} has it");
        for (program, env, why) in [
            (&program, &[][..], linked.as_str()),
            (
                &plain,
                &[(MPI_ABI, "openmpi"), (PMIX_LIBRARY, pmix)],
                "PCM_MPI_ABI=openmpi says so",
            ),
            (&plain, &[(MPI_LIBRARY, named)], &has_it),
        ] {
            for preload in [true, false] {
                let mut spec = job(program, env);
                spec.preload = preload;
                let chosen = complete(&mut spec).expect("an MPI that libpcm is for");
                let libpcm = chosen.map(|chosen| chosen.libpcm);
                let expected = format!("libpcm_openmpi.so, for Open MPI: {why}");
                assert_eq!(libpcm, preload.then_some(expected));
                assert_eq!(value(&spec, MPI_ABI), Some("openmpi"));
                assert_eq!(value(&spec, PMIX_LIBRARY), Some(pmix));
            }
        }
        // Where the machine has an Open MPI, that counts.
        if super::open_mpi::of_environment().is_none() {
            let refused = complete(&mut job(&plain, &[(MPI_ABI, "openmpi")])).expect_err("no libpmix");
            let line = "the loader would find no libpmix.so.2";
            assert!(refused.to_string().starts_with(line), "{refused}");
        }
        let mut spec = job(&plain, &[]);
        _ = complete(&mut spec).expect("any MPI");
        assert_eq!((value(&spec, MPI_ABI), value(&spec, PMIX_LIBRARY)), (None, None));
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
        for preload in [true, false] {
            let mut spec = job(&program, &[]);
            spec.preload = preload;
            let refused = complete(&mut spec).expect_err("of another time");
            let line = format!(
                "{} is of Open MPI 4, and the daemons need Open MPI 5",
                library.display()
            );
            assert!(refused.to_string().contains(&line), "{refused}");
        }
        let newer = new.path().join("libmpi.so.40");
        let env = [(MPI_LIBRARY, newer.to_str().expect("a path"))];
        let chosen = complete(&mut job(&program, &env)).expect("a newer one");
        let mpi = chosen.expect("a choice").mpi;
        assert!(mpi.starts_with(env[0].1), "{mpi}");
    }
}
