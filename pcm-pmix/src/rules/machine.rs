//! The machine of one node.

use super::{
    asked::{Asked, Questions},
    collective::{Collectives, Key, Step},
    directory::{Directory, Outcome},
    event::{Answer, CollectiveCall, Effect, Event, NodeMessage, Reply, Request, Ticket, Upcall},
    namespaces::Namespaces,
};
use crate::{
    bindings::numbers::{PMIX_ERR_LOST_CONNECTION, PMIX_ERR_NOT_FOUND, PMIX_ERR_TIMEOUT},
    names::{Process, Published, Status},
};
use pcm_proto::ids::NodeName;
use pcm_proto::pmix::{Namespace, Report, Serve, SpawnCommand};
use std::{collections::BTreeMap, time::Duration};

/// How long another node may take for an answer. Open MPI itself waits 600 s at most for processes that connect.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// How long the parent may take to start processes. It gives up after 60 s by itself, and says so.
const SPAWN_MAX: Duration = Duration::from_secs(75);

/// The origin of a request to the directory or to libpmix.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asker {
    Here(Ticket),
    There { node: NodeName, number: u64 },
}

#[derive(Debug)]
pub struct Machine {
    own: NodeName,
    keeper: NodeName,
    namespaces: Namespaces,
    collectives: Collectives,
    /// In use at the node that keeps it.
    directory: Directory<Asker>,
    questions: Questions,
    /// What other nodes want of libpmix here.
    fetches: BTreeMap<u64, Asker>,
    last_fetch: u64,
    effects: Vec<Effect>,
}

impl Machine {
    pub fn new(serve: &Serve) -> Self {
        Self {
            own: serve.node.clone(),
            keeper: serve.directory.clone(),
            namespaces: Namespaces::default(),
            collectives: Collectives::new(serve.node.clone(), serve.first_context),
            directory: Directory::new(),
            questions: Questions::default(),
            fetches: BTreeMap::new(),
            last_fetch: 0,
            effects: Vec::new(),
        }
    }

    /// What an event leads to, in order.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Effect> {
        match event {
            Event::Called { ticket, upcall } => self.called(now, ticket, upcall),
            Event::Registered(namespace) => self.registered(namespace),
            Event::Forgotten { namespace } => {
                self.collectives.forget(&namespace);
                self.directory.forget(&namespace);
                self.namespaces.remove(&namespace);
            }
            Event::Ended { process } => self.ended(&process),
            Event::NodeLost { node } => self.node_lost(&node),
            Event::SpawnAnswer { number, outcome } => {
                let answer = outcome.map_or_else(Answer::Done, Answer::Spawned);
                self.answer_asked(number, answer);
            }
            Event::Fetched { number, outcome } => self.fetched(number, outcome),
            Event::FromNode { node, message } => self.heard(now, node, message),
            Event::Later => {}
        }
        self.time(now);
        std::mem::take(&mut self.effects)
    }

    /// What was reported of processes so far, for a parent that may have missed it.
    pub fn standing(&self) -> Vec<Report> {
        let (connected, finalized) = self.namespaces.seen();
        let connected = connected.iter().cloned();
        let finalized = finalized.iter().cloned();
        let connected = connected.map(|process| Report::Connected { process });
        connected
            .chain(finalized.map(|process| Report::Finalized { process }))
            .chain(self.questions.of_parent())
            .collect()
    }

    /// When `Event::Later` is due.
    pub fn due(&self) -> Option<Duration> {
        let all = [self.collectives.due(), self.directory.due(), self.questions.due()];
        all.into_iter().flatten().min()
    }

    fn time(&mut self, now: Duration) {
        let steps = self.collectives.overdue(now);
        self.carry_out(steps);
        let over = self.directory.overdue(now);
        over.into_iter().for_each(|(asker, outcome)| self.found(asker, outcome));
        let over = self.questions.overdue(now);
        self.end_all(over, PMIX_ERR_TIMEOUT);
    }

    fn called(&mut self, now: Duration, ticket: Ticket, upcall: Upcall) {
        match upcall {
            Upcall::Connected(process) => {
                self.namespaces.connected(process.clone());
                self.report(Report::Connected { process });
                self.done(ticket, Status::SUCCESS);
            }
            Upcall::Finalized(process) => {
                self.namespaces.finalized(process.clone());
                self.report(Report::Finalized { process });
                self.done(ticket, Status::SUCCESS);
            }
            Upcall::Aborted {
                process,
                status,
                message,
                victims,
            } => {
                self.report(Report::Aborted {
                    process,
                    status,
                    message,
                    victims,
                });
                self.done(ticket, Status::SUCCESS);
            }
            Upcall::Collective(call) => self.collective(now, ticket, call),
            Upcall::Modex { process, timeout } => self.modex(now, ticket, process, timeout),
            Upcall::Publish {
                publisher,
                values,
                is_read_once,
            } => {
                let request = Request::Publish {
                    publisher,
                    values,
                    is_read_once,
                };
                self.of_directory(now, ticket, request, Some(ANSWER_MAX));
            }
            Upcall::Lookup { keys, waits, timeout } => {
                let request = Request::Lookup {
                    keys,
                    waits,
                    timeout_seconds: timeout.map(|timeout| timeout.as_secs()),
                };
                // The keeper ends it in time; a lookup that waits for as long as it takes ends with the keeper.
                let patience = if waits {
                    timeout.map(|timeout| timeout.saturating_add(ANSWER_MAX))
                } else {
                    Some(ANSWER_MAX)
                };
                self.of_directory(now, ticket, request, patience);
            }
            Upcall::Unpublish { publisher, keys } => {
                self.of_directory(now, ticket, Request::Unpublish { publisher, keys }, Some(ANSWER_MAX));
            }
            Upcall::Spawn {
                process,
                commands,
                timeout,
            } => self.spawn(now, ticket, process, commands, timeout),
        }
    }

    /// Says of a namespace with processes here to the keeper. Letters of two nodes keep their order: all that these
    /// processes publish comes after it.
    fn registered(&mut self, namespace: Namespace) {
        if self.own != self.keeper {
            let known = NodeMessage::Known(namespace.clone());
            self.tell(self.keeper.clone(), known);
        }
        self.namespaces.add(namespace);
        self.spread();
    }

    fn learned(&mut self, namespace: Namespace) {
        if self.namespaces.is_known(&namespace.name) {
            return;
        }
        // One with processes here is registered by the parent, which has not done so yet.
        if namespace.ranks_on(&self.own).is_empty() {
            self.effects.push(Effect::Learn(namespace.clone()));
        }
        self.namespaces.add(namespace);
        self.spread();
    }

    /// At the keeper: each node hears of the namespaces that have no processes there, before it finds anything that
    /// their processes published.
    fn spread(&mut self) {
        if self.own == self.keeper {
            for (node, namespace) in self.namespaces.unsaid(&self.own) {
                self.tell(node, NodeMessage::Known(namespace));
            }
        }
    }

    fn collective(&mut self, now: Duration, ticket: Ticket, call: CollectiveCall) {
        let Some(nodes) = self.namespaces.nodes_of(&call.members) else {
            return self.done(ticket, Status(PMIX_ERR_NOT_FOUND));
        };
        let lost = self.namespaces.lost_among(&call.members);
        let steps = self.collectives.called(ticket, call, nodes, &lost, now);
        self.carry_out(steps);
    }

    fn modex(&mut self, now: Duration, ticket: Ticket, process: Process, timeout: Option<Duration>) {
        let node = self.namespaces.node_of(&process).cloned();
        match node {
            // Of a process here libpmix knows all that there is.
            Some(node) if node != self.own && !self.namespaces.is_lost(&process) => {
                let due = now.saturating_add(timeout.unwrap_or(ANSWER_MAX));
                let asked = Asked::NodeOf(node.clone(), process.clone());
                let number = self.questions.ask(ticket, asked, Some(due));
                let request = Request::Modex { process };
                self.tell(node, NodeMessage::Asked { number, request });
            }
            _ => self.done(ticket, Status(PMIX_ERR_NOT_FOUND)),
        }
    }

    fn spawn(
        &mut self,
        now: Duration,
        ticket: Ticket,
        process: Process,
        commands: Vec<SpawnCommand>,
        timeout: Option<Duration>,
    ) {
        let due = now.saturating_add(timeout.unwrap_or(SPAWN_MAX));
        let number = self
            .questions
            .ask(ticket, Asked::Parent(process.clone(), commands.clone()), Some(due));
        self.report(Report::SpawnAsked {
            number,
            process,
            commands,
        });
    }

    /// A request to the node that keeps what was published.
    fn of_directory(&mut self, now: Duration, ticket: Ticket, request: Request, patience: Option<Duration>) {
        if self.keeper == self.own {
            return self.kept(now, Asker::Here(ticket), request);
        }
        let keeper = self.keeper.clone();
        let due = patience.map(|patience| now.saturating_add(patience));
        let number = self.questions.ask(ticket, Asked::Node(keeper.clone()), due);
        self.tell(keeper, NodeMessage::Asked { number, request });
    }

    fn kept(&mut self, now: Duration, asker: Asker, request: Request) {
        match request {
            Request::Publish {
                publisher,
                values,
                is_read_once,
            } => {
                let (status, served) = self.directory.publish(&publisher, values, is_read_once);
                self.reply(asker, Reply::Done(status));
                served
                    .into_iter()
                    .for_each(|(asker, outcome)| self.found(asker, outcome));
            }
            Request::Lookup {
                keys,
                waits,
                timeout_seconds,
            } => {
                let due = timeout_seconds.map(|seconds| now.saturating_add(Duration::from_secs(seconds)));
                if let Some((asker, outcome)) = self.directory.look_up(asker, keys, waits, due) {
                    self.found(asker, outcome);
                }
            }
            Request::Unpublish { publisher, keys } => {
                self.directory.unpublish(&publisher, &keys);
                self.reply(asker, Reply::Done(Status::SUCCESS));
            }
            Request::Modex { process } => self.fetch(asker, process),
        }
    }

    fn fetch(&mut self, asker: Asker, process: Process) {
        let is_here = self.namespaces.node_of(&process) == Some(&self.own);
        if !is_here || self.namespaces.is_lost(&process) {
            return self.reply(asker, Reply::Done(Status(PMIX_ERR_NOT_FOUND)));
        }
        self.last_fetch += 1;
        let number = self.last_fetch;
        self.fetches.insert(number, asker);
        self.effects.push(Effect::Fetch { number, process });
    }

    fn fetched(&mut self, number: u64, outcome: Result<Vec<u8>, Status>) {
        if let Some(asker) = self.fetches.remove(&number) {
            self.reply(asker, outcome.map_or_else(Reply::Done, Reply::Data));
        }
    }

    fn heard(&mut self, now: Duration, node: NodeName, message: NodeMessage) {
        match message {
            NodeMessage::In {
                kind,
                members,
                round,
                data,
                local,
            } => {
                let lost = self.namespaces.lost_among(&members);
                let key = Key::new(kind, members, round);
                let steps = self.collectives.came_in(node, key, data, local, &lost);
                self.carry_out(steps);
            }
            NodeMessage::Out {
                kind,
                members,
                round,
                outcome,
            } => {
                let steps = self.collectives.went_out(&Key::new(kind, members, round), outcome);
                self.carry_out(steps);
            }
            NodeMessage::Asked { number, request } => self.kept(now, Asker::There { node, number }, request),
            NodeMessage::Replied { number, reply } => {
                let answer = match reply {
                    Reply::Done(status) => Answer::Done(status),
                    Reply::Found(found) => Answer::Found(found),
                    Reply::Data(data) => Answer::Data(data),
                };
                self.answer_asked(number, answer);
            }
            NodeMessage::Lost { process } => {
                self.lost(&process);
            }
            NodeMessage::Known(namespace) => self.learned(namespace),
        }
    }

    /// A process of this node is over; that is a loss unless it was done with MPI.
    fn ended(&mut self, process: &Process) {
        if !self.lost(process) {
            return;
        }
        for node in self.namespaces.others(&self.own) {
            let process = process.clone();
            self.tell(node, NodeMessage::Lost { process });
        }
    }

    fn node_lost(&mut self, node: &NodeName) {
        for process in self.namespaces.on(node) {
            self.lost(&process);
        }
        let steps = self.collectives.node_lost(node);
        self.carry_out(steps);
        let ended = self.questions.node_lost(node);
        self.end_all(ended, PMIX_ERR_LOST_CONNECTION);
        let is_gone = |asker: &Asker| matches!(asker, Asker::There { node: of, .. } if of == node);
        self.directory.drop_askers(is_gone);
        self.fetches.retain(|_, asker| !is_gone(asker));
    }

    /// Whether it is news that a process is lost.
    fn lost(&mut self, process: &Process) -> bool {
        if !self.namespaces.is_lost_now(process) {
            return false;
        }
        self.effects.push(Effect::Announce { lost: process.clone() });
        let namespaces = &self.namespaces;
        let steps = self.collectives.recheck(|members| namespaces.lost_among(members));
        self.carry_out(steps);
        let ended = self.questions.process_lost(process);
        self.end_all(ended, PMIX_ERR_LOST_CONNECTION);
        true
    }

    fn carry_out(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Answer { ticket, outcome } => {
                    let answer = outcome.map_or_else(Answer::Done, Answer::Collected);
                    self.effects.push(Effect::Answer { ticket, answer });
                }
                Step::Tell { node, message } => self.tell(node, message),
            }
        }
    }

    fn found(&mut self, asker: Asker, outcome: Outcome) {
        let reply: Reply = outcome.map_or_else(Reply::Done, |found: Vec<Published>| Reply::Found(found));
        self.reply(asker, reply);
    }

    fn reply(&mut self, asker: Asker, reply: Reply) {
        match asker {
            Asker::There { node, number } => self.tell(node, NodeMessage::Replied { number, reply }),
            Asker::Here(ticket) => {
                let answer = match reply {
                    Reply::Done(status) => Answer::Done(status),
                    Reply::Found(found) => Answer::Found(found),
                    Reply::Data(data) => Answer::Data(data),
                };
                self.effects.push(Effect::Answer { ticket, answer });
            }
        }
    }

    fn answer_asked(&mut self, number: u64, answer: Answer) {
        if let Some(ticket) = self.questions.answered(number) {
            self.effects.push(Effect::Answer { ticket, answer });
        }
    }

    fn end_all(&mut self, tickets: Vec<Ticket>, status: i32) {
        tickets.into_iter().for_each(|ticket| self.done(ticket, Status(status)));
    }

    fn done(&mut self, ticket: Ticket, status: Status) {
        let answer = Answer::Done(status);
        self.effects.push(Effect::Answer { ticket, answer });
    }

    fn report(&mut self, report: Report) {
        self.effects.push(Effect::Report(report));
    }

    fn tell(&mut self, node: NodeName, message: NodeMessage) {
        self.effects.push(Effect::Tell { node, message });
    }
}

#[cfg(test)]
mod tests;
