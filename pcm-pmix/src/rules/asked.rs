//! What this node asked another for, or its parent, and has no answer to yet: each question has a deadline, and ends
//! with the node that was asked.

use super::event::Ticket;
use crate::names::Process;
use pcm_proto::{
    ids::NodeName,
    pmix::{Report, SpawnCommand},
};
use std::{collections::BTreeMap, time::Duration};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Node(NodeName),
    /// The node of a process that may end before the node does.
    NodeOf(NodeName, Process),
    /// The parent, for what a process wants started.
    Parent(Process, Vec<SpawnCommand>),
}

#[derive(Debug)]
struct Question {
    ticket: Ticket,
    asked: Asked,
    due: Option<Duration>,
}

#[derive(Debug, Default)]
pub(super) struct Questions {
    last: u64,
    open: BTreeMap<u64, Question>,
}

impl Questions {
    /// The number of a new question.
    pub(super) fn ask(&mut self, ticket: Ticket, asked: Asked, due: Option<Duration>) -> u64 {
        self.last += 1;
        self.open.insert(self.last, Question { ticket, asked, due });
        self.last
    }

    /// The call that waits for this answer, unless its time is over.
    pub(super) fn answered(&mut self, number: u64) -> Option<Ticket> {
        self.open.remove(&number).map(|question| question.ticket)
    }

    pub(super) fn overdue(&mut self, now: Duration) -> Vec<Ticket> {
        self.take(|question| question.due.is_some_and(|due| due <= now))
    }

    pub(super) fn node_lost(&mut self, node: &NodeName) -> Vec<Ticket> {
        self.take(|question| match &question.asked {
            Asked::Node(asked) | Asked::NodeOf(asked, _) => asked == node,
            Asked::Parent(..) => false,
        })
    }

    pub(super) fn process_lost(&mut self, lost: &Process) -> Vec<Ticket> {
        self.take(|question| matches!(&question.asked, Asked::NodeOf(_, process) if process == lost))
    }

    /// What the parent was asked, for one that may have missed it.
    pub(super) fn of_parent(&self) -> Vec<Report> {
        let asked = self.open.iter().filter_map(|(number, question)| match &question.asked {
            Asked::Parent(process, commands) => Some(Report::SpawnAsked {
                number: *number,
                process: process.clone(),
                commands: commands.clone(),
            }),
            Asked::Node(_) | Asked::NodeOf(..) => None,
        });
        asked.collect()
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.open.values().filter_map(|question| question.due).min()
    }

    fn take(&mut self, is_meant: impl Fn(&Question) -> bool) -> Vec<Ticket> {
        let taken = self.open.extract_if(.., |_, question| is_meant(question));
        taken.map(|(_, question)| question.ticket).collect()
    }
}
