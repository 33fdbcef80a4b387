//! The launchers that are here, each with the programs compiled for its MPI. Must never install anything.

use super::super::bench::Context;
use super::attempt;
use super::cases::Case;
use super::lam::Lam;
use pcm_bench::{Failure, OnPath, OwnCluster, environment::Environment, trial::must};
use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const PROGRAMS: [&str; 4] = ["spawn", "rate", "pair", "connect"];

/// Names by which ratios find them.
pub(super) const OURS: &str = "pcmctl";
pub(super) const OURS_WITH_SPARES: &str = "pcmctl --spares";
pub(super) const HYDRA: &str = "hydra";
pub(super) const OPEN_MPI: &str = "Open MPI";
pub(super) const LAM: &str = "LAM/MPI";

/// One way of starting a program.
pub(super) struct Launcher<'a> {
    pub(super) name: &'static str,
    pub(super) version: String,
    way: Way<'a>,
}

enum Way<'a> {
    Ours(&'a OwnCluster<'a>),
    OursWithSpares(&'a OwnCluster<'a>),
    Hydra,
    OpenMpi,
    Lam(Lam),
}

/// All of them, and the folder they share.
pub(super) struct Launchers<'a> {
    pub(super) present: Vec<Launcher<'a>>,
    /// Why others are not there.
    pub(super) absent: Vec<String>,
    pub(super) folder: PathBuf,
    environment: &'a Environment,
}

impl<'a> Launchers<'a> {
    /// Ours and hydra are there in any case.
    pub(super) fn find(bench: &str, context: &'a Context, cluster: &'a OwnCluster<'a>) -> Result<Self, Failure> {
        let folder = env::temp_dir().join(format!("pcm-{bench}-{}", std::process::id()));
        fs::create_dir_all(&folder).on("create", &folder)?;
        // Another user runs programs in it.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).on("open", &folder)?;
        let environment = &context.environment;
        let mpi = &environment.mpi_version;
        let mut launchers = Self {
            present: Vec::new(),
            absent: Vec::new(),
            folder,
            environment,
        };
        launchers.add(OURS, format!("over {mpi}"), Way::Ours(cluster));
        launchers.add(
            OURS_WITH_SPARES,
            format!("the same over {mpi}, where spares can answer"),
            Way::OursWithSpares(cluster),
        );
        launchers.add(HYDRA, format!("of {mpi}, OFI over tcp"), Way::Hydra);
        match first_line("mpirun.openmpi", &["--version"]) {
            Some(version) => {
                launchers.compile("openmpi", "mpicc.openmpi")?;
                launchers.add(OPEN_MPI, version, Way::OpenMpi);
            }
            None => launchers.lacks(OPEN_MPI, "openmpi-bin and libopenmpi-dev"),
        }
        match first_line("laminfo", &["-version", "lam", "full", "-parsable"]) {
            Some(version) => {
                launchers.compile("lam", "mpicc.lam")?;
                let lam = Lam::boot(&launchers.folder)?;
                launchers.add(LAM, version, Way::Lam(lam));
            }
            None => launchers.lacks(LAM, "lam-runtime and lam4-dev"),
        }
        Ok(launchers)
    }

    fn add(&mut self, name: &'static str, version: String, way: Way<'a>) {
        self.present.push(Launcher { name, version, way });
    }

    fn lacks(&mut self, name: &str, packages: &str) {
        self.absent
            .push(format!("{name} was not compared: install {packages} to have it"));
    }

    fn compile(&self, kind: &str, compiler: &str) -> Result<(), Failure> {
        let into = self.folder.join(kind);
        fs::create_dir_all(&into).on("create", &into)?;
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("dynamic");
        for program in PROGRAMS {
            let mut command = Command::new(compiler);
            // These wrappers split paths at blanks, so they get none.
            command.args(["-std=c11", "-O3", "-o", program]).current_dir(&into);
            let (source, header) = (sources.join(format!("{program}.c")), sources.join("dynamic.h"));
            for file in [&source, &header] {
                let copy = into.join(file.file_name().unwrap_or_default());
                fs::copy(file, &copy).on("copy to", &copy)?;
            }
            command.arg(format!("{program}.c")).env_remove("LD_LIBRARY_PATH");
            must(&mut command)?;
        }
        Ok(())
    }

    /// A case under one of them; its processes bear the mark.
    pub(super) fn command(&self, launcher: &Launcher<'_>, case: &Case, mark: &str) -> Command {
        let count = case.ranks.to_string();
        let own = self.environment.program(&format!("pcm-dynamic-{}", case.program));
        let of = |kind: &str| self.folder.join(kind).join(case.program);
        let (mut command, program) = match &launcher.way {
            Way::Ours(cluster) => (cluster.pcmctl(&["run", "-n", &count, "--"]), own),
            Way::OursWithSpares(cluster) => {
                let spares = case.spares.to_string();
                (cluster.pcmctl(&["run", "-n", &count, "--spares", &spares, "--"]), own)
            }
            Way::Hydra => (self.environment.hydra(&count), own),
            Way::OpenMpi => {
                let mut command = Command::new("mpirun.openmpi");
                command.args(["--oversubscribe", "--bind-to", "none", "-np", &count]);
                command.env("TMPDIR", &self.folder).env_remove("LD_LIBRARY_PATH");
                if rustix::process::geteuid().is_root() {
                    command.arg("--allow-run-as-root");
                }
                (command, of("openmpi"))
            }
            Way::Lam(lam) => {
                let mut command = lam.command("mpirun.lam");
                command.args(["-x", attempt::MARK_VARIABLE, "-np", &count]);
                (command, of("lam"))
            }
        };
        command
            .arg(program)
            .args(&case.arguments)
            .env(attempt::MARK_VARIABLE, mark);
        command
    }
}

impl Launcher<'_> {
    /// Whether a case says something about it: spares without a use do not, and of spares it is known how far off Open
    /// MPI is.
    pub(super) fn is_for(&self, case: &Case) -> bool {
        match self.way {
            Way::OursWithSpares(_) => case.spares > 0,
            Way::OpenMpi => case.spares == 0,
            _ => true,
        }
    }

    /// What a run that hung may have left in it is ended.
    pub(super) fn clean(&self) -> Result<(), Failure> {
        match &self.way {
            Way::Lam(lam) => lam.clean(),
            _ => Ok(()),
        }
    }
}

impl Drop for Launchers<'_> {
    fn drop(&mut self) {
        // LAM's daemon ends before its folder goes.
        self.present.clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What a program says about itself; `None` when it is not there.
fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .env_remove("LD_LIBRARY_PATH");
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map(str::to_owned)
}
