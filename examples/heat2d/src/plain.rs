//! The parallel run: exchange rows with the neighbours, relax, repeat, report.

use crate::{
    mpi::{Row, World},
    options::{Options, USAGE},
    plate::{self, Block},
};
use std::{
    env,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

const PROGRESS_EVERY: Duration = Duration::from_millis(200);
const FROM_ABOVE: i32 = 1;
const FROM_BELOW: i32 = 2;

/// Runs heat2d; `--help` documents the exit codes.
pub(crate) fn run() -> ExitCode {
    let world = World::start();
    match Options::read(env::args().skip(1)) {
        Ok(options) if options.help => {
            if world.rank() == 0 {
                print!("{USAGE}");
            }
        }
        Ok(options) => solve(&world, &options),
        Err(mistake) => {
            if world.rank() == 0 {
                eprint!("heat2d: {mistake}\n{USAGE}");
            }
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn solve(world: &World, options: &Options) {
    let &Options { rows, cols, .. } = options;
    let block = my_rows(world, rows);
    let mut t = vec![0.0; (block.count + 2) * cols];
    plate::set_initial(&mut t, block, rows, cols);
    let mut iteration = 0;
    let mut old = vec![0.0; 2 * cols];

    let start = Instant::now();
    let mut shown = start;
    while iteration < options.iterations {
        exchange_halo(world, &mut t, block, cols);
        plate::relax(&mut t, block, rows, cols, &mut old);
        if options.sleep_us > 0 {
            thread::sleep(Duration::from_micros(options.sleep_us));
        }
        iteration += 1;
        if options.progress && world.rank() == 0 {
            show_progress(iteration, options.iterations, &mut shown);
        }
    }
    let seconds = start.elapsed().as_secs_f64();

    let sum = plate::checksum(&t, block, cols);
    let total = world.sum(sum);
    if world.rank() == 0 {
        let (iterations, ranks) = (options.iterations, world.size());
        println!("heat2d: iterations {iterations} ranks {ranks} seconds {seconds:.6} checksum {total:016x}");
    }
}

/// The rows of this rank; the first ranks get one row more.
fn my_rows(world: &World, rows: usize) -> Block {
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    let (share, rest) = (rows / size, rows % size);
    let first = rank * share + rank.min(rest);
    let end = first + share + usize::from(rank < rest);
    Block::new(first as u64..end as u64, rows, world.rank())
}

fn exchange_halo(world: &World, cells: &mut [f64], block: Block, cols: usize) {
    let (halo_above, rest) = cells.split_at_mut(cols);
    let (own, halo_below) = rest.split_at_mut(block.count * cols);
    let own: &[f64] = own;
    let (mut out, mut into) = (Vec::with_capacity(2), Vec::with_capacity(2));
    if let Some(neighbour) = block.above {
        let (cells, tag) = (&own[..cols], FROM_BELOW);
        out.push(Row { neighbour, tag, cells });
        let (cells, tag) = (halo_above, FROM_ABOVE);
        into.push(Row { neighbour, tag, cells });
    }
    if let Some(neighbour) = block.below {
        let (cells, tag) = (&own[own.len() - cols..], FROM_ABOVE);
        out.push(Row { neighbour, tag, cells });
        let (cells, tag) = (halo_below, FROM_BELOW);
        into.push(Row { neighbour, tag, cells });
    }
    world.exchange(&out, &mut into);
}

fn show_progress(iteration: u64, iterations: u64, shown: &mut Instant) {
    if shown.elapsed() >= PROGRESS_EVERY || iteration == iterations {
        *shown = Instant::now();
        eprintln!("heat2d: iteration {iteration} of {iterations}");
    }
}
