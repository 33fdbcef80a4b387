//! How the worlds a job begins with become one communicator within `MPI_Init`. The first world takes the others in one
//! by one, in the order of their numbers, so that ranks keep the job's order: rank 0 holds a port and makes it known
//! under a name of the job for one world at a time. A job whose worlds do not meet must not go on: each of them would
//! take itself for the whole.

use crate::{
    interpose::refusal,
    mpi::{self, Communicator, MpiError, Port},
    start, start_error,
};
use pcm_proto::app::environment;
use std::{
    env, fmt,
    sync::atomic::Ordering::Relaxed,
    thread::sleep,
    time::{Duration, Instant},
};

/// From the first step to the last. One world takes milliseconds; the ranks of a loaded machine may start seconds
/// apart.
const JOINED_WITHIN: Duration = Duration::from_secs(60);

/// Between two looks for the port: at first as long as a world takes to be joined, then as long as nobody notices.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(16);

/// Which of how many worlds this process belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    own: u32,
    all: u32,
}

/// Why the worlds of a job did not become one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AssemblyError {
    /// A variable says nothing sensible.
    Variable { name: &'static str, value: String },
    /// The process does not work with its daemon.
    Plain,
    /// A call of MPI failed.
    Mpi(MpiError),
    /// The first world never made its port known.
    NoPort { world: u32 },
}

/// Joins the worlds of the job, where there are several, and makes MPI_COMM_WORLD mean all of them. To be called once,
/// after [`start::start`]; returns what `MPI_Init` is to return.
pub(crate) fn join() -> i32 {
    let joined = match Place::read() {
        Ok(None) => return 0,
        Ok(Some(place)) => joined(place),
        Err(error) => Err(error),
    };
    match joined {
        Ok(()) => 0,
        Err(error) => refusal::raise(Communicator::world().handle(), &error.to_string()),
    }
}

/// Leaves the communicator of several worlds, so that `MPI_Finalize` waits for no other world. Collective over the job,
/// as `MPI_Finalize` is.
pub(crate) fn part() {
    if let Some(started) = start::started()
        && let Some(job) = started.recorder.job_apart_from_world()
    {
        // MPI_Finalize follows in any case, and says what is wrong.
        _ = Communicator::from_handle(job).disconnect();
    }
}

fn joined(place: Place) -> Result<(), AssemblyError> {
    let started = start::started().ok_or(AssemblyError::Plain)?;
    let job = place.join_all()?;
    let (rank, size) = (job.rank()?, job.size()?);
    job.takes_after(&Communicator::world(), c"MPI_COMM_WORLD")?;
    let progress = &started.recorder.page().head.progress;
    progress.job_rank.store(u64::from(rank), Relaxed);
    progress.job_size.store(u64::from(size), Relaxed);
    started.recorder.job_is(job.handle());
    Ok(())
}

impl Place {
    fn read() -> Result<Option<Self>, AssemblyError> {
        let number = |name: &'static str| match env::var(name) {
            Ok(value) => value
                .parse::<u32>()
                .map(Some)
                .map_err(|_| AssemblyError::Variable { name, value }),
            Err(_) => Ok(None),
        };
        let Some(all) = number(environment::WORLDS)? else {
            return Ok(None);
        };
        let own = number(environment::WORLD)?.filter(|own| *own < all);
        let own = own.ok_or_else(|| AssemblyError::Variable {
            name: environment::WORLD,
            value: env::var(environment::WORLD).unwrap_or_default(),
        })?;
        Ok(Some(Self { own, all }))
    }

    fn join_all(self) -> Result<Communicator, AssemblyError> {
        let deadline = Instant::now() + JOINED_WITHIN;
        let left = || deadline.saturating_duration_since(Instant::now());
        let mut joined = Communicator::world().dup()?;
        let is_first = joined.rank()? == 0;
        if self.own > 0 {
            let port = if is_first {
                find(self.own, deadline)?
            } else {
                Port::elsewhere()
            };
            joined = merged(joined, true, left(), |own, limit| own.connect(&port, 0, limit))?;
        }
        let holds_port = self.own == 0 && is_first;
        let port = if holds_port { Port::open()? } else { Port::elsewhere() };
        for world in self.own + 1..self.all {
            if holds_port {
                port.publish(&name(world))?;
            }
            joined = merged(joined, false, left(), |own, limit| own.accept(&port, 0, limit))?;
            if holds_port {
                port.withdraw(&name(world))?;
            }
        }
        if holds_port {
            port.close()?;
        }
        Ok(joined)
    }
}

fn merged(
    own: Communicator,
    is_high: bool,
    limit: Duration,
    meet: impl FnOnce(&Communicator, Duration) -> Result<mpi::InterCommunicator, MpiError>,
) -> Result<Communicator, MpiError> {
    let between = meet(&own, limit)?;
    between.make_first_contact(is_high, limit)?;
    let merged = between.merge(is_high)?;
    between.disconnect()?;
    own.disconnect()?;
    Ok(merged)
}

/// Under this name the job knows the port while this world is to be joined.
fn name(world: u32) -> String {
    format!("pcm.world.{world}")
}

fn find(world: u32, deadline: Instant) -> Result<Port, AssemblyError> {
    let mut pause = LOOK_AGAIN;
    loop {
        if let Some(port) = Port::find(&name(world))? {
            return Ok(port);
        }
        if Instant::now() >= deadline {
            return Err(AssemblyError::NoPort { world });
        }
        sleep(pause);
        pause = (pause * 2).min(LOOK_AGAIN_MAX);
    }
}

impl From<MpiError> for AssemblyError {
    fn from(error: MpiError) -> Self {
        Self::Mpi(error)
    }
}

impl fmt::Display for AssemblyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the worlds of the job were not joined: ")?;
        match self {
            Self::Variable { name, value } => write!(f, "{name} is {value:?}, which is damaged")?,
            Self::Plain => match start_error::failure() {
                Some(failure) => failure.fmt(f)?,
                None => f.write_str("the process has no daemon")?,
            },
            Self::Mpi(error) => error.fmt(f)?,
            Self::NoPort { world } => write!(
                f,
                "the first world did not accept world {world} within {} s",
                JOINED_WITHIN.as_secs()
            )?,
        }
        f.write_str("; run with '--world job'")
    }
}
