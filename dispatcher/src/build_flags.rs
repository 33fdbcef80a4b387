//! What a compiler needs to link a program with libpcm: where the header, the library and the MPI compiler are.

use crate::failure::Failure;
use std::path::{Path, PathBuf};

/// The MPI compiler this build was made with.
const BUILT_WITH: Option<&str> = option_env!("MPICC");

/// Where things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildFlags {
    /// Folder of `pcm.h`.
    pub include: PathBuf,
    /// Folder of `libpcm.so` and `libpcm.a`.
    pub library: PathBuf,
    /// The MPI compiler.
    pub mpicc: PathBuf,
}

impl BuildFlags {
    /// Looks beside this program: an installation (`bin`, `lib`, `include`) or the repository it was built in.
    pub fn find() -> Result<Self, Failure> {
        let exe = std::env::current_exe()
            .map_err(|error| Failure::system(format!("cannot find the path of this program: {error}")))?;
        let bin = exe.parent().unwrap_or(Path::new("/"));
        let library = [bin.to_owned(), bin.join("../lib")]
            .into_iter()
            .find(|dir| dir.join("libpcm.so").is_file());
        let installed = bin.join("../include");
        let header = |dir: &PathBuf| dir.join("pcm.h").is_file();
        let include = Some(installed)
            .filter(header)
            .or_else(|| bin.ancestors().map(|dir| dir.join("pcm-lib/include")).find(header));
        let missing = |what: &str| {
            Failure::system(format!(
                "{what} is not beside {}: build it with 'cargo xtask build'",
                exe.display()
            ))
        };
        Ok(Self {
            include: include.ok_or_else(|| missing("pcm.h"))?,
            library: library.ok_or_else(|| missing("libpcm.so"))?,
            mpicc: mpicc(),
        })
    }

    /// Arguments for the compiling step.
    pub fn compile(&self) -> Vec<String> {
        vec![format!("-I{}", self.include.display())]
    }

    /// Arguments for the linking step; they come after the objects and before MPI, which the MPI compiler appends.
    pub fn link(&self) -> Vec<String> {
        let library = self.library.display();
        vec![
            format!("-L{library}"),
            format!("-Wl,-rpath,{library}"),
            "-lpcm".to_owned(),
        ]
    }
}

/// The MPI compiler: `MPICC`, `PCM_MPI`, the one of the build, the search path.
fn mpicc() -> PathBuf {
    let from = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    from("MPICC")
        .or_else(|| from("PCM_MPI").map(|prefix| prefix.join("bin/mpicc")))
        .or_else(|| BUILT_WITH.map(PathBuf::from).filter(|path| path.is_file()))
        .unwrap_or_else(|| PathBuf::from("mpicc"))
}
