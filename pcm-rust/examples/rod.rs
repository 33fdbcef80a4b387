//! A rod of cells, divided among the ranks. In each step a rank exchanges its outer cells with its neighbours and
//! computes means. Ranks join, leave and move at the top of a step.
#![allow(unsafe_code, reason = "calls MPI")]

use mpi_abi::{MPI_COMM_WORLD, MPI_DOUBLE, MPI_PROC_NULL, MPI_STATUS_IGNORE, MPI_SUM};
use pcm::{ArrayOptions, AxisSpec, Session, SessionError, Step};
use std::ptr::{from_mut, from_ref, null_mut};

/// This rank's number and the number of ranks.
fn place() -> (i32, i32) {
    let (mut rank, mut size) = (0, 0);
    // SAFETY: MPI is initialised; both outputs are locals.
    unsafe {
        mpi_abi::MPI_Comm_rank(MPI_COMM_WORLD(), &mut rank);
        mpi_abi::MPI_Comm_size(MPI_COMM_WORLD(), &mut size);
    }
    (rank, size)
}

fn exchange(t: &mut [f64], (rank, size): (i32, i32)) {
    let left = if rank > 0 { rank - 1 } else { MPI_PROC_NULL };
    let right = if rank + 1 < size { rank + 1 } else { MPI_PROC_NULL };
    let last = t.len() - 2;
    for (out, to, into, from) in [(1, left, last + 1, right), (last, right, 0, left)] {
        let (cell, mut halo) = (t[out], t[into]);
        let (sent, got) = (from_ref(&cell).cast(), from_mut(&mut halo).cast());
        let (kind, world) = (MPI_DOUBLE(), MPI_COMM_WORLD());
        // SAFETY: one cell goes out of a local and one comes into another.
        unsafe {
            mpi_abi::MPI_Sendrecv(sent, 1, kind, to, 1, got, 1, kind, from, 1, world, MPI_STATUS_IGNORE);
        }
        t[into] = halo;
    }
}

fn relax(t: &mut [f64]) {
    let mut before = t[0];
    for i in 1..t.len() - 1 {
        let here = t[i];
        t[i] = 0.5 * (before + t[i + 1]);
        before = here;
    }
}

/// The sum of the numbers of all ranks, for rank 0.
fn sum(own: f64) -> f64 {
    let mut all = 0.0;
    let (own, sum) = (from_ref(&own).cast(), from_mut(&mut all).cast());
    // SAFETY: both numbers are locals.
    unsafe { mpi_abi::MPI_Reduce(own, sum, 1, MPI_DOUBLE(), MPI_SUM(), 0, MPI_COMM_WORLD()) };
    all
}

/// The mean of all cells after these steps, for rank 0.
pub(crate) fn run(cells: u64, steps: u64) -> Result<f64, SessionError> {
    let mut here = place();
    let (mut session, (t, step)) = Session::start(|regions| {
        let axes = [AxisSpec::block(cells).with_halo(1)];
        let t = regions.array_of::<f64>("t", axes, ArrayOptions::default())?;
        let last = regions[t].len() - 2;
        regions[t][1..=last].fill(here.0.into()); // in a rank that joins, the data of the others takes its place
        Ok((t, regions.value_of("step", 0_u64)?))
    })?;
    while session[step] < steps {
        if session.iterate()? == Step::Changed {
            here = place(); // ranks joined, left or moved
        }
        exchange(&mut session[t], here);
        relax(&mut session[t]);
        session[step] += 1;
    }
    let own = &session[t];
    Ok(sum(own[1..own.len() - 1].iter().sum()) / cells as f64)
}

fn main() {
    // SAFETY: the first call of MPI in this process.
    unsafe { mpi_abi::MPI_Init(null_mut(), null_mut()) };
    match run(1 << 20, 100_000) {
        Ok(mean) if place().0 == 0 => println!("mean {mean:.6}"),
        Ok(_) => {}
        Err(error) => {
            eprintln!("rod: {error}");
            // SAFETY: MPI is initialised.
            unsafe { mpi_abi::MPI_Abort(MPI_COMM_WORLD(), 1) };
        }
    }
    // SAFETY: the last call of MPI in this process.
    unsafe { mpi_abi::MPI_Finalize() };
}
