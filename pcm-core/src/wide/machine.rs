//! Carries out the schedules of all ranks, one step at a time in any order that they allow.

use super::schedule::{Act, Buffer, Schedule, Span};
use super::sites::Sites;
use std::collections::{BTreeMap, VecDeque};

/// A word is an element; words combine by being written one after the other.
pub(super) type Element = String;

pub(super) struct Rank {
    pub(super) schedule: Schedule,
    pub(super) send: Vec<Element>,
    pub(super) receive: Vec<Element>,
}

pub(super) struct Outcome {
    pub(super) receive: Vec<Vec<Element>>,
    /// Messages and elements from one site to another.
    pub(super) crossed: BTreeMap<(usize, usize), (usize, usize)>,
    /// Slow links one after the other on the longest way.
    pub(super) depth: usize,
}

struct State {
    done: Vec<bool>,
    /// Slow links that each step has behind it.
    depth: Vec<usize>,
    scratch: Vec<Vec<Element>>,
}

impl State {
    fn new(schedule: &Schedule) -> Self {
        let scratch = schedule.scratch.iter();
        Self {
            done: vec![false; schedule.steps.len()],
            depth: vec![0; schedule.steps.len()],
            scratch: scratch.map(|count| vec![String::from("?"); *count]).collect(),
        }
    }
}

/// Words, and slow links that they have behind them.
type Message = (Vec<Element>, usize);

struct Machine<'a> {
    sites: &'a Sites,
    ranks: Vec<Rank>,
    states: Vec<State>,
    /// Messages under way: by receiver, sender and key.
    network: BTreeMap<(usize, u32, u32), VecDeque<Message>>,
    crossed: BTreeMap<(usize, usize), (usize, usize)>,
}

pub(super) fn run(sites: &Sites, ranks: Vec<Rank>, mut random: impl FnMut(usize) -> usize) -> Outcome {
    let mut machine = Machine {
        sites,
        states: ranks.iter().map(|rank| State::new(&rank.schedule)).collect(),
        ranks,
        network: BTreeMap::new(),
        crossed: BTreeMap::new(),
    };
    loop {
        let ready = machine.ready();
        if ready.is_empty() {
            return machine.end();
        }
        let (rank, number) = ready[random(ready.len())];
        machine.take(rank, number);
    }
}

impl Machine<'_> {
    /// Steps that may be taken.
    fn ready(&self) -> Vec<(usize, usize)> {
        let mut ready = Vec::new();
        for (rank, state) in self.states.iter().enumerate() {
            for (number, step) in self.ranks[rank].schedule.steps.iter().enumerate() {
                assert!(step.after.iter().all(|at| at.0 < number), "{step:?}");
                let may = step.after.iter().all(|at| state.done[at.0]);
                let has_come = match step.act {
                    Act::Receive { from, key, .. } => {
                        let waiting = self.network.get(&(rank, from, key));
                        waiting.is_some_and(|waiting| !waiting.is_empty())
                    }
                    _ => true,
                };
                if !state.done[number] && may && has_come {
                    ready.push((rank, number));
                }
            }
        }
        ready
    }

    fn take(&mut self, rank: usize, number: usize) {
        let step = self.ranks[rank].schedule.steps[number].clone();
        let behind = step.after.iter().map(|at| self.states[rank].depth[at.0]).max();
        let mut depth = behind.unwrap_or(0);
        match step.act {
            Act::Send { to, from, key } => {
                let words = self.read(rank, from);
                let (here, there) = (self.sites.of(rank as u32), self.sites.of(to));
                if here != there {
                    let sum = self.crossed.entry((here, there)).or_default();
                    *sum = (sum.0 + 1, sum.1 + words.len());
                }
                let depth = depth + usize::from(here != there);
                let waiting = self.network.entry((to as usize, rank as u32, key)).or_default();
                waiting.push_back((words, depth));
            }
            Act::Receive { from, into, key } => {
                let waiting = self.network.get_mut(&(rank, from, key)).expect("a message");
                assert!(waiting.len() == 1, "two messages of one key");
                let (words, came) = waiting.pop_front().expect("a message");
                assert_eq!(words.len(), into.count, "{step:?}");
                depth = depth.max(came);
                self.write(rank, into, words);
            }
            Act::Copy { from, into } => {
                assert_eq!(from.count, into.count);
                self.write(rank, into, self.read(rank, from));
            }
            Act::Combine { from, into } => {
                assert_eq!(from.count, into.count);
                let pairs = self.read(rank, from).into_iter().zip(self.read(rank, into));
                self.write(rank, into, pairs.map(|(first, second)| first + &second).collect());
            }
        }
        self.states[rank].done[number] = true;
        self.states[rank].depth[number] = depth;
    }

    fn end(self) -> Outcome {
        for (rank, state) in self.states.iter().enumerate() {
            let open = (0..state.done.len()).find(|step| !state.done[*step]);
            let steps = &self.ranks[rank].schedule.steps;
            assert!(
                open.is_none(),
                "rank {rank} waits in {:?}",
                open.map(|open| &steps[open])
            );
        }
        let is_quiet = self.network.values().all(VecDeque::is_empty);
        assert!(is_quiet, "messages that no rank wants: {:?}", self.network);
        let depths = self.states.iter().flat_map(|state| state.depth.iter().copied());
        Outcome {
            depth: depths.max().unwrap_or(0),
            receive: self.ranks.into_iter().map(|rank| rank.receive).collect(),
            crossed: self.crossed,
        }
    }

    fn read(&self, rank: usize, span: Span) -> Vec<Element> {
        let memory = match span.buffer {
            Buffer::Send => &self.ranks[rank].send,
            Buffer::Receive => &self.ranks[rank].receive,
            Buffer::Scratch(number) => &self.states[rank].scratch[number],
        };
        memory[span.first..span.first + span.count].to_vec()
    }

    fn write(&mut self, rank: usize, span: Span, words: Vec<Element>) {
        let memory = match span.buffer {
            Buffer::Send => panic!("what the caller gave is written over: {span:?}"),
            Buffer::Receive => &mut self.ranks[rank].receive,
            Buffer::Scratch(number) => &mut self.states[rank].scratch[number],
        };
        memory[span.first..span.first + span.count].clone_from_slice(&words);
    }
}
