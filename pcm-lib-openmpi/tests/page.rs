//! What libpcm counts in a program of Open MPI that its own launcher starts, and what runs behind it without MPI. Where
//! there is no Open MPI, nothing is tested.
#![allow(
    clippy::unwrap_used,
    unsafe_code,
    reason = "a test that maps memory as a daemon does"
)]

#[path = "../../pcm-lib/tests/traffic/mod.rs"]
mod traffic;

use memmap2::MmapMut;
use pcm_proto::{
    app::environment,
    page::{Page, page_size},
};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::{
    env,
    fs::File,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const RANKS: usize = 2;
/// The descriptors in `as_rank.c`.
const PAGE: &str = "200";
const CHANNEL: &str = "201";

/// A command of Open MPI, if it is there.
fn of_open_mpi(name: &str) -> Option<Command> {
    let prefix = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.mpi-open");
    let program = prefix.join("bin").join(name);
    if !program.exists() {
        eprintln!("not tested: there is no Open MPI");
        return None;
    }
    let mut command = Command::new("timeout");
    command.arg("120").arg(program);
    // In containers tests run as root, on any number of CPUs.
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    command.env_remove("LD_LIBRARY_PATH");
    Some(command)
}

fn compiled(source: &str, folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let program = folder.join(source.file_stem().unwrap());
    let mut compile = of_open_mpi("mpicc")?;
    compile.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]);
    succeeded(&compile.arg(&program).arg(source).output().unwrap());
    Some(program)
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Two ranks with libpcm in front of MPI, and these variables.
fn launcher(variables: &[(&str, &str)]) -> Option<Command> {
    let library = env::current_exe().unwrap().with_file_name("libpcm_openmpi.so");
    let mut run = of_open_mpi("mpirun")?;
    run.args(["--oversubscribe", "--mca", "pml", "ob1", "-n", &RANKS.to_string()]);
    run.arg("-x").arg(format!("LD_PRELOAD={}", library.display()));
    for (name, value) in variables {
        run.arg("-x").arg(format!("{name}={value}"));
    }
    Some(run)
}

/// A rank's page as a file, and its channel by a name, in a folder.
fn sides(folder: &Path, rank: usize) -> (MmapMut, OwnedFd) {
    let file = folder.join(format!("page-{rank}"));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(file)
        .unwrap();
    file.set_len(page_size(RANKS) as u64).unwrap();
    // SAFETY: the file was made here and is not shrunk.
    let mut map = unsafe { MmapMut::map_mut(&file) }.unwrap();
    Page::create(&mut map, RANKS).unwrap();
    let flags = SocketFlags::CLOEXEC;
    let channel = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    bind(
        &channel,
        &SocketAddrUnix::new(folder.join(format!("channel-{rank}"))).unwrap(),
    )
    .unwrap();
    listen(&channel, 1).unwrap();
    (map, channel)
}

fn assert_traffic_counted(arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let as_rank = compiled("tests/as_rank.c", folder.path());
    let traffic = compiled("../pcm-lib/tests/programs/traffic.c", folder.path());
    let mut sides: Vec<_> = (0..RANKS).map(|rank| sides(folder.path(), rank)).collect();
    let variables = [
        (environment::PAGE_FD, PAGE),
        (environment::CHANNEL_FD, CHANNEL),
        (environment::JOB, "7"),
        (environment::WORLD, "0"),
        (environment::NODE, "n0"),
    ];
    let (Some(as_rank), Some(traffic), Some(mut run)) = (as_rank, traffic, launcher(&variables)) else {
        return;
    };
    run.arg(as_rank).arg(folder.path()).arg(traffic).args(arguments);
    succeeded(&run.output().unwrap());
    for (own, (map, _channel)) in sides.iter_mut().enumerate() {
        traffic::assert_counted(Page::open(map).unwrap(), own);
    }
}

#[test]
fn messages_and_bytes_of_a_program_of_open_mpi_are_counted() {
    assert_traffic_counted(&[]);
}

#[test]
fn messages_and_bytes_are_counted_with_many_threads_too() {
    assert_traffic_counted(&["multiple"]);
}

#[test]
fn a_shell_and_what_it_starts_run_with_the_library_in_front() {
    let Some(mut run) = launcher(&[]) else { return };
    let output = run
        .args(["sh", "-c", "test -n \"$LD_PRELOAD\" && uname"])
        .output()
        .unwrap();
    assert_eq!(succeeded(&output), "Linux\n".repeat(RANKS));
    assert!(output.stderr.is_empty(), "{output:?}");
}
