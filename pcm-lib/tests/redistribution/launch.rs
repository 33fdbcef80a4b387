//! Runs a test as the program of several MPI processes.

use std::{
    env,
    fs::File,
    io::{Read, Seek},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const AS_RANK: &str = "PCM_TEST_AS_RANK";
/// Far more than any of these tests takes on a slow machine.
const LIMIT: Duration = Duration::from_secs(240);

/// Runs `program` on `ranks` MPI processes. The calling test must have this name.
pub(crate) fn under_mpi(test: &str, ranks: u32, program: fn()) {
    if env::var_os(AS_RANK).is_some() {
        initialize();
        program();
        finalize();
        return;
    }
    let said = tempfile::tempfile().unwrap();
    let mut mpiexec = Command::new(mpiexec())
        .args(["-n", &ranks.to_string()])
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(AS_RANK, "1")
        // Ranks outnumber CPUs.
        .env("MPIR_CVAR_COLL_SHM_LIMIT_PER_NODE", "0")
        // As daemons set it; without, processes of one launch have no ports.
        .env("MPIR_CVAR_CH4_NETMOD", "ofi")
        .env("FI_PROVIDER", "tcp")
        .stdin(Stdio::null())
        .stdout(said.try_clone().unwrap())
        .stderr(said.try_clone().unwrap())
        .spawn()
        .unwrap();
    let end = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = mpiexec.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > end {
            mpiexec.kill().unwrap();
            mpiexec.wait().unwrap();
            panic!("{test} on {ranks} ranks took longer than {LIMIT:?}\n{}", text_of(said));
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{test} on {ranks} ranks: {status}\n{}", text_of(said));
}

fn text_of(mut file: File) -> String {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The launcher of the MPI that this test was compiled for.
fn mpiexec() -> PathBuf {
    let beside = env::var_os("MPICC")
        .map(PathBuf::from)
        .map(|mpicc| mpicc.with_file_name("mpiexec"));
    beside.filter(|path| path.exists()).unwrap_or_else(|| "mpiexec".into())
}

#[allow(unsafe_code, reason = "calls MPI")]
fn initialize() {
    // SAFETY: MPI allows null pointers here; it is the first call.
    assert_eq!(
        unsafe { mpi_abi::MPI_Init(std::ptr::null_mut(), std::ptr::null_mut()) },
        0
    );
}

#[allow(unsafe_code, reason = "calls MPI")]
fn finalize() {
    // SAFETY: the last call.
    assert_eq!(unsafe { mpi_abi::MPI_Finalize() }, 0);
}
