//! The example of conjugate gradients as a program that benches run: compiled, and a matrix written for it.

use super::bench::Context;
use pcm_bench::{Failure, OnPath, trial};
use std::{ffi::OsString, fs, path::Path, process::Command, time::Duration};

/// The compiler, and Python at a large matrix.
const DEADLINE: Duration = Duration::from_secs(300);

/// The program and its arguments for so many steps: on a mesh, or what `mesh.py` makes of these arguments.
pub(super) fn words(
    (context, bench): (&Context, &'static str),
    folder: &Path,
    mesh: &[&str],
    steps: &str,
) -> Result<Vec<OsString>, Failure> {
    let (program, matrix) = (folder.join("sparse_cg"), folder.join("mesh.mtx"));
    let mut compiler = Command::new(context.program("pcmcxx"));
    compiler.args(["-std=c++17", "-O3", "examples/sparse_cg/sparse_cg.cpp", "-o"]);
    trial::must(compiler.arg(&program))?;
    let mut python = Command::new("python3");
    python.arg("examples/sparse_cg/mesh.py").args(mesh);
    let written = trial::run(bench, python, DEADLINE)?;
    fs::write(&matrix, written).on("write", &matrix)?;
    Ok(vec![program.into(), matrix.into(), steps.into(), "0".into()])
}
