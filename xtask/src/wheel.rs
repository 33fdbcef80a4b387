//! Brings wheels from PyPI with the machine's own pip and unpacks them as a plain prefix.
//!
//! Unpacking is done here because `pip --prefix` puts files elsewhere on Debian than on other systems. Must never
//! install into the system or the user's Python.

use crate::{
    environment::must,
    failure::{Failure, OnPath},
};
use std::{
    env, fs,
    io::IsTerminal,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const UNPACK: &str = include_str!("unpack.py");

/// Downloads `requirement` (NAME==VERSION) and unpacks it into `prefix`.
pub(crate) fn install(requirement: &str, prefix: &Path) -> Result<(), Failure> {
    eprintln!("installing {requirement} from PyPI into {}", prefix.display());
    let downloads = prefix.join(".download");
    if downloads.exists() {
        fs::remove_dir_all(&downloads).on("remove", &downloads)?;
    }
    fs::create_dir_all(&downloads).on("create", &downloads)?;
    let mut pip = pip(prefix)?;
    pip.args([
        "download",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
    ]);
    // On a terminal pip shows a bar with rate and remaining time; elsewhere nothing of the kind.
    if !std::io::stdout().is_terminal() {
        pip.arg("--quiet");
    }
    pip.arg("--dest").arg(&downloads).arg(requirement);
    must(
        pip,
        &format!("check the network and that PyPI has {requirement} for this machine"),
    )?;
    let mut unpack = Command::new(python()?);
    unpack
        .stdin(Stdio::null())
        .arg("-c")
        .arg(UNPACK)
        .arg(&downloads)
        .arg(prefix);
    must(unpack, "free some disk space and run setup again")?;
    fs::remove_dir_all(&downloads).on("remove", &downloads)
}

/// Downloads wheels of all `requirements` for every Python of this machine into `folder`.
pub(crate) fn download(requirements: &[&str], folder: &Path) -> Result<(), Failure> {
    let mut pip_of_any = Vec::new();
    for version in versions() {
        let mut pip = pip(folder)?;
        pip.args([
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--only-binary=:all:",
        ]);
        pip.args(["--python-version", &version, "--dest"])
            .arg(folder)
            .args(requirements);
        pip_of_any.push(must(pip, "check the network and that PyPI has these for this machine"));
    }
    // A Python too old for one of them is none that a test can use; one is enough.
    match pip_of_any.into_iter().reduce(Result::or) {
        Some(outcome) => outcome,
        None => python().map(|_| ()),
    }
}

/// The project in NAME==VERSION.
pub(crate) fn name_of(requirement: &str) -> &str {
    requirement.split("==").next().unwrap_or(requirement)
}

/// Downloads the source archive of `requirement` and unpacks it into `folder`, without its own top folder.
pub(crate) fn unpack_source(requirement: &str, folder: &Path) -> Result<(), Failure> {
    let downloads = folder.join(".download");
    fs::create_dir_all(&downloads).on("create", &downloads)?;
    let mut pip = pip(folder)?;
    pip.args(["download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    // Only this one: with `:all:` pip compiles the tools that read its metadata from source, for many minutes.
    pip.arg(format!("--no-binary={}", name_of(requirement)));
    pip.arg("--dest").arg(&downloads).arg(requirement);
    must(
        pip,
        &format!("check the network and that PyPI has the source of {requirement}"),
    )?;
    let mut tar = Command::new("sh");
    tar.stdin(Stdio::null())
        .args(["-c", "tar -xzf \"$1\"/*.tar.gz -C \"$2\" --strip-components=1", "sh"]);
    tar.arg(&downloads).arg(folder);
    must(tar, "free some disk space and try again")?;
    fs::remove_dir_all(&downloads).on("remove", &downloads)
}

/// A command that is pip: the interpreter's own, else one of a private environment, else after installing the package.
fn pip(prefix: &Path) -> Result<Command, Failure> {
    for candidate in pythons() {
        if quiet_success(Command::new(&candidate).args(["-m", "pip", "--version"])) {
            return Ok(module_pip(&candidate));
        }
    }
    if let Some(private) = private_pip(prefix)? {
        return Ok(module_pip(&private));
    }
    if install_system_package("python3-venv")
        && let Some(private) = private_pip(prefix)?
    {
        return Ok(module_pip(&private));
    }
    Err(Failure::Missing {
        what: "pip for python3".into(),
        advice:
            "run `apt-get install python3-venv` (or python3-pip) as root and then setup again, or set PCM_MPI to an \
                 MPICH 4.2 or newer"
                .into(),
    })
}

fn module_pip(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.stdin(Stdio::null()).args(["-m", "pip"]);
    command
}

fn private_pip(prefix: &Path) -> Result<Option<PathBuf>, Failure> {
    let folder = prefix.join(".pip");
    let made = quiet_success(Command::new(python()?).args(["-m", "venv", "--clear"]).arg(&folder));
    Ok(made.then(|| folder.join("bin/python3")))
}

/// Installs a Debian package where this user may; says whether it did.
pub(crate) fn install_system_package(name: &str) -> bool {
    let script = format!(
        "export DEBIAN_FRONTEND=noninteractive; if [ $(id -u) = 0 ]; then S=; else sudo -n true || exit 1; S='sudo \
         -n'; fi; $S apt-get install -y -qq {name} || {{ $S apt-get update -qq && $S apt-get install -y -qq {name}; }}"
    );
    eprintln!("trying to install the system package {name}");
    quiet_success(Command::new("sh").arg("-c").arg(script))
}

fn pythons() -> Vec<PathBuf> {
    let in_path = env::var_os("PATH").map(|path| {
        env::split_paths(&path)
            .map(|dir| dir.join("python3"))
            .collect::<Vec<_>>()
    });
    let mut found = in_path.unwrap_or_default();
    found.push(PathBuf::from("/usr/bin/python3"));
    found.retain(|candidate| candidate.is_file());
    found.dedup();
    found
}

/// Versions, as 3.11, of every Python in the search path.
fn versions() -> Vec<String> {
    let print = "import sys; print('%d.%d' % sys.version_info[:2])";
    let told = |python: PathBuf| {
        Command::new(python)
            .args(["-c", print])
            .stdin(Stdio::null())
            .output()
            .ok()
    };
    let outputs = pythons()
        .into_iter()
        .filter_map(told)
        .filter(|output| output.status.success());
    let mut found: Vec<String> = outputs
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .collect();
    found.sort();
    found.dedup();
    found
}

fn python() -> Result<PathBuf, Failure> {
    pythons().into_iter().next().ok_or_else(|| Failure::Missing {
        what: "python3".into(),
        advice: "run `apt-get install python3 python3-venv` as root".into(),
    })
}

fn quiet_success(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
