//! pcm.h is C99, C11 and C++17 without a warning, also where its macros are used; so is pcm.hpp in C++17 and newer.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{fs, path::Path, process::Command};

const IN_C: &str = "#include <pcm.h>
void use(size_t rows);
void use(size_t rows)
{
    double weights[] = {1, 2};
    double *t = pcm_array(\"t\", PCM_DOUBLE, 2, ((size_t[]){rows, 4}), PCM_BLOCK(0), PCM_HALO(0, 1), PCM_PERIODIC(1));
    char *u = pcm_array(\"u\", PCM_BYTES(24), 1, &rows, PCM_WEIGHTED(0, 2, weights), PCM_SCRATCH, PCM_STALE_HALO);
    t[0] = u[0];
}
";

const IN_CPP: &str = "#include <pcm.h>
int use();
int use() { return pcm_iterate() == PCM_CHANGED && pcm_option{PCM_OPTION_BLOCK, 0, 0, nullptr}.axis == 0; }
";

const IN_HPP: &str = "#include <pcm.hpp>
void use(std::size_t rows);
void use(std::size_t rows)
{
    pcm::array<double> t(\"t\", {rows, 4}, {pcm::block(0), pcm::halo(0, 1)});
    t(0, 0) = *t.begin();
}
";

fn assert_compiles(compiler: &str, standard: &str, text: &str) {
    let folder = tempfile::tempdir().unwrap();
    let ending = if compiler == "cc" { "c" } else { "cpp" };
    let source = folder.path().join(format!("use.{ending}"));
    fs::write(&source, text).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let output = Command::new(compiler)
        .arg(format!("-std={standard}"))
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"])
        .args(["-fsyntax-only", "-I"])
        .args([&include, &source])
        .output()
        .unwrap_or_else(|error| panic!("cannot start {compiler}: {error}; install gcc and g++"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} -std={standard}:\n{errors}");
}

#[test]
fn the_header_of_c_is_c_and_cpp_without_a_warning() {
    for standard in ["c99", "c11", "c17"] {
        assert_compiles("cc", standard, IN_C);
    }
    for standard in ["c++17", "c++20"] {
        assert_compiles("c++", standard, IN_CPP);
    }
}

#[test]
fn the_header_of_cpp_compiles_without_a_warning() {
    for standard in ["c++17", "c++20"] {
        assert_compiles("c++", standard, IN_HPP);
    }
}
