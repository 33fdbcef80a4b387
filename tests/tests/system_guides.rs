//! The code of the guides to C++, Fortran and Python: each program is compiled, warnings denied, and run, and what is
//! said to be from an example is literally there.

use std::{ffi::OsString, fs, path::Path, process::Command};
use tests::{
    binaries::{built, mpiexec},
    cluster::LIMIT,
    example::{compile, for_python, mpi_compiler},
    language::{cpp, fortran, with_modules},
    limited,
    pieces::{all_pieces, literal_pieces, pieces, root},
};

/// What a rod on two ranks prints after 300 iterations: the plain program of guide.md says it.
fn expected(folder: &Path) -> String {
    let plain = small(&pieces("guide.md", "c")[0], "1 << 20", "1 << 10");
    let (source, program) = (folder.join("plain.c"), folder.join("plain"));
    fs::write(&source, plain).expect("a file of the test");
    compile(Command::new(mpi_compiler("mpicc")).arg(source).arg("-o").arg(&program));
    output(&[program.into_os_string()], &[])
}

/// The program with fewer cells and iterations.
fn small(program: &str, cells: &str, fewer: &str) -> String {
    assert!(program.contains(cells) && program.contains("100000"), "{program}");
    program.replace(cells, fewer).replace("100000", "300")
}

fn output(program: &[OsString], variables: &[(&str, OsString)]) -> String {
    let mut command = Command::new(mpiexec());
    command.env("MPIR_CVAR_COLL_SHM_LIMIT_PER_NODE", "0");
    command.args(["-n", "2"]).args(program).envs(variables.iter().cloned());
    let outcome = limited::run(&mut command, 3 * LIMIT);
    assert!(outcome.status.success(), "{outcome:?}");
    outcome.stdout
}

/// The pages have programs in one language, commands, and pieces from tested programs, at least so many.
fn assert_pieces(guide: &str, language: &str, literal: usize) {
    for piece in all_pieces(guide) {
        let languages = [language, "sh"];
        assert!(languages.contains(&piece.language.as_str()), "{}", piece.code);
    }
    let found = literal_pieces(guide);
    assert!(found >= literal, "{guide}: {found}");
}

#[test]
fn the_program_of_the_guide_to_cpp_computes_what_the_plain_one_does() {
    assert_pieces("guide-cpp.md", "cpp", 9);
    let folder = tempfile::tempdir().expect("a folder");
    let programs = pieces("guide-cpp.md", "cpp");
    assert_eq!(programs.len(), 1);
    let source = folder.path().join("rod.cpp");
    fs::write(&source, small(&programs[0], "1 << 20", "1 << 10")).expect("a file of the test");
    let Some(program) = cpp(&source, &built("pcmcxx"), folder.path()) else {
        return;
    };
    assert_eq!(output(&program, &[]), expected(folder.path()));
}

#[test]
fn the_program_of_the_guide_to_fortran_computes_what_the_plain_one_does() {
    assert_pieces("guide-fortran.md", "fortran", 9);
    let folder = tempfile::tempdir().expect("a folder");
    let programs = pieces("guide-fortran.md", "fortran");
    assert_eq!(programs.len(), 1);
    let source = folder.path().join("rod.f90");
    fs::write(&source, small(&programs[0], "2**20", "2**10")).expect("a file of the test");
    let Some(program) = fortran("rod", &with_modules(source), &built("pcmfort"), folder.path()) else {
        return;
    };
    assert_eq!(output(&program, &[]), expected(folder.path()));
}

#[test]
fn the_programs_of_the_guide_to_python_compute_what_is_said() {
    assert_pieces("guide-python.md", "python", 6);
    let Some(variables) = for_python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let programs = pieces("guide-python.md", "python");
    assert_eq!(programs.len(), 2);
    let run = |text: &str| {
        let source = folder.path().join("program.py");
        fs::write(&source, text).expect("a file of the test");
        output(&["python3".into(), source.into_os_string()], &variables)
    };
    assert_eq!(run(&small(&programs[0], "1 << 20", "1 << 10")), expected(folder.path()));
    let without_mpi4py = run(&programs[1]);
    for rank in 0..2 {
        let line = format!("rank {rank} of 2 has 50 numbers");
        assert!(without_mpi4py.contains(&line), "{without_mpi4py}");
    }
}

/// Names of the library in the guides are names of the modules.
#[test]
fn the_guides_name_nothing_that_the_modules_lack() {
    let module = fs::read_to_string(root().join("pcm-lib/include/pcm.f90")).expect("the module");
    let header = fs::read_to_string(root().join("pcm-lib/include/pcm.h")).expect("the header");
    let package = fs::read_to_string(root().join("python/pcm/__init__.py")).expect("the package");
    let cpp = fs::read_to_string(root().join("pcm-lib/include/pcm.hpp")).expect("the header");
    let words = |guide: &str, begin: &str| -> Vec<String> {
        let text = fs::read_to_string(root().join("docs").join(guide)).expect("a guide");
        let rest = text.split(begin).skip(1);
        let word = |part: &str| -> String {
            part.chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect()
        };
        rest.map(word).filter(|word| !word.is_empty()).collect()
    };
    for word in words("guide-fortran.md", "pcm_") {
        let name = format!("pcm_{word}");
        let is_library = word == "abi";
        assert!(is_library || module.contains(&name) || header.contains(&name), "{name}");
    }
    for word in words("guide-cpp.md", "pcm::") {
        assert!(cpp.contains(&word), "pcm::{word}");
    }
    for word in words("guide-python.md", "pcm.") {
        let is_file = ["h", "py"].contains(&word.as_str());
        assert!(is_file || package.contains(&format!("\"{word}\"")), "pcm.{word}");
    }
}
