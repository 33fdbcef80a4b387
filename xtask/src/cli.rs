//! The command line of `cargo xtask`. Owns names and help of the verbs; must never do their work.

use crate::{
    advisories, built, compile, dist, docs, environment::Environment, failure::Failure, fuzz, house, lint, miri,
    pictures, planted, repository::Repository, setup, suites,
};
use clap::{Parser, Subcommand};
use std::{ffi::OsString, path::PathBuf};

/// Sets up, builds, tests and measures this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const EXIT_CODES: &str =
    "Example: cargo xtask test\n\nExit codes: 0 done, 1 it failed (the last lines say why), 2 wrong command line.";

#[derive(Subcommand)]
enum Verb {
    /// Find or install an MPI that can do live reconfiguration, and Intel MPI and Open MPI for the tests.
    #[command(
        after_help = "Example: cargo xtask setup\n\nPCM_MPI=PREFIX chooses an MPI; otherwise an mpicc in PATH is used \
                      if it can do live reconfiguration, else the mpich wheel from PyPI is installed into .mpi/. Intel \
                      MPI goes into .mpi-intel/, under Intel's licence (share/doc/mpi/licensing there), Open MPI into \
                      .mpi-open/."
    )]
    Setup,
    /// Release build of everything, the C parts too, into target/release.
    #[command(after_help = "Example: cargo xtask build")]
    Build,
    /// Make packages: a tar file, a wheel for pip, and one for Debian.
    #[command(
        after_help = "Example: cargo xtask dist\n\nBuilds first; leaves the packages in target/dist. MPI is no part of \
                      them."
    )]
    Dist,
    /// Make a site of the pages in docs/, in target/site; needs no network.
    #[command(
        after_help = "Example: cargo xtask docs\n\nOpen target/site/index.html; no server is needed. A link that \
                      leads nowhere fails the build."
    )]
    Docs,
    /// Show what this software does, on a local cluster of four nodes.
    #[command(
        after_help = "Example: cargo xtask demo --quick\n\nBuilds what it runs; takes everything down at the end, \
                      also on ctrl-C."
    )]
    Demo {
        /// A shorter run.
        #[arg(long)]
        quick: bool,
        /// Leave the events and the result in this folder.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Run the tests; without a suite, all that continuous integration runs.
    #[command(
        after_help = "Example: cargo xtask test unit\n\nEnds with a line 'N passed, N failed' over all runners. With \
                      CI=true a test that cannot run counts as failed."
    )]
    Test {
        #[arg(value_enum, default_value = "all")]
        suite: suites::Suite,
        /// Only tests whose name contains this.
        #[arg(long)]
        filter: Option<String>,
        /// Rounds of the tests that strike at random
        #[arg(long, value_name = "N")]
        rounds: Option<u64>,
        /// With C programs that stop at undefined behaviour, wrong addresses and memory left
        #[arg(long)]
        checked: bool,
    },
    /// Give the decoders of what comes from outside any bytes at all, for a while.
    #[command(
        after_help = "Example: cargo xtask fuzz datagram --seconds 3600\n\nNeeds a C++ compiler for libFuzzer. An \
                      input that breaks something is kept in target/fuzz/findings."
    )]
    Fuzz {
        /// One of fuzz/fuzz_targets; without it each of them.
        name: Option<String>,
        /// How long each runs.
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
    /// Put defects of this project's history back, one at a time; the simulation of the cluster must find each.
    #[command(after_help = "Example: cargo xtask planted\n\nWorks on a copy of the source in the target folder.")]
    Planted {
        /// How many histories it may take to find one.
        #[arg(long, default_value_t = 30_000)]
        seeds: u64,
    },
    /// Check style, format, clippy and documentation.
    #[command(
        after_help = "Example: cargo xtask lint --style\n\nEach line of the style test is 'file:line: rule: what to \
                      do'."
    )]
    Lint {
        /// The style test alone: needs no compiler and no MPI, and takes about a second.
        #[arg(long)]
        style: bool,
    },
    /// Run tests of unsafe code under Miri, which stops at undefined behaviour.
    #[command(
        after_help = "Example: cargo xtask miri --toolchain nightly\n\nTests that map memory or call MPI are \
                            not among them."
    )]
    Miri {
        /// One of rustup's that has Miri.
        #[arg(long, default_value = "nightly")]
        toolchain: String,
    },
    /// Look for known defects of the packages that are built in.
    #[command(
        after_help = "Example: cargo xtask advisories ../advisory-db\n\nNeeds no network: bring a copy of RustSec's \
                      advisory database. Versions are those of Cargo.lock."
    )]
    Advisories {
        /// Where the copy is.
        database: PathBuf,
    },
    /// Take the pictures of the dashboard in docs again, of real jobs in Chromium.
    #[command(after_help = "Example: cargo xtask pictures\n\nBuilds first; look at docs/pictures afterwards.")]
    Pictures,
    /// Measure the source against the targets of the house.
    #[command(after_help = "Example: cargo xtask house --json")]
    House {
        /// One JSON document instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Measure something; `list` names what can be measured.
    #[command(
        after_help = "Example: cargo xtask bench list\nExample: cargo xtask bench iteration --quick --json samples.json"
    )]
    Bench {
        /// A name from `list`, or `list`.
        name: String,
        /// Fewer and shorter runs: shows that it works, not a figure to quote.
        #[arg(long)]
        quick: bool,
        /// Write machine, versions and every raw sample here.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Print the build environment for a shell.
    #[command(after_help = "Example: eval \"$(cargo xtask env)\"")]
    Env,
}

impl Cli {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let repository = Repository::locate()?;
        match self.verb {
            Verb::Setup => {
                report_setup(&setup::run(&repository)?);
                if let Some(version) = setup::intel(&repository)? {
                    println!(
                        "MPI       Intel MPI {version} in {}",
                        repository.intel_prefix().display()
                    );
                }
                if let Some(version) = setup::open_mpi(&repository)? {
                    println!(
                        "MPI       Open MPI {version} in {}",
                        repository.open_mpi_prefix().display()
                    );
                }
                for version in setup::older(&repository)? {
                    println!(
                        "MPI       MPICH {version} in {}",
                        repository.older_prefix(version).display()
                    );
                }
            }
            Verb::Build => compile::release(&repository, &setup::run(&repository)?)?,
            Verb::Dist => dist::run(&repository, &setup::run(&repository)?)?,
            Verb::Docs => docs::run(&repository)?,
            Verb::Demo { quick, out } => built::demo(&repository, &options(quick, "--out", out))?,
            Verb::Test {
                suite,
                filter,
                rounds,
                checked,
            } => {
                let chosen = suites::Chosen {
                    suite,
                    filter: filter.as_deref(),
                    rounds,
                    is_checked: checked,
                };
                suites::run(&repository, &setup::run(&repository)?, chosen)?;
            }
            Verb::Fuzz { name, seconds } => fuzz::run(&repository, name.as_deref(), seconds)?,
            Verb::Planted { seeds } => planted::run(&repository, &setup::run(&repository)?, seeds)?,
            Verb::Lint { style } => {
                let extent = if style { lint::Extent::Style } else { lint::Extent::All };
                lint::run(&repository, extent)?;
            }
            Verb::Miri { toolchain } => miri::run(&repository, &setup::run(&repository)?, &toolchain)?,
            Verb::Advisories { database } => advisories::run(&repository, &database)?,
            Verb::Pictures => pictures::run(&repository, &setup::run(&repository)?)?,
            Verb::House { json } => house::run(&repository, json)?,
            Verb::Bench { name, quick, json } => built::bench(&repository, &name, &options(quick, "--json", json))?,
            Verb::Env => print!("{}", setup::run(&repository)?.shell_lines()),
        }
        Ok(())
    }
}

/// The command line of the program that does the work.
fn options(is_quick: bool, name: &str, path: Option<PathBuf>) -> Vec<OsString> {
    let quick = is_quick.then(|| "--quick".into());
    let path = path.into_iter().flat_map(|path| [name.into(), path.into_os_string()]);
    quick.into_iter().chain(path).collect()
}

fn report_setup(environment: &Environment) {
    println!(
        "MPI       {} in {}",
        environment.mpi.version,
        environment.mpi.prefix.display()
    );
}
