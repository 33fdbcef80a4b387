//! What the daemons do in a real job: word of a failure reaches everybody, and a move is committed when all have
//! completed it.
#![allow(unsafe_code, reason = "calls MPI")]

use mpi_abi::MPI_Comm;
use pcm_lib::{
    mpi::{Communicator, Transport},
    redistribute::{MoveError, Movement, Progress},
    region::Registry,
};
use pcm_proto::reconfiguration::Tally;
use std::time::{Duration, Instant};

/// Between two looks at what others say.
const LOOK: Duration = Duration::from_millis(1);
/// Longest a move or its end may take here.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) enum Outcome {
    /// All have completed it.
    Complete { sent: Tally, received: Tally },
    /// Somebody has failed; the error, if it was this process.
    Failed(Option<MoveError>),
}

/// Drives a move until all have completed it or one has failed. `control` is a communicator of all that has no other
/// traffic.
pub(crate) fn drive(
    movement: &mut Movement,
    registry: &mut Registry,
    transfer: &dyn Transport,
    control: &Communicator,
) -> Outcome {
    let end = Instant::now() + LIMIT;
    let (sent, received) = loop {
        match movement.drive(registry, transfer, Instant::now() + LOOK) {
            Ok(Progress::Complete { sent, received }) => break (sent, received),
            Ok(Progress::Pending) => {}
            Err(error) => {
                tell_failure(control);
                return Outcome::Failed(Some(error));
            }
        }
        if has_failed(control) {
            return Outcome::Failed(None);
        }
        assert!(Instant::now() < end, "the move does not come to an end: {movement:?}");
    };
    let mut all = barrier(control.handle());
    while !is_over(&mut all) {
        if has_failed(control) {
            return Outcome::Failed(None);
        }
        assert!(Instant::now() < end, "others do not come to an end");
        std::thread::yield_now();
    }
    Outcome::Complete { sent, received }
}

/// Ends a move that failed, on every process.
pub(crate) fn abort(movement: Movement, registry: &mut Registry, transfer: &dyn Transport) {
    let aborted = movement.abort(registry, transfer, Instant::now() + LIMIT);
    aborted.expect("all processes are alive");
}

/// The sums over all processes.
pub(crate) fn sum<const N: usize>(communicator: &Communicator, own: [u64; N]) -> [u64; N] {
    let mut total = [0; N];
    // SAFETY: both have N numbers.
    let code = unsafe {
        let (own, total) = (own.as_ptr().cast(), total.as_mut_ptr().cast());
        let (number, add) = (mpi_abi::MPI_UINT64_T(), mpi_abi::MPI_SUM());
        mpi_abi::PMPI_Allreduce(own, total, N as i32, number, add, communicator.handle())
    };
    assert_eq!(code, 0);
    total
}

fn tell_failure(control: &Communicator) {
    let own = control.rank().unwrap();
    for other in (0..control.size().unwrap()).filter(|other| *other != own) {
        // SAFETY: no bytes. The request is over when the communicator is.
        unsafe { control.isend(&[], other, 0) }.unwrap();
    }
}

fn has_failed(control: &Communicator) -> bool {
    let mut is_there = 0;
    // SAFETY: the output is a local; a null status is "ignore" for MPICH.
    let code = unsafe {
        let any = mpi_abi::MPI_ANY_SOURCE;
        mpi_abi::PMPI_Iprobe(any, 0, control.handle(), &mut is_there, mpi_abi::MPI_STATUS_IGNORE)
    };
    assert_eq!(code, 0);
    is_there != 0
}

fn barrier(communicator: MPI_Comm) -> mpi_abi::MPI_Request {
    // SAFETY: the communicator exists.
    unsafe {
        let mut request = mpi_abi::MPI_REQUEST_NULL();
        assert_eq!(mpi_abi::PMPI_Ibarrier(communicator, &mut request), 0);
        request
    }
}

fn is_over(request: &mut mpi_abi::MPI_Request) -> bool {
    let mut is_over = 0;
    // SAFETY: the request is active or null.
    assert_eq!(
        unsafe { mpi_abi::PMPI_Test(request, &mut is_over, mpi_abi::MPI_STATUS_IGNORE) },
        0
    );
    is_over != 0
}
