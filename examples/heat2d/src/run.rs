//! The parallel run: exchange rows with the neighbours, relax, repeat, report.

use crate::{
    options::{Options, USAGE},
    plate::{self, Block},
};
use mpi::{
    collective::SystemOperation,
    request::{self, RequestCollection},
    topology::SimpleCommunicator,
    traits::*,
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

/// Everything heat2d does; the exit codes are those of `--help`.
pub(crate) fn run() -> ExitCode {
    let Some(universe) = mpi::initialize() else {
        eprintln!("heat2d: MPI was already initialised");
        return ExitCode::FAILURE;
    };
    let world = universe.world();
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

fn solve(world: &SimpleCommunicator, options: &Options) {
    let &Options { rows, cols, .. } = options;
    let block = Block::deal(rows, world.rank(), world.size());
    let mut cells = plate::initial(block, rows, cols);
    let mut old = vec![0.0; 2 * cols];

    let start = Instant::now();
    let mut shown = start;
    for iteration in 0..options.iterations {
        exchange_halo(world, &mut cells, block, cols);
        plate::relax(&mut cells, block, rows, cols, &mut old);
        if options.sleep_us > 0 {
            thread::sleep(Duration::from_micros(options.sleep_us));
        }
        if options.progress && world.rank() == 0 {
            show_progress(iteration + 1, options.iterations, &mut shown);
        }
    }
    let seconds = start.elapsed().as_secs_f64();

    let sum = plate::checksum(&cells, block, cols);
    let root = world.process_at_rank(0);
    if world.rank() == 0 {
        let mut total = 0_u64;
        root.reduce_into_root(&sum, &mut total, SystemOperation::sum());
        let (iterations, ranks) = (options.iterations, world.size());
        println!("heat2d: iterations {iterations} ranks {ranks} seconds {seconds:.6} checksum {total:016x}");
    } else {
        root.reduce_into(&sum, SystemOperation::sum());
    }
}

fn exchange_halo(world: &SimpleCommunicator, cells: &mut [f64], block: Block, cols: usize) {
    let (halo_above, rest) = cells.split_at_mut(cols);
    let (own, halo_below) = rest.split_at_mut(block.count * cols);
    let own: &[f64] = own;
    request::multiple_scope(4, |scope, requests: &mut RequestCollection<'_, [f64]>| {
        if let Some(above) = block.above {
            let above = world.process_at_rank(above);
            requests.add(above.immediate_receive_into_with_tag(scope, halo_above, FROM_ABOVE));
            requests.add(above.immediate_send_with_tag(scope, &own[..cols], FROM_BELOW));
        }
        if let Some(below) = block.below {
            let below = world.process_at_rank(below);
            requests.add(below.immediate_receive_into_with_tag(scope, halo_below, FROM_BELOW));
            requests.add(below.immediate_send_with_tag(scope, &own[own.len() - cols..], FROM_ABOVE));
        }
        requests.wait_all(&mut Vec::with_capacity(4));
    });
}

fn show_progress(iteration: u64, iterations: u64, shown: &mut Instant) {
    if shown.elapsed() >= PROGRESS_EVERY || iteration == iterations {
        *shown = Instant::now();
        eprintln!("heat2d: iteration {iteration} of {iterations}");
    }
}
