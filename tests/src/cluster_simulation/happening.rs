//! Everything that can happen in a history.

use super::image::File;
use super::keeper::KeeperWord;
use super::person::Act;
use pcm_core::node::event::Event;
use pcm_core::node::requester::LinkId;
use pcm_core::node::timer::Timer;
use pcm_core::pmi::wire::Request;
use pcm_proto::app::DaemonToApp;
use pcm_proto::ids::JobId;
use pcm_proto::keeper::{ExitStatus, ProcessKey};
use pcm_proto::parked::ParkKey;
use pcm_proto::peer::DaemonToDaemon;

/// One daemon, from its start to its end. What is meant for it does not reach its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Life {
    pub(super) machine: usize,
    /// Another one for each daemon of a history.
    pub(super) number: u64,
}

/// One start of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Boot {
    pub(super) machine: usize,
    /// Counts the starts.
    pub(super) number: u32,
}

/// A process at one moment: what was to happen to it then does not count when it does something else by now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) key: ProcessKey,
    pub(super) number: u32,
}

/// Something that will happen.
#[derive(Debug)]
pub(super) enum Happening {
    MachineStarts(usize),
    DaemonStarts(Boot),
    /// A daemon that was stopped goes on.
    DaemonGoesOn(Life),
    /// A daemon that ends on purpose has said its last words.
    Farewell(Life),
    Timer {
        of: Life,
        timer: Box<Timer>,
    },
    /// Something happens to a daemon that concerns nothing else.
    Event {
        of: Life,
        event: Box<Event>,
    },
    KeeperSays {
        of: Life,
        word: Box<KeeperWord>,
    },
    /// A job's end on a node is looked at again.
    Clears {
        of: Boot,
        job: JobId,
    },
    Salvaged {
        of: Boot,
        key: ParkKey,
    },
    Net(Net),
    Rank(RankHappening),
    Store(Background),
    AgentAsks {
        of: Life,
        link: LinkId,
    },
    Act(Box<Act>),
    Fault,
    /// The disk of a node has room again.
    DiskHasRoom(usize),
    Heals,
    Inspection,
}

/// What happens between daemons.
#[derive(Debug)]
pub(super) enum Net {
    /// A message comes out of a wire.
    Arrives {
        wire: u64,
        to: Life,
        message: Box<DaemonToDaemon>,
    },
    Datagram {
        from: usize,
        to: Life,
        message: Box<DaemonToDaemon>,
    },
    /// What a cut held back goes on, if it may.
    Thaws {
        from: Life,
        to: Life,
    },
    /// A dial reaches its end, or not.
    Dialled {
        of: Life,
        to: usize,
    },
    DialFails {
        of: Life,
        to: usize,
    },
    /// The other side of a dial takes the wire.
    Accepted {
        of: Life,
        by: usize,
        wire: u64,
    },
    /// A daemon notices that a wire has ended.
    Noticed {
        of: Life,
        peer: usize,
        wire: u64,
    },
    /// A wire that was cut for long breaks.
    GivesUp(u64),
    Reunion,
}

/// What happens to a process.
#[derive(Debug)]
pub(super) enum RankHappening {
    Begins(ProcessKey),
    /// Its request is in its socket.
    Asks(ProcessKey),
    Answered {
        key: ProcessKey,
        request: Box<Request>,
        line: String,
    },
    /// What it said reaches its daemon.
    Channel(ProcessKey),
    /// What it printed reaches its daemon.
    Pipe(ProcessKey),
    /// Its daemon said something.
    Told {
        key: ProcessKey,
        message: Box<DaemonToApp>,
        file: Option<File>,
    },
    LooksUp(Turn),
    Computed(Turn),
    Tick(Turn),
    MeetingEnds {
        turn: Turn,
        is_joined: bool,
    },
    MoveEnds(Turn),
    /// It has copied its data.
    Kept(Turn),
    /// A checkpoint of all ranks is in files.
    Filed {
        turn: Turn,
        iteration: u64,
    },
    /// What it asked for may have been lost.
    AsksAgain {
        key: ProcessKey,
        number: u32,
    },
    Ends {
        key: ProcessKey,
        status: ExitStatus,
    },
}

/// Work with memory files that takes time.
#[derive(Debug)]
pub(super) enum Background {
    Summed {
        of: Life,
        work: Box<super::memory::Summing>,
    },
    Borrowed {
        of: Life,
        work: Box<super::memory::Borrowing>,
    },
    Copied {
        of: Life,
        work: Box<super::memory::Copying>,
    },
    Offered {
        of: Life,
        attempt: u64,
    },
    /// Nothing was written into memory that is on offer.
    OfferEnds {
        of: Life,
        attempt: u64,
    },
    Put {
        of: Life,
        work: Box<super::memory::Putting>,
    },
}
