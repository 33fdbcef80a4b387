//! The meeting: processes of the present layout and the newcomers' worlds become one transfer communicator, and the
//! ranks of the next layout get their communicator. Joins only processes that have all said that they are here; every
//! join has a limit. Never moves data, never decides.

use crate::interpose::traits::mpi_name;
use crate::mpi::{Communicator, InterCommunicator, MpiError, Port, SeparateGroups, Transport};
use cpu_turns::TurnEnder;
use pcm_core::reconfiguration::seat::Seat;
use pcm_proto::method::Management;
use pcm_proto::reconfiguration::{MeetOrder, MeetingWorld, Trouble};
use std::{fmt, time::Duration};

/// For one world to be joined. It takes 0.3 to 20 ms; a loaded machine gets much more, and yet the report of a failure
/// reaches the daemon before its own deadline for the meeting.
const JOIN_LIMIT: Duration = Duration::from_secs(6);

/// Between the port of a world and the name of its MPI; no port has a second line.
const MPI_FOLLOWS: char = '\n';

/// Processes that have met.
#[derive(Debug)]
pub(super) struct Meeting {
    /// Everybody: old ranks, then the worlds in their order.
    transfer: Joined,
    /// The next layout's ranks, if this process is one.
    pub(super) next: Option<Communicator>,
    /// What was made on the way.
    links: Vec<Link>,
}

/// What connects everybody.
#[derive(Debug)]
enum Joined {
    Merged(Communicator),
    Separate(SeparateGroups),
}

#[derive(Debug)]
enum Link {
    Between(InterCommunicator),
    Whole(Communicator),
}

/// Why processes could not be joined. Nothing else has changed.
#[derive(Debug)]
pub(super) enum MeetError {
    /// MPI says so.
    Mpi(MpiError),
    /// The order does not name this process.
    NotNamed,
    /// The order names no port of a world, or one that is no text of C.
    NoPort { world: u32 },
    /// Processes that join have another MPI, which these would not understand.
    OtherMpi { old: String, new: String },
}

impl MeetError {
    /// Another MPI helps no relaunch either: ranks of both could start, and could not go on.
    pub(super) fn trouble(&self) -> Trouble {
        match self {
            Self::OtherMpi { .. } => Trouble::Program,
            _ => Trouble::Joining,
        }
    }
}

impl From<MpiError> for MeetError {
    fn from(error: MpiError) -> Self {
        Self::Mpi(error)
    }
}

/// How a process comes to the meeting.
pub(super) struct Attendant<'a> {
    /// Its place before the change.
    pub(super) seat: Seat,
    /// The job's communicator; the own world for a newcomer.
    pub(super) own: &'a Communicator,
    /// The port its world opened, where it is the one that did.
    pub(super) port: Option<&'a Port>,
}

/// Joins. Every process that the order names does the same.
pub(super) fn meet(attendant: &Attendant<'_>, order: &MeetOrder) -> Result<Meeting, MeetError> {
    let _errors = attendant.own.errors_returned();
    check_mpis(attendant.seat, order)?;
    attendant.seat.transfer_rank(order).ok_or(MeetError::NotNamed)?;
    if let (Management::Baseline, [world]) = (order.method.management, order.worlds.as_slice()) {
        return meet_apart(attendant, order, world);
    }
    let mut links = Vec::new();
    let mut whole = match attendant.seat {
        Seat::Member(_) if order.worlds.is_empty() => Some(for_all(attendant.own)?),
        Seat::Member(_) | Seat::Newcomer { .. } => None,
    };
    let mut is_inside = matches!(attendant.seat, Seat::Member(_));
    for world in &order.worlds {
        let is_own = matches!(attendant.seat, Seat::Newcomer { world: own, .. } if own == world.world);
        if !is_inside && !is_own {
            continue;
        }
        let group = whole.as_ref().unwrap_or(attendant.own);
        let between = join(attendant, group, world, is_own)?;
        let merged = between.merge(is_own)?;
        links.push(Link::Between(between));
        links.extend(whole.replace(merged).map(Link::Whole));
        is_inside = true;
    }
    let transfer = whole.ok_or(MeetError::NotNamed)?;
    let next = transfer.create(&order.order)?;
    let transfer = Joined::Merged(transfer);
    Ok(Meeting { transfer, next, links })
}

/// The sides stay apart: the old ranks all leave, and the world of newcomers has every rank of the next layout.
fn meet_apart(attendant: &Attendant<'_>, order: &MeetOrder, world: &MeetingWorld) -> Result<Meeting, MeetError> {
    let is_old = matches!(attendant.seat, Seat::Member(_));
    let own = for_all(attendant.own)?;
    let between = join(attendant, attendant.own, world, !is_old)?;
    let in_world = || order.order.iter().map(|rank| rank.saturating_sub(order.old_size));
    let next = match is_old {
        true => None,
        false => own.create(&in_world().collect::<Vec<_>>())?,
    };
    let transfer = Joined::Separate(SeparateGroups::new(own, between, is_old)?);
    let links = Vec::new();
    Ok(Meeting { transfer, next, links })
}

/// How a world that joins is found: its port, and which MPI opened it. Ranks that open none say which they have.
pub(super) fn address(port: Option<&Port>) -> String {
    let port = port.map(Port::name).unwrap_or_default();
    format!("{port}{MPI_FOLLOWS}{}", mpi_name())
}

/// Each side looks at the other: with another MPI neither would understand what it connects to.
fn check_mpis(seat: Seat, order: &MeetOrder) -> Result<(), MeetError> {
    let own = mpi_name();
    let is_newcomer = matches!(seat, Seat::Newcomer { .. });
    let worlds = order.worlds.iter().map(|world| &world.port).filter(|_| !is_newcomer);
    let mut said = worlds.chain(is_newcomer.then_some(&order.port));
    let theirs = said.find_map(|said| {
        let (_, theirs) = said.split_once(MPI_FOLLOWS)?;
        (theirs != own).then(|| theirs.to_owned())
    });
    match theirs {
        None => Ok(()),
        Some(theirs) if is_newcomer => Err(MeetError::OtherMpi { old: theirs, new: own }),
        Some(theirs) => Err(MeetError::OtherMpi { old: own, new: theirs }),
    }
}

/// Connects `group` with a world, or the world with whoever comes.
fn join(
    attendant: &Attendant<'_>,
    group: &Communicator,
    world: &MeetingWorld,
    is_own: bool,
) -> Result<InterCommunicator, MeetError> {
    let between = connect(attendant, group, world, is_own)?;
    between.make_first_contact(!is_own, JOIN_LIMIT)?;
    Ok(between)
}

fn connect(
    attendant: &Attendant<'_>,
    group: &Communicator,
    world: &MeetingWorld,
    is_own: bool,
) -> Result<InterCommunicator, MeetError> {
    let no_port = || MeetError::NoPort { world: world.world.0 };
    // While MPI connects, two processes spin without ever yielding: on one CPU each message between them took a tick.
    // Nothing sleeps there: sleeps would be interrupted over and over.
    let _turns = TurnEnder::begin();
    if is_own {
        // Only the process that opened the port needs its name.
        let port = attendant.port.cloned();
        let port = port.map_or_else(|| Port::named("").map_err(|_| no_port()), Ok)?;
        Ok(attendant.own.accept(&port, 0, JOIN_LIMIT)?)
    } else {
        let (port, _) = world.port.split_once(MPI_FOLLOWS).ok_or_else(no_port)?;
        let port = Port::named(port).map_err(|_| no_port())?;
        Ok(group.connect(&port, 0, JOIN_LIMIT)?)
    }
}

/// The same processes with a traffic of their own. Unlike a duplicate it has none of the application's attributes.
fn for_all(communicator: &Communicator) -> Result<Communicator, MeetError> {
    let ranks: Vec<u32> = (0..communicator.size()?).collect();
    communicator.create(&ranks)?.ok_or(MeetError::NotNamed)
}

impl Meeting {
    /// What the data moves over.
    pub(super) fn transfer(&self) -> &dyn Transport {
        match &self.transfer {
            Joined::Merged(communicator) => communicator,
            Joined::Separate(groups) => groups,
        }
    }

    /// Ends everything but the next layout's communicator, which is returned.
    pub(super) fn part(self) -> Result<Option<Communicator>, MpiError> {
        let mut outcome = match self.transfer {
            Joined::Merged(communicator) => communicator.disconnect(),
            Joined::Separate(groups) => groups.disconnect(),
        };
        for link in self.links.into_iter().rev() {
            let ended = match link {
                Link::Between(between) => between.disconnect(),
                Link::Whole(whole) => whole.disconnect(),
            };
            outcome = outcome.and(ended);
        }
        outcome.map(|()| self.next)
    }
}

impl fmt::Display for MeetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mpi(error) => error.fmt(f),
            Self::NotNamed => f.write_str("the call to the meeting does not name this process; this is a defect"),
            Self::OtherMpi { old, new } => write!(
                f,
                "the ranks have {old}, and processes that join them {new}; give all the same with 'run --mpi-lib' \
                 or PCM_MPI"
            ),
            Self::NoPort { world } => write!(f, "no port of world {world} is known; this is a defect"),
        }
    }
}
