//! The Fortran bindings of an MPICH: Debian's packages, unpacked beside the checkout's other tools. Must never install
//! them: their mpicc would be taken for the MPI of the machine.

use crate::{environment::must, failure::Failure, repository::Repository, tools};
use std::process::Command;

/// Libraries, and modules for the gfortran of the same Debian.
const PACKAGES: &str = "libmpich12 libmpich-dev";

/// Downloads and unpacks them, once.
pub(crate) fn bring(repository: &Repository) -> Result<(), Failure> {
    let (tools, _lock) = tools::locked(repository)?;
    tools::complete(&tools.join("mpich-fortran"), PACKAGES, |folder| {
        let script = format!(
            "cd \"$1\" && {{ apt-get download -q {PACKAGES} || {{ apt-get update -q && apt-get download -q \
             {PACKAGES}; }}; }} && for package in ./*.deb; do dpkg-deb -x \"$package\" . || exit 1; done && rm ./*.deb"
        );
        let mut unpack = Command::new("sh");
        unpack.args(["-c", &script, "sh"]).arg(folder);
        must(
            unpack,
            &format!("see what it says above; it needs a Debian archive for {PACKAGES}"),
        )
    })
}
