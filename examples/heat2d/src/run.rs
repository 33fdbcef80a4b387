//! The parallel run: exchange rows with the neighbours, relax, repeat, report.

use crate::{
    mpi::{Row, World},
    options::{Options, USAGE},
    plate::{self, Block},
};
use pcm::{Array, ArrayOptions, AxisSpec, Registry, Session, SessionError, Step};
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
        Ok(options) => {
            if let Err(error) = solve(&world, &options) {
                eprintln!("heat2d: {error}");
                world.abort(1);
            }
        }
        Err(mistake) => {
            if world.rank() == 0 {
                eprint!("heat2d: {mistake}\n{USAGE}");
            }
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn solve(world: &World, options: &Options) -> Result<(), SessionError> {
    let &Options { rows, cols, .. } = options;
    let (mut session, (t, iteration)) = Session::start(|regions| {
        let axes = [AxisSpec::block(rows as u64).with_halo(1), AxisSpec::whole(cols as u64)];
        let t = regions.array_of("t", axes, ArrayOptions::default())?;
        let block = my_rows(world, regions, t, rows);
        plate::set_initial(&mut regions[t], block, rows, cols);
        Ok((t, regions.value_of("iteration", 0_u64)?))
    })?;
    let mut block = my_rows(world, &session, t, rows);
    let mut old = vec![0.0; 2 * cols];

    let start = Instant::now();
    let mut shown = start;
    while session[iteration] < options.iterations {
        if session.iterate()? == Step::Changed {
            block = my_rows(world, &session, t, rows);
        }
        exchange_halo(world, &mut session[t], block, cols);
        plate::relax(&mut session[t], block, rows, cols, &mut old);
        if options.sleep_us > 0 {
            thread::sleep(Duration::from_micros(options.sleep_us));
        }
        session[iteration] += 1;
        if options.progress && world.rank() == 0 {
            show_progress(session[iteration], options.iterations, &mut shown);
        }
    }
    let seconds = start.elapsed().as_secs_f64();

    let sum = plate::checksum(&session[t], block, cols);
    let total = world.sum(sum);
    if world.rank() == 0 {
        let (iterations, ranks) = (options.iterations, world.size());
        println!("heat2d: iterations {iterations} ranks {ranks} seconds {seconds:.6} checksum {total:016x}");
    }
    Ok(())
}

/// The rows of this rank, by the library's partition.
fn my_rows(world: &World, regions: &Registry, t: Array<f64>, rows: usize) -> Block {
    Block::new(t.bounds(regions, 0).unwrap_or_default(), rows, world.rank())
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
