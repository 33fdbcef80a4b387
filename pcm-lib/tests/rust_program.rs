//! A Rust program that links the library: its own MPI calls and those of the shared libraries it loads are
//! interposed, and the checked layer over MPI does what it says. The test starts itself as the ranks.
#![allow(clippy::unwrap_used, unsafe_code, reason = "a test that calls MPI")]

mod harness;

use harness::{Rank, With};
use pcm_lib::{
    ArrayOptions, AxisSpec, Session, Step,
    mpi::{Communicator, ErrorsReturned, MpiError, Port, Request, Waited},
};
use pcm_proto::page::State;
use std::{
    env,
    path::Path,
    process::Command,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

/// Far more than two ranks on one machine need.
const LIMIT: Duration = Duration::from_secs(30);

/// Whether this process is a rank that [`run_as_ranks`] started.
fn is_rank() -> bool {
    env::var_os("PMI_RANK").is_some()
}

/// Runs the test `name` of this file as ranks.
fn run_as_ranks(name: &str, ranks: usize) -> Vec<Rank> {
    let program = env::current_exe().unwrap();
    let arguments = ["--exact", name, "--nocapture", "--test-threads=1"];
    let mut running = harness::start(ranks, &program, &arguments, With::Nothing);
    let output = running.output();
    assert_eq!(output.matches("1 passed").count(), ranks, "{output}");
    std::mem::take(&mut running.ranks)
}

fn initialize() {
    // SAFETY: the first call of MPI in this process.
    assert_eq!(
        unsafe { mpi_abi::MPI_Init(std::ptr::null_mut(), std::ptr::null_mut()) },
        0
    );
}

fn finalize() {
    // SAFETY: the last call of MPI in this process.
    assert_eq!(unsafe { mpi_abi::MPI_Finalize() }, 0);
}

#[test]
fn calls_of_a_rust_program_are_counted() {
    if is_rank() {
        return send_through_mpi_abi();
    }
    for (own, rank) in run_as_ranks("calls_of_a_rust_program_are_counted", 2)
        .iter_mut()
        .enumerate()
    {
        let page = rank.page();
        assert_eq!(page.state(), State::Done);
        let row = page.peer(1 - own);
        let (sent, received) = if own == 0 { (9, 0) } else { (0, 9) };
        assert_eq!(
            (row.bytes_sent.load(Relaxed), row.bytes_received.load(Relaxed)),
            (sent, received)
        );
    }
}

fn send_through_mpi_abi() {
    initialize();
    let mut bytes = [0_u8; 9];
    let mut status = std::mem::MaybeUninit::uninit();
    let rank = Communicator::world().rank().unwrap();
    // SAFETY: the buffer has the length given.
    unsafe {
        let (data, world) = (bytes.as_mut_ptr().cast(), mpi_abi::MPI_COMM_WORLD());
        let code = match rank {
            0 => mpi_abi::MPI_Send(data, 9, mpi_abi::MPI_UINT8_T(), 1, 1, world),
            _ => mpi_abi::MPI_Recv(data, 9, mpi_abi::MPI_UINT8_T(), 0, 1, world, status.as_mut_ptr()),
        };
        assert_eq!(code, 0);
    }
    finalize();
}

#[test]
fn a_session_says_on_the_page_what_it_registered_and_when_its_loop_ends() {
    if is_rank() {
        return declare();
    }
    for rank in &mut run_as_ranks(
        "a_session_says_on_the_page_what_it_registered_and_when_its_loop_ends",
        2,
    ) {
        let progress = &rank.page().head.progress;
        assert_eq!(progress.registered_bytes.load(Relaxed), 50 * 8 + 8);
        assert_eq!(progress.iterations_declared.load(Relaxed), 2 + 5);
    }
}

fn declare() {
    initialize();
    let started = Session::start(|regions| {
        regions.array_of::<f64>("t", [AxisSpec::block(100)], ArrayOptions::default())?;
        regions.value_of("iteration", 0_u64)
    });
    let (mut session, iteration) = started.unwrap();
    while session[iteration] < 9 {
        if session[iteration] == 2 {
            session.remaining(5).unwrap();
        }
        assert_eq!(session.iterate().unwrap(), Step::Same);
        session[iteration] += 1;
    }
    finalize();
}

#[test]
fn functions_of_mpi_are_visible_to_the_libraries_of_a_rust_program() {
    let program = env::current_exe().unwrap();
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(&program)
        .output()
        .unwrap();
    let symbols = String::from_utf8_lossy(&output.stdout);
    let missing: Vec<&str> = [
        "MPI_Init",
        "MPI_Send",
        "MPI_Ineighbor_alltoallw",
        "MPI_Win_create",
        "MPI_File_open",
    ]
    .into_iter()
    .filter(|name| !symbols.lines().any(|line| line.ends_with(&format!(" T {name}"))))
    .collect();
    assert!(
        missing.is_empty(),
        "{missing:?} of {} are resolved past libpcm",
        program.display()
    );
}

#[test]
fn the_checked_layer_speaks_mpi() {
    if is_rank() {
        return use_the_checked_layer();
    }
    let folder = tempfile::tempdir().unwrap();
    // SAFETY: set before any rank is started; the other tests of this file do not read it.
    unsafe { env::set_var("PCM_TEST_PORT", folder.path().join("port")) };
    run_as_ranks("the_checked_layer_speaks_mpi", 3);
}

fn use_the_checked_layer() {
    initialize();
    let world = Communicator::world().dup().unwrap();
    let (rank, size) = (world.rank().unwrap(), world.size().unwrap());
    exchange(&world, rank, size);
    groups(&world, rank);
    worlds_meet(rank);
    errors_are_results(&world, size);
    world.disconnect().unwrap();
    finalize();
}

fn exchange(world: &Communicator, rank: u32, size: u32) {
    let mut rooms = vec![[0_u8; 4]; size as usize];
    let out = [rank as u8; 4];
    // SAFETY: both buffers live to the end of this function, which waits for every request.
    unsafe {
        let mut receives: Vec<Request> = (0..size)
            .zip(&mut rooms)
            .map(|(from, room)| world.irecv(room, from, 5).unwrap())
            .collect();
        let mut sends: Vec<Request> = (0..size).map(|to| world.isend(&out[..3], to, 5).unwrap()).collect();
        for requests in [&mut receives, &mut sends] {
            for _ in 0..size {
                let Waited::Complete { index, received } = Request::wait_any(requests, LIMIT).unwrap() else {
                    panic!("a message did not arrive in {LIMIT:?}");
                };
                assert!(index < size as usize && received.tag <= 5 && received.bytes <= 3);
            }
            assert_eq!(Request::wait_any(requests, LIMIT).unwrap(), Waited::Nothing);
        }
        let mut never = [world.irecv(&mut rooms[0], rank, 6).unwrap()];
        let started = Instant::now();
        assert_eq!(
            Request::wait_any(&mut never, Duration::from_millis(20)).unwrap(),
            Waited::Expired
        );
        assert!(started.elapsed() >= Duration::from_millis(20));
        let mut send = world.isend(&[9; 4], rank, 6).unwrap();
        let arrived = Request::wait_any(&mut never, LIMIT).unwrap();
        assert!(
            matches!(arrived, Waited::Complete { index: 0, received } if (received.source, received.bytes) == (rank, 4))
        );
        while send.test().unwrap().is_none() {}
    }
    assert_eq!(rooms[0], [9; 4]);
    assert!((1..size).all(|from| rooms[from as usize][..3] == [from as u8; 3]));
}

fn groups(world: &Communicator, rank: u32) {
    let part = world.create(&[2, 0]).unwrap();
    assert_eq!(
        part.as_ref().map(|part| part.rank().unwrap()),
        [Some(1), None, Some(0)][rank as usize]
    );
    if let Some(part) = part {
        part.disconnect().unwrap();
    }
    if rank > 0 {
        let two = world.create_group(&[2, 1], 4).unwrap();
        assert_eq!((two.rank().unwrap(), two.size().unwrap()), (2 - rank, 2));
        two.disconnect().unwrap();
    }
}

/// Ranks 0 and 1, each alone, find each other by a port; the name travels in a file.
fn worlds_meet(rank: u32) {
    let path = env::var("PCM_TEST_PORT").unwrap();
    let path = Path::new(&path);
    let own = Communicator::own().dup().unwrap();
    let met = match rank {
        0 => {
            let port = Port::open().unwrap();
            let nobody = own.accept(&port, 0, Duration::from_secs(1)).unwrap_err();
            assert_eq!(nobody.call, "Comm_accept");
            std::fs::write(path.with_extension("new"), port.name()).unwrap();
            std::fs::rename(path.with_extension("new"), path).unwrap();
            let met = own.accept(&port, 0, LIMIT).unwrap();
            port.close().unwrap();
            met
        }
        1 => {
            let started = Instant::now();
            while !path.exists() && started.elapsed() < LIMIT {
                std::thread::sleep(Duration::from_millis(1));
            }
            let port = Port::named(&std::fs::read_to_string(path).unwrap()).unwrap();
            own.connect(&port, 0, LIMIT).unwrap()
        }
        _ => return own.disconnect().unwrap(),
    };
    assert_eq!(met.remote_size().unwrap(), 1);
    let both = met.merge(rank == 0).unwrap();
    assert_eq!((both.rank().unwrap(), both.size().unwrap()), (1 - rank, 2));
    both.disconnect().unwrap();
    met.disconnect().unwrap();
    own.disconnect().unwrap();
}

fn errors_are_results(world: &Communicator, size: u32) {
    // SAFETY: the call fails before it looks at the buffer.
    let error: MpiError = unsafe { world.isend(&[1], size + 7, 1) }.unwrap_err();
    assert_eq!(error.call, "Isend");
    assert!(error.code != 0 && !error.text.is_empty(), "{error}");
    let _errors = ErrorsReturned::begin();
    let port = Port::named("no such port").unwrap();
    assert!(Communicator::own().connect(&port, 0, Duration::from_secs(1)).is_err());
}
