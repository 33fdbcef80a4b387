//! What a compiler needs to link a program with libpcm: where the header, the library and the MPI compilers are.

use crate::failure::Failure;
use crate::program::Abi;
use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The MPI compiler for C that this build was made with.
const BUILT_WITH: Option<&str> = option_env!("MPICC");

/// A language with an MPI compiler of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Cpp,
    Fortran,
}

impl Language {
    /// The MPI compiler, and the variable that names another one.
    fn compiler(self) -> (&'static str, &'static str) {
        match self {
            Self::C => ("mpicc", "MPICC"),
            Self::Cpp => ("mpicxx", "MPICXX"),
            Self::Fortran => ("mpifort", "MPIFC"),
        }
    }
}

/// Where things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildFlags {
    /// Folder of `pcm.h`, `pcm.hpp` and `pcm.f90`.
    pub include: PathBuf,
    /// Folder of `libpcm.so` and of those for other ABIs.
    pub library: PathBuf,
    /// The MPI compiler.
    pub compiler: PathBuf,
    /// Its environment beside that of this process.
    pub variables: Vec<(&'static str, OsString)>,
}

impl BuildFlags {
    /// Looks beside this program: an installation (`bin`, `lib`, `include`) or the repository it was built in.
    pub fn find(language: Language) -> Result<Self, Failure> {
        let exe = env::current_exe()
            .map_err(|error| Failure::system(format!("cannot find the path of this program: {error}")))?;
        let bin = exe.parent().unwrap_or(Path::new("/"));
        let prefix = bin.parent().unwrap_or(Path::new("/"));
        let library = [bin.to_owned(), prefix.join("lib")]
            .into_iter()
            .find(|dir| dir.join("libpcm.so").is_file());
        let header = |dir: &PathBuf| dir.join("pcm.h").is_file();
        let include = Some(prefix.join("include"))
            .filter(header)
            .or_else(|| bin.ancestors().map(|dir| dir.join("pcm-lib/include")).find(header));
        let missing = |what: &str| {
            Failure::system(format!(
                "{what} is not beside {}: build it with 'cargo xtask build', or install the package again",
                exe.display()
            ))
        };
        let library = library.ok_or_else(|| missing("libpcm.so"))?;
        // An installation has nothing to do with the place of the build, even where that is still there.
        let built_with = (library == bin).then_some(BUILT_WITH).flatten();
        let (compiler, variables) = mpi_compiler(language, bin, built_with);
        Ok(Self {
            include: include.ok_or_else(|| missing("pcm.h"))?,
            library,
            compiler,
            variables,
        })
    }

    /// Arguments for the compiling step.
    pub fn compile(&self) -> Vec<String> {
        vec![format!("-I{}", self.include.display())]
    }

    /// For which ABI the MPI compiler compiles: for the standard one by its name or by one of its arguments; Open MPI's
    /// says that it is.
    pub(crate) fn abi(&self, args: &[OsString]) -> Abi {
        let name = self.compiler.file_name().unwrap_or_default();
        if name.as_bytes().ends_with(b"_abi") || args.iter().any(|arg| arg == "-mpi-abi" || arg == "-mpi_abi") {
            return Abi::Standard;
        }
        // Others hand this on to the compiler of their language, which does not know it.
        let mut asked = Command::new(&self.compiler);
        asked.arg("--showme:version").stdin(Stdio::null());
        match asked.output() {
            Ok(said) if said.status.success() && contains(&said.stdout, b"Open MPI") => Abi::OpenMpi,
            _ => Abi::Mpich,
        }
    }

    /// Arguments for the linking step; they come after the objects and before MPI, which the MPI compiler appends.
    pub(crate) fn link(&self, abi: Abi) -> Vec<String> {
        let library = self.library.display();
        let name = match abi {
            Abi::Mpich => "-lpcm",
            Abi::Standard => "-lpcm_abi",
            Abi::OpenMpi => "-lpcm_openmpi",
        };
        vec![
            format!("-L{library}"),
            format!("-Wl,-rpath,{library}"),
            name.to_owned(),
            // Libpcm has MPI's functions, too: a linker would take MPI for a library that is not needed.
            "-Wl,--no-as-needed".to_owned(),
        ]
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|piece| piece == part)
}

/// The MPI compiler of a language: its variable, `PCM_MPI`, one beside this program, that of the build, or one in the
/// search path. An MPI without one for Fortran has its compiler for C call gfortran.
fn mpi_compiler(language: Language, bin: &Path, built_with: Option<&str>) -> (PathBuf, Vec<(&'static str, OsString)>) {
    let (name, variable) = language.compiler();
    let named = |variable: &str| {
        env::var_os(variable)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(compiler) = named(variable) {
        return (compiler, Vec::new());
    }
    let folders = [
        named("PCM_MPI").map(|prefix| prefix.join("bin")),
        Some(bin.to_owned()),
        built_with.and_then(|path| Path::new(path).parent()).map(Path::to_owned),
    ];
    let on_path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = folders
        .into_iter()
        .flatten()
        .chain(env::split_paths(&on_path))
        .collect();
    let found = |name: &str| {
        folders
            .iter()
            .map(|folder| folder.join(name))
            .find(|path| path.is_file())
    };
    match (found(name), language) {
        (Some(compiler), _) => (compiler, Vec::new()),
        (None, Language::Fortran) => {
            let compiler = found("mpicc").unwrap_or_else(|| PathBuf::from("mpicc"));
            (compiler, vec![("MPICH_CC", "gfortran".into())])
        }
        (None, _) => (PathBuf::from(name), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_mpi_without_a_compiler_for_fortran_has_that_for_c_call_gfortran() {
        let bin = tempfile::tempdir().unwrap();
        fs::write(bin.path().join("mpicc"), "").unwrap();
        let (compiler, variables) = mpi_compiler(Language::C, bin.path(), None);
        assert!(compiler.ends_with("mpicc") && variables.is_empty());
        let (compiler, variables) = mpi_compiler(Language::Fortran, bin.path(), None);
        if compiler.ends_with("mpicc") {
            assert_eq!(variables, [("MPICH_CC", OsString::from("gfortran"))]);
        }
        fs::write(bin.path().join("mpifort"), "").unwrap();
        let (compiler, variables) = mpi_compiler(Language::Fortran, bin.path(), None);
        assert!(compiler.ends_with("mpifort") && variables.is_empty());
    }
}
