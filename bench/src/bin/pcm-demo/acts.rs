//! What happens in the demo while its job runs: tables are shown, a node joins and the job grows onto it, a rank moves.
//! One act at a time, beside the progress line.

use crate::show::show;
use pcm_bench::{Failure, OwnCluster, trial};
use std::{
    process::Command,
    sync::mpsc::{self, Receiver, TryRecvError},
    thread,
    time::Duration,
};

/// Longer than the deadlines of a change together with a loaded machine.
const CHANGE_MAX: Duration = Duration::from_secs(60);

/// One thing that happens, once so many hundredths of the iterations are done.
struct Act {
    at_percent: u64,
    /// Said when it begins; empty for the tables.
    heading: &'static str,
    /// What the job is from then on, for the summary.
    result: &'static str,
    commands: &'static [&'static [&'static str]],
}

const ACTS: [Act; 3] = [
    Act {
        at_percent: 10,
        heading: "",
        result: "",
        commands: &[],
    },
    Act {
        at_percent: 30,
        heading: "a node joins, the job grows onto it",
        result: "4 ranks on 4 nodes",
        commands: &[
            &["join", "n3"],
            &["expand", "demo", "--to", "4", "--nodes", "n3"],
            &["ps", "demo"],
        ],
    },
    Act {
        at_percent: 60,
        heading: "n0 is wanted back: its rank moves to n1",
        result: "4 ranks on 3 nodes",
        commands: &[&["migrate", "demo", "--rank", "0", "--to", "n1"], &["ps", "demo"]],
    },
];

/// What became of looking after the acts once.
pub(super) enum News {
    Same,
    /// An act has begun.
    Begun(&'static str),
    /// An act is over; what its commands said.
    Done(&'static str, String),
}

/// The acts that are still to come, and the one under way.
pub(super) struct Acts {
    next: usize,
    under_way: Option<Receiver<Result<String, Failure>>>,
}

impl Acts {
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            under_way: None,
        }
    }

    /// Goes on with what is due after `done` of `all` iterations.
    pub(super) fn look(&mut self, cluster: &OwnCluster<'_>, done: u64, all: u64) -> Result<News, Failure> {
        let Some(act) = ACTS.get(self.next) else {
            return Ok(News::Same);
        };
        if let Some(outcome) = &self.under_way {
            let said = match outcome.try_recv() {
                Ok(outcome) => outcome?,
                Err(TryRecvError::Empty) => return Ok(News::Same),
                Err(TryRecvError::Disconnected) => String::new(),
            };
            self.under_way = None;
            self.next += 1;
            return Ok(News::Done(act.result, said));
        }
        if done * 100 < all * act.at_percent {
            return Ok(News::Same);
        }
        if act.commands.is_empty() {
            self.next += 1;
            show(cluster.pcmctl(&["nodes"]), None)?;
            show(cluster.pcmctl(&["ps", "demo"]), None)?;
            return Ok(News::Same);
        }
        let commands = act.commands.iter().map(|arguments| cluster.pcmctl(arguments)).collect();
        self.under_way = Some(begin(commands));
        Ok(News::Begun(act.heading))
    }

    /// Whether the job ended before everything had happened.
    pub(super) fn is_incomplete(&self) -> bool {
        self.next < ACTS.len()
    }
}

/// Runs commands one after the other until one fails; what they said comes when all is over.
fn begin(commands: Vec<Command>) -> Receiver<Result<String, Failure>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let said = commands
            .into_iter()
            .map(|command| trial::run("demo", command, CHANGE_MAX))
            .collect::<Result<Vec<String>, Failure>>();
        // Nobody waits any more when the demo was interrupted.
        let _ = sender.send(said.map(|said| said.concat()));
    });
    receiver
}
