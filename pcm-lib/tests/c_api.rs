//! The C API as a C program uses it, compiled against the header in the repository and linked with the library.

use std::{
    env,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn mpi_prefix() -> PathBuf {
    let mpicc = env::var_os("MPICC").map_or_else(|| PathBuf::from("mpicc"), PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|directory| directory.join("mpicc"));
    let mpicc = std::iter::once(mpicc)
        .chain(found)
        .find(|path| path.is_file())
        .expect("an mpicc");
    mpicc.ancestors().nth(2).expect("PREFIX/bin/mpicc").to_owned()
}

/// Compiles as strictly as a careful user does.
fn compile(arguments: &[&str], out: &Path) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let prefix = mpi_prefix();
    let beside = env::current_exe().expect("it runs");
    let libraries = beside.parent().expect("a directory").to_owned();
    let mut compiler = Command::new("cc");
    compiler
        .args(arguments)
        .arg("-Wall")
        .arg("-Wextra")
        .arg("-Werror")
        .arg("-pedantic");
    compiler
        .arg("-I")
        .arg(root.join("include"))
        .arg("-I")
        .arg(prefix.join("include"));
    compiler.arg(root.join("tests/c_api.c")).arg("-o").arg(out);
    compiler
        .arg("-L")
        .arg(&libraries)
        .arg("-lpcm")
        .arg("-L")
        .arg(prefix.join("lib"))
        .args(["-lmpi", "-pthread"]);
    // By this name a linked program asks for it.
    let folder = out.parent().expect("a directory");
    symlink(libraries.join("libpcm.so"), folder.join("libpcm.so.0")).expect("a link in a directory of the test");
    for path in [folder, &prefix.join("lib")] {
        compiler
            .args(["-Wl,--disable-new-dtags", "-Xlinker", "-rpath", "-Xlinker"])
            .arg(path);
    }
    compiler.output().expect("a C compiler")
}

/// The program on two ranks, compiled with these arguments, too.
fn assert_right(arguments: &[&str]) {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("c_api");
    let compiled = compile(&[&["-std=c99", "-D_GNU_SOURCE"], arguments].concat(), &program);
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let mpiexec = mpi_prefix().join("bin/mpiexec");
    let run = Command::new("timeout")
        .arg("60")
        .arg(mpiexec)
        .args(["-n", "2"])
        .arg(&program)
        .output();
    let run = run.expect("mpiexec");
    assert!(
        run.status.success(),
        "{}: {}",
        run.status,
        String::from_utf8_lossy(&run.stderr)
    );
}

#[test]
fn a_c_program_registers_regions_and_misuse_is_a_code_and_a_text() {
    assert_right(&[]);
}

/// The checks are linked in: libpcm stays the first library.
#[test]
fn no_address_and_no_arithmetic_of_it_is_wrong() {
    assert_right(&[
        "-O1",
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-static-libasan",
        "-static-libubsan",
    ]);
}
