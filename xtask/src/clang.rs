//! Finds libclang, which the bindings of the verbs are made with. Must never install anything.

use crate::environment::quote;
use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Where bindgen finds libclang and the C compiler's own headers.
#[derive(Debug, Clone)]
pub(crate) struct Clang {
    pub(crate) library_directory: PathBuf,
    /// Headers such as stddef.h, of the C compiler: a libclang alone brings none.
    pub(crate) builtin_include: Option<PathBuf>,
}

impl Clang {
    /// Looks in LIBCLANG_PATH, in the places of the distributions, then in `prefix`, where setup puts one.
    pub(crate) fn find(prefix: &Path) -> Option<Self> {
        let chosen = env::var_os("LIBCLANG_PATH")
            .filter(|value| !value.is_empty())
            .map(PathBuf::from);
        let mut places: Vec<PathBuf> = chosen.into_iter().collect();
        let mut versions: Vec<PathBuf> = entries(Path::new("/usr/lib")).filter(|path| is_llvm(path)).collect();
        versions.sort();
        places.extend(versions.into_iter().rev().map(|path| path.join("lib")));
        places.extend(entries(Path::new("/usr/lib")).filter(|path| path.to_string_lossy().ends_with("-linux-gnu")));
        places.extend([
            PathBuf::from("/usr/lib64"),
            PathBuf::from("/usr/lib"),
            Self::installed_in(prefix),
        ]);
        let library_directory = places.into_iter().find_map(|place| {
            if place.is_file() {
                place.parent().map(Path::to_path_buf)
            } else {
                holds_libclang(&place).then_some(place)
            }
        })?;
        Some(Self {
            library_directory,
            builtin_include: builtin_include(),
        })
    }

    /// What bindgen reads, which the user's own choice comes before.
    pub(crate) fn variables(&self) -> Vec<(&'static str, OsString)> {
        let mut variables = vec![("LIBCLANG_PATH", self.library_directory.clone().into_os_string())];
        let own = env::var_os("BINDGEN_EXTRA_CLANG_ARGS").filter(|value| !value.is_empty());
        let builtin = self.builtin_include.as_ref();
        let builtin = builtin.map(|path| format!("-idirafter {}", quote(path)).into());
        variables.extend(own.or(builtin).map(|arguments| ("BINDGEN_EXTRA_CLANG_ARGS", arguments)));
        variables
    }

    /// Where the wheel `libclang` keeps its library under a prefix.
    fn installed_in(prefix: &Path) -> PathBuf {
        prefix.join("clang/native")
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
}

fn is_llvm(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("llvm-"))
}

fn holds_libclang(folder: &Path) -> bool {
    entries(folder).any(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name.starts_with("libclang.so") || name.starts_with("libclang-"))
            && name.contains(".so")
            && !name.contains("-cpp")
    })
}

fn builtin_include() -> Option<PathBuf> {
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler).arg("-print-file-name=include").output().ok()?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpp_library_of_clang_is_not_taken_for_libclang() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("libclang-cpp.so.14"), "").unwrap();
        assert!(!holds_libclang(folder.path()));
        fs::write(folder.path().join("libclang-14.so.1"), "").unwrap();
        assert!(holds_libclang(folder.path()));
    }
}
