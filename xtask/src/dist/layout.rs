//! An installation, file by file: what lies where in its prefix, and what it is made of. `dispatcher/src/installed.rs`,
//! the run path in `pcm-rust/build.rs` and `python/pcm/_library.py` find their parts by it, relative to themselves.

/// What a file is made of.
#[derive(Clone, Copy)]
pub(super) enum Content {
    /// A program or library of the release build, without its tables for debuggers.
    Built(&'static str),
    /// The program that `pcmctl doctor` runs; compiled for a prefix.
    Probe,
    /// A file of the checkout.
    File(&'static str),
    /// A text in which `@VERSION@` is replaced.
    Text(&'static str),
    Link {
        goal: &'static str,
        /// The text that does the same in a package without links; else that has a copy of the goal.
        without_links: Option<&'static str>,
    },
    /// What `pcmctl` prints.
    Printed(&'static [&'static str]),
}

/// The files whose names are known. Man pages, the package for Python and licences come on top.
pub(super) const FILES: [(&str, Content); 34] = [
    ("bin/pcmctl", Content::Built("pcmctl")),
    ("bin/pcmcc", Content::Built("pcmcc")),
    ("bin/pcmcxx", link("pcmcc")),
    ("bin/pcmfort", link("pcmcc")),
    (
        "bin/pcm-daemon",
        Content::Link {
            goal: "../libexec/pcm/pcm-daemon",
            without_links: Some("#!/bin/sh\nexec \"${0%/*}/../libexec/pcm/pcm-daemon\" \"$@\"\n"),
        },
    ),
    ("libexec/pcm/pcm-daemon", Content::Built("pcm-daemon")),
    ("libexec/pcm/ios-agent", Content::Built("ios-agent")),
    ("libexec/pcm/pcm-pmix", Content::Built("pcm-pmix")),
    ("libexec/pcm/pcm-probe", Content::Probe),
    // The daemon puts one of the libraries beside it in front of MPI.
    ("libexec/pcm/libpcm.so", link("../../lib/libpcm.so.0")),
    ("libexec/pcm/libpcm_abi.so", link("../../lib/libpcm_abi.so.0")),
    ("libexec/pcm/libpcm_openmpi.so", link("../../lib/libpcm_openmpi.so.0")),
    ("lib/libpcm.so.0", Content::Built("libpcm.so")),
    (
        "lib/libpcm.so",
        Content::Link {
            goal: "libpcm.so.0",
            without_links: Some("INPUT(libpcm.so.0)\n"),
        },
    ),
    ("lib/libpcm_abi.so.0", Content::Built("libpcm_abi.so")),
    (
        "lib/libpcm_abi.so",
        Content::Link {
            goal: "libpcm_abi.so.0",
            without_links: Some("INPUT(libpcm_abi.so.0)\n"),
        },
    ),
    ("lib/libpcm_openmpi.so.0", Content::Built("libpcm_openmpi.so")),
    (
        "lib/libpcm_openmpi.so",
        Content::Link {
            goal: "libpcm_openmpi.so.0",
            without_links: Some("INPUT(libpcm_openmpi.so.0)\n"),
        },
    ),
    ("lib/pkgconfig/pcm.pc", Content::Text(include_str!("templates/pcm.pc"))),
    (
        "lib/cmake/pcm/pcmConfig.cmake",
        Content::Text(include_str!("templates/pcmConfig.cmake")),
    ),
    (
        "lib/cmake/pcm/pcmConfigVersion.cmake",
        Content::Text(include_str!("templates/pcmConfigVersion.cmake")),
    ),
    ("include/pcm.h", Content::File("pcm-lib/include/pcm.h")),
    ("include/pcm.hpp", Content::File("pcm-lib/include/pcm.hpp")),
    ("include/pcm.f90", Content::File("pcm-lib/include/pcm.f90")),
    (
        "share/modulefiles/pcm/@VERSION@",
        Content::Text(include_str!("templates/modulefile")),
    ),
    (
        "share/pcm/spack/repo.yaml",
        Content::Text(include_str!("templates/spack/repo.yaml")),
    ),
    (
        "share/pcm/spack/packages/pcm/package.py",
        Content::Text(include_str!("templates/spack/package.py")),
    ),
    (
        "share/pcm/apptainer/pcm.def",
        Content::Text(include_str!("templates/pcm.def")),
    ),
    (
        "share/bash-completion/completions/pcmctl",
        Content::Printed(&["completions", "bash"]),
    ),
    (
        "share/zsh/vendor-completions/_pcmctl",
        Content::Printed(&["completions", "zsh"]),
    ),
    (
        "share/fish/vendor_completions.d/pcmctl.fish",
        Content::Printed(&["completions", "fish"]),
    ),
    ("share/doc/pcm/README.md", Content::File("README.md")),
    ("share/doc/pcm/LICENSE-MIT", Content::File("LICENSE-MIT")),
    ("share/doc/pcm/LICENSE-APACHE", Content::File("LICENSE-APACHE")),
];

const fn link(goal: &'static str) -> Content {
    Content::Link {
        goal,
        without_links: None,
    }
}

/// The folder of man pages.
pub(super) const MAN: &str = "share/man/man1";

/// The folder in which Python of a system looks for packages; a wheel has them elsewhere.
pub(super) const PYTHON: &str = "lib/python3/dist-packages";

/// Texts of the licences of everything that is linked in.
pub(super) const LICENCES: &str = "share/doc/pcm/LICENSES-of-dependencies";

/// With the version of the workspace in the place of its name.
pub(super) fn versioned(text: &str) -> String {
    text.replace("@VERSION@", env!("CARGO_PKG_VERSION"))
}
