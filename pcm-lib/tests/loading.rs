//! Which MPI a program gets from libpcm, however it came into the process; and what is said where there is none that
//! can be used.
#![allow(clippy::unwrap_used, reason = "a test")]

mod harness;

use harness::{With, compile, library_folder, start, start_plain};
use pcm_proto::page::{Page, State};
use std::{
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::Ordering::Relaxed,
};

fn calls(page: Page<'_>, name: &str) -> u64 {
    let mut classes = 0..page.head.classes.len();
    let class = classes.find(|class| page.class_name(*class) == name).unwrap();
    page.head.classes[class].calls.load(Relaxed)
}

fn assert_counted_once(arguments: &[&str], with: With) {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "names.c", with);
    let file = folder.path().join("file").to_string_lossy().into_owned();
    let arguments: Vec<&str> = [file.as_str()].into_iter().chain(arguments.iter().copied()).collect();
    let mut running = start(2, &program, &arguments, with);
    running.output();
    for (own, rank) in running.ranks.iter_mut().enumerate() {
        let page = rank.page();
        assert_eq!(page.state(), State::Done);
        let sent = &page.peer(1 - own).bytes_sent;
        assert_eq!(sent.load(Relaxed), if own == 0 { 120 } else { 0 });
        let class = if own == 0 { "send" } else { "receive" };
        let counted = [class, "collective", "file", "communicator"].map(|class| calls(page, class));
        assert_eq!(counted, [2, 1, 3, 2], "rank {own}, {with:?}");
    }
}

#[test]
fn a_call_is_counted_once_by_either_name_and_what_mpi_calls_in_itself_is_not() {
    for with in [With::Preload, With::Shared, With::Static] {
        assert_counted_once(&[], with);
    }
    assert_counted_once(&["multiple"], With::Preload);
}

/// Compiles without MPI.
fn compiled(folder: &Path, source: &str, name: &str, options: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = folder.join(name);
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&made);
    compiler.arg(root.join("tests/programs").join(source)).args(options);
    let output = compiler.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    made
}

fn linked_with_libpcm(folder: &Path, source: &str) -> PathBuf {
    let libraries = library_folder();
    let library = libraries.join("libpcm.so").to_string_lossy().into_owned();
    std::os::unix::fs::symlink(&library, folder.join("libpcm.so.0")).unwrap();
    compiled(folder, source, "linked", &[&library, "-Wl,-rpath,$ORIGIN"])
}

/// Runs it with these libraries, and without an MPI in reach by its name.
fn run(program: &Path, preloaded: &[&Path]) -> Output {
    let preloaded: Vec<String> = preloaded.iter().map(|path| path.display().to_string()).collect();
    let mut command = Command::new("timeout");
    command.arg("20").arg(program).env("LD_PRELOAD", preloaded.join(":"));
    command.env_remove("LD_LIBRARY_PATH").output().unwrap()
}

/// Its only line of errors.
fn refusal(output: &Output) -> String {
    assert!(
        output.status.code() == Some(1) && output.status.signal().is_none(),
        "{output:?}"
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("pcm: ") && said.lines().count() == 1, "{said}");
    said
}

#[test]
fn an_mpi_that_a_library_loaded_for_itself_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let host = compiled(folder.path(), "host.c", "host", &["-ldl"]);
    let plugin = compile(folder.path(), "plugin.c", With::Library);
    let plugin = plugin.to_string_lossy().into_owned();
    start_plain(2, &host, &[&plugin], With::Preload).output();
    let mut running = start(2, &host, &[&plugin], With::Preload);
    running.output();
    assert_eq!(running.ranks[0].page().peer(1).bytes_sent.load(Relaxed), 24);
}

#[test]
fn a_program_that_was_linked_with_libpcm_alone_gets_the_mpi_that_it_finds() {
    let folder = tempfile::tempdir().unwrap();
    let program = linked_with_libpcm(folder.path(), "lacking.c");
    let output = start_plain(2, &program, &[], With::Nothing).output();
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["barrier 0 rank 0", "barrier 0 rank 1"]);
}

#[test]
fn a_function_that_the_mpi_lacks_is_an_error_with_a_text() {
    let folder = tempfile::tempdir().unwrap();
    let stub = compiled(folder.path(), "stub_mpi.c", "libmpi.so.12", &["-shared", "-fPIC"]);
    let program = linked_with_libpcm(folder.path(), "lacking.c");
    let output = run(&program, &[&stub]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "barrier 44 rank -1\n");
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = format!("pcm: the MPI of this program ({}) has no MPI_Barrier\n", stub.display());
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn two_mpis_in_one_program_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let one = compiled(folder.path(), "stub_mpi.c", "libmpi.so.12", &["-shared", "-fPIC"]);
    let two = compiled(folder.path(), "stub_mpi.c", "libmpich.so.12", &["-shared", "-fPIC"]);
    let program = linked_with_libpcm(folder.path(), "lacking.c");
    let said = refusal(&run(&program, &[&one, &two]));
    assert!(said.contains("two MPIs"), "{said}");
    assert!(
        [one, two].iter().all(|path| said.contains(path.to_str().unwrap())),
        "{said}"
    );
}

#[test]
fn an_mpi_of_another_abi_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let stub = ["-shared", "-fPIC"];
    let open = [&stub[..], &["-DOPEN_MPI_STUB"]].concat();
    let open = compiled(folder.path(), "stub_mpi.c", "libmpi.so.40", &open);
    let standard = compiled(folder.path(), "stub_mpi.c", "libmpi_abi.so.1", &stub);
    let draft = compiled(folder.path(), "stub_mpi.c", "libmpi_abi.so.0", &stub);
    let program = linked_with_libpcm(folder.path(), "lacking.c");
    // Without those for other MPIs beside it: a program that was linked with this one begins again with its own.
    let alone = folder.path().join("libpcm.so.0");
    std::fs::remove_file(&alone).unwrap();
    std::fs::copy(library_folder().join("libpcm.so"), alone).unwrap();
    for (library, other) in [
        (&open, "Open MPI"),
        (&standard, "for the standard ABI"),
        (&draft, "a draft of"),
    ] {
        let said = refusal(&run(&program, &[library]));
        assert!(
            said.contains(other) && said.contains(library.to_str().unwrap()),
            "{said}"
        );
    }
}
