//! A small MPI: ranks with programs, messages in order, collectives by their number. It can be stopped anywhere and
//! shows what the pages of real ranks would show.

use pcm_proto::ids::{Bytes, NodeName, ProcessId, Rank};
use pcm_proto::rank_snapshot::{CallLook, CollectiveLook, PeerLook, RankLook, SendLook, Stage};
use pcm_proto::record::JOB;
use std::collections::BTreeSet;

/// One call of a program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    Send { to: u32, tag: i32 },
    Ssend { to: u32, tag: i32 },
    Recv { from: u32, tag: i32 },
    Barrier,
    Bcast { root: u32 },
    Allreduce { bytes: u64 },
}

#[derive(Clone, Debug)]
struct Process {
    program: Vec<Op>,
    at: usize,
    is_begun: bool,
    collectives: Vec<Op>,
    /// Messages sent and not yet taken: to, tag, whether its sender waits for it.
    sent: Vec<(u32, i32)>,
    sends: Vec<(u32, i32)>,
    posted: Vec<u32>,
}

/// See the file head.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    processes: Vec<Process>,
}

impl Model {
    pub(crate) fn new(programs: Vec<Vec<Op>>) -> Self {
        let process = |program| Process {
            program,
            at: 0,
            is_begun: false,
            collectives: Vec::new(),
            sent: Vec::new(),
            sends: Vec::new(),
            posted: Vec::new(),
        };
        Self {
            processes: programs.into_iter().map(process).collect(),
        }
    }

    /// One step of each rank named, as far as it can go.
    pub(crate) fn run(&mut self, schedule: &[usize]) {
        for rank in schedule {
            self.step(rank % self.processes.len());
        }
    }

    /// Until nobody can go on.
    pub(crate) fn run_to_end(&mut self) {
        loop {
            let moved = (0..self.processes.len()).filter(|rank| self.step(*rank)).count();
            if moved == 0 {
                return;
            }
        }
    }

    /// Ranks inside a call they cannot end now.
    pub(crate) fn blocked(&self) -> BTreeSet<u32> {
        let ranks = 0..self.processes.len();
        ranks
            .filter(|rank| self.is_blocked(*rank))
            .map(|rank| rank as u32)
            .collect()
    }

    fn is_blocked(&self, rank: usize) -> bool {
        self.processes[rank].is_begun && !self.can_end(rank)
    }

    fn step(&mut self, rank: usize) -> bool {
        let process = &mut self.processes[rank];
        let Some(op) = process.program.get(process.at).cloned() else {
            return false;
        };
        if !process.is_begun {
            process.is_begun = true;
            match &op {
                Op::Send { to, tag } | Op::Ssend { to, tag } => {
                    process.sent.push((*to, *tag));
                    process.sends.push((*to, *tag));
                }
                Op::Recv { from, .. } => process.posted.push(*from),
                collective => process.collectives.push(collective.clone()),
            }
            return true;
        }
        if !self.can_end(rank) {
            return false;
        }
        if let Op::Recv { from, tag } = op {
            let sent = &mut self.processes[from as usize].sent;
            let place = sent.iter().position(|message| *message == (rank as u32, tag)).unwrap();
            sent.remove(place);
        }
        self.processes[rank].is_begun = false;
        self.processes[rank].at += 1;
        true
    }

    fn can_end(&self, rank: usize) -> bool {
        let process = &self.processes[rank];
        let own = rank as u32;
        match &process.program[process.at] {
            Op::Send { .. } => true,
            // Its own message is the last one it sent.
            Op::Ssend { to, tag } => {
                let open = process.sent.iter().filter(|message| **message == (*to, *tag)).count();
                open == 0 || (open == 1 && self.is_receiving(*to, own, *tag))
            }
            Op::Recv { from, tag } => self.processes[*from as usize].sent.contains(&(own, *tag)),
            op => {
                let number = process.collectives.len() - 1;
                let is_same = |other: &Process| other.collectives.get(number) == Some(op);
                match op {
                    Op::Bcast { root } => *root == own || is_same(&self.processes[*root as usize]),
                    _ => self.processes.iter().all(is_same),
                }
            }
        }
    }

    fn is_receiving(&self, rank: u32, from: u32, tag: i32) -> bool {
        let process = &self.processes[rank as usize];
        process.is_begun && process.program[process.at] == Op::Recv { from, tag }
    }

    /// Two looks, between which every rank that can go on did so.
    pub(crate) fn looks(&self) -> (Vec<RankLook>, Vec<RankLook>) {
        let second: Vec<RankLook> = (0..self.processes.len()).map(|rank| self.look(rank)).collect();
        let mut first = second.clone();
        for (rank, look) in first.iter_mut().enumerate() {
            if !self.is_blocked(rank) {
                look.calls = look.calls.wrapping_sub(1);
            }
        }
        (first, second)
    }

    fn look(&self, rank: usize) -> RankLook {
        let process = &self.processes[rank];
        let is_finished = process.at == process.program.len();
        let peers = (0..self.processes.len() as u32).map(|peer| PeerLook {
            peer,
            messages_sent: process.sends.iter().filter(|(to, _)| *to == peer).count() as u64,
            bytes_sent: 0,
            receives_posted: process.posted.iter().filter(|from| **from == peer).count() as u64,
        });
        let sends = process.sends.iter().map(|(to, tag)| SendLook {
            communicator: JOB,
            peer: *to as i32,
            tag: *tag,
            bytes: Bytes(8),
        });
        let collectives = (1..).zip(&process.collectives).map(|(sequence, op)| {
            let (function, root, bytes) = words(op);
            CollectiveLook {
                communicator: JOB,
                sequence,
                function: function.to_owned(),
                root,
                bytes: Bytes(bytes),
            }
        });
        RankLook {
            rank: Rank(rank as u32),
            process: ProcessId(rank as u32),
            node: NodeName::new("n0").unwrap(),
            stage: if is_finished { Stage::Finished } else { Stage::Running },
            calls: process.at as u64 * 2 + u64::from(process.is_begun),
            call: process.is_begun.then(|| call(&process.program[process.at])),
            collectives: collectives.collect(),
            sends: sends.collect(),
            communicators: Vec::new(),
            from_anybody: 0,
            peers: peers.collect(),
            peers_left_out: 0,
            apart: Vec::new(),
            apart_left_out: 0,
        }
    }
}

fn words(op: &Op) -> (&'static str, Option<i32>, u64) {
    match op {
        Op::Send { .. } => ("Send", None, 8),
        Op::Ssend { .. } => ("Ssend", None, 8),
        Op::Recv { .. } => ("Recv", None, 8),
        Op::Barrier => ("Barrier", None, 0),
        Op::Bcast { root } => ("Bcast", Some(*root as i32), 8),
        Op::Allreduce { bytes } => ("Allreduce", None, *bytes),
    }
}

fn call(op: &Op) -> CallLook {
    let (function, root, bytes) = words(op);
    let (peer, tag) = match op {
        Op::Send { to, tag } | Op::Ssend { to, tag } => (Some(*to as i32), Some(*tag)),
        Op::Recv { from, tag } => (Some(*from as i32), Some(*tag)),
        _ => (root, None),
    };
    CallLook {
        function: function.to_owned(),
        peer,
        tag,
        bytes: Bytes(bytes),
        communicator: JOB,
        since_ms: 1500.0,
    }
}
