//! Every short life of a job with two custom regions and a per-rank value, without MPI: which hooks run, on which ranks
//! and in which order, compared with "When hooks run" in `docs/guide-data.md`.

use super::{NextLayout, leg::LegBytes, parcel_move::ParcelMove};
use crate::park::{Image, Relaunched, RestoreError, Source, restore};
use crate::region::{CustomHooks, Delivered, Home, HookFailed, PerRankHooks, Registry, Value};
use pcm_core::parked::BlockSet;
use pcm_proto::ids::{ProcessId, Rank};
use std::{cell::RefCell, collections::BTreeMap, fs::File, rc::Rc};

/// What a process was asked, in the order of the calls.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Call {
    Targets(&'static str, u32),
    Pack(&'static str, u32),
    Unpack(&'static str, Vec<u32>),
    Split,
    Merge,
}

type Calls = Rc<RefCell<Vec<Call>>>;

/// One region goes to all new ranks, the other where its block goes.
struct Recorded {
    name: &'static str,
    goes_to_all: bool,
    calls: Calls,
}

impl CustomHooks for Recorded {
    fn targets(&mut self, from: u32, _: u32, ranks_after: u32) -> Option<Vec<u32>> {
        self.calls.borrow_mut().push(Call::Targets(self.name, from));
        self.goes_to_all.then(|| (0..ranks_after).collect())
    }

    fn pack(&mut self, to: u32, _: u32, out: &mut Vec<u8>) -> Result<(), HookFailed> {
        self.calls.borrow_mut().push(Call::Pack(self.name, to));
        out.push(7);
        Ok(())
    }

    fn unpack(&mut self, parts: &[Delivered<'_>]) -> Result<(), HookFailed> {
        assert!(parts.iter().all(|part| part.bytes == [7]));
        let from = parts.iter().map(|part| part.from).collect();
        self.calls.borrow_mut().push(Call::Unpack(self.name, from));
        Ok(())
    }
}

const REGIONS: [(&str, bool); 2] = [("first", true), ("second", false)];

/// What each rank begins with; shares and sums keep the total.
const COUNT: u8 = 12;

struct Process {
    registry: Registry,
    calls: Calls,
}

fn process(rank: u32, size: u32) -> Process {
    let calls = Calls::default();
    let mut registry = Registry::new(Home {
        rank,
        size,
        ranks_here: 1,
        is_first: true,
    });
    let custom = |registry: &mut Registry, (name, goes_to_all)| {
        let calls = Rc::clone(&calls);
        let hooks = Recorded {
            name,
            goes_to_all,
            calls,
        };
        registry.custom(name, Box::new(hooks)).unwrap();
    };
    custom(&mut registry, REGIONS[0]);
    let (of_merge, of_split) = (Rc::clone(&calls), Rc::clone(&calls));
    let hooks = PerRankHooks {
        merge: Some(Box::new(move |into, other| {
            of_merge.borrow_mut().push(Call::Merge);
            into[0] += other[0];
            Ok(())
        })),
        split: Some(Box::new(move |from, to, left| {
            of_split.borrow_mut().push(Call::Split);
            to[0] = from[0] / (left as u8 + 1);
            from[0] -= to[0];
            Ok(())
        })),
    };
    let count = Value::owned([COUNT].as_slice());
    registry.per_rank("count", count, hooks).unwrap();
    custom(&mut registry, REGIONS[1]);
    registry.start().unwrap();
    Process { registry, calls }
}

/// Images of the old ranks.
struct Images(Vec<File>);

impl Source for Images {
    fn blocks(&mut self, rank: Rank, _: &BlockSet) -> Result<File, RestoreError> {
        Ok(self.0[rank.0 as usize].try_clone().unwrap())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The program's next own step.
    Step,
    /// A live change to so many ranks.
    Change(u32),
    /// One that is not made.
    Aborted(u32),
    /// Another process takes the place of rank 0.
    Move,
    Checkpoint,
    Relaunch(u32),
    /// One that is not made.
    RelaunchDropped(u32),
    /// All ranks are started again from their last checkpoint.
    Crash,
}

const EVENTS: [Event; 10] = [
    Event::Step,
    Event::Change(1),
    Event::Change(3),
    Event::Aborted(1),
    Event::Aborted(3),
    Event::Move,
    Event::Checkpoint,
    Event::Relaunch(3),
    Event::RelaunchDropped(1),
    Event::Crash,
];

/// What the guide says that each process is asked in a life's next event. Old ranks first, then those that are new.
type Wanted = Vec<Vec<Call>>;

fn asked_for_targets(name: &'static str, before: u32) -> impl Iterator<Item = Call> {
    (0..before).map(move |from| Call::Targets(name, from))
}

/// The new ranks that get something of an old one; a block is divided evenly.
fn targets((_, goes_to_all): (&str, bool), from: u32, before: u32, after: u32) -> Vec<u32> {
    let overlaps = |to: &u32| from * after < (to + 1) * before && to * before < (from + 1) * after;
    (0..after).filter(|to| goes_to_all || overlaps(to)).collect()
}

fn sources(region: (&str, bool), to: u32, before: u32, after: u32) -> Vec<u32> {
    let gives = |from: &u32| targets(region, *from, before, after).contains(&to);
    (0..before).filter(gives).collect()
}

/// The new ranks that get a share of what this old one has.
fn splits(from: u32, before: u32, after: u32) -> usize {
    (before..after).filter(|new| new * before / after == from).count()
}

/// The old ranks whose values are added to what this new one has.
fn merges(to: u32, before: u32, after: u32) -> usize {
    (after..before).filter(|old| old * after / before == to).count()
}

/// The region's `targets`, then `pack` for each of this rank's own.
fn packs(region: (&'static str, bool), rank: Option<u32>, before: u32, after: u32) -> Vec<Call> {
    let own = rank
        .map(|rank| targets(region, rank, before, after))
        .unwrap_or_default();
    let packs = own.into_iter().map(|to| Call::Pack(region.0, to));
    asked_for_targets(region.0, before).chain(packs).collect()
}

fn unpacks(region: (&'static str, bool), rank: u32, before: u32, after: u32) -> Call {
    Call::Unpack(region.0, sources(region, rank, before, after))
}

/// A live change: region by region in the order of registration, then merges, then what is unpacked.
fn wanted_of_change(order: &[u32], before: u32, is_made: bool) -> Wanted {
    let after = order.len() as u32;
    let processes = order.iter().copied().max().unwrap_or(0).max(before - 1) + 1;
    let wanted = (0..processes).map(|process| {
        let old = (process < before).then_some(process);
        let new = order.iter().position(|of| *of == process).map(|rank| rank as u32);
        let mut calls = packs(REGIONS[0], old, before, after);
        calls.extend((0..old.map_or(0, |rank| splits(rank, before, after))).map(|_| Call::Split));
        calls.extend(packs(REGIONS[1], old, before, after));
        let Some(rank) = new else { return calls };
        calls.extend((0..merges(rank, before, after)).map(|_| Call::Merge));
        if is_made {
            calls.extend(REGIONS.map(|region| unpacks(region, rank, before, after)));
        }
        calls
    });
    wanted.collect()
}

/// What is parked, by the old ranks.
fn wanted_of_image(before: u32, after: u32) -> Wanted {
    let of = |rank| {
        REGIONS
            .iter()
            .flat_map(move |region| packs(*region, Some(rank), before, after))
            .collect()
    };
    (0..before).map(of).collect()
}

/// What new processes do with images.
fn wanted_of_restore(before: u32, after: u32) -> Wanted {
    let of = |rank: u32| {
        let asked = REGIONS.iter().flat_map(|region| asked_for_targets(region.0, before));
        let mut calls: Vec<Call> = asked.collect();
        calls.push(unpacks(REGIONS[0], rank, before, after));
        // Whoever goes on with what splits have left makes them, too.
        let source = if rank < before { rank } else { rank * before / after };
        calls.extend((0..splits(source, before, after)).map(|_| Call::Split));
        calls.extend((0..merges(rank, before, after)).map(|_| Call::Merge));
        calls.push(unpacks(REGIONS[1], rank, before, after));
        calls
    };
    (0..after).map(of).collect()
}

struct Job {
    processes: Vec<Process>,
    checkpoint: Option<Images>,
    /// The program knows of all that was delivered.
    is_on: bool,
}

impl Job {
    fn new() -> Self {
        Self {
            processes: (0..2).map(|rank| process(rank, 2)).collect(),
            checkpoint: None,
            is_on: true,
        }
    }

    fn size(&self) -> u32 {
        self.processes.len() as u32
    }

    /// What happened to whom since this was asked last.
    fn calls(processes: &[Process]) -> Wanted {
        let calls = processes.iter().map(|process| process.calls.take());
        calls.collect()
    }

    fn total(&self) -> u32 {
        let counts = self.processes.iter();
        counts
            .map(|process| u32::from(process.registry.value_bytes("count").unwrap()[0]))
            .sum()
    }

    fn live(&mut self, event: Event) {
        let size = self.size();
        match event {
            Event::Step => {
                self.processes.iter_mut().for_each(|process| process.registry.goes_on());
                self.is_on = true;
                assert!(Self::calls(&self.processes).concat().is_empty());
            }
            Event::Change(after) => self.change((0..after).collect(), true),
            Event::Aborted(after) => self.change((0..after).collect(), false),
            Event::Move => self.change([size].into_iter().chain(1..size).collect(), true),
            Event::Checkpoint => self.checkpoint = self.park(size).or(self.checkpoint.take()),
            Event::RelaunchDropped(after) => _ = self.park(after),
            Event::Relaunch(after) => {
                if let Some(images) = self.park(after) {
                    self.start_again(size, after, images);
                }
            }
            Event::Crash => {
                if let Some(images) = self.checkpoint.take() {
                    let before = images.0.len() as u32;
                    self.start_again(before, before, images);
                }
            }
        }
    }

    /// A live change; processes are numbered old ranks first.
    fn change(&mut self, order: Vec<u32>, is_made: bool) {
        let (before, after) = (self.size(), order.len() as u32);
        let total = self.total();
        let wanted = wanted_of_change(&order, before, is_made);
        let next = NextLayout {
            old_size: before,
            order: order.clone(),
            weights: Vec::new(),
        };
        let change = next.change(wanted.len() as u32).unwrap();
        for newcomer in before..wanted.len() as u32 {
            let rank = order.iter().position(|of| *of == newcomer).unwrap();
            self.processes.push(process(rank as u32, after));
        }
        let mut moves = Vec::new();
        for (own, process) in (0..).map(ProcessId).zip(&mut self.processes) {
            let plan = |region| ParcelMove::plan(region, None, &next, &change, own);
            moves.push(process.registry.regions_mut().map(plan).collect::<Result<Vec<_>, _>>());
        }
        if !self.is_on {
            assert!(moves.iter().take(before as usize).all(Result::is_err));
            let asked = Self::calls(&self.processes[..before as usize]).concat();
            assert!(asked.iter().all(|call| matches!(call, Call::Targets(..))), "{asked:?}");
            return self.processes.truncate(before as usize);
        }
        let mut moves: Vec<Vec<ParcelMove>> = moves.into_iter().map(Result::unwrap).collect();
        let mut leaving = Vec::new();
        for of_process in &mut moves {
            leaving.extend(of_process.iter_mut().flat_map(|region| region.legs().0));
        }
        for (to, mut leg) in leaving {
            let LegBytes::Parcel(Some(bytes)) = &mut leg.bytes else {
                panic!("{leg:?} is no parcel");
            };
            let mut bytes = std::mem::take(bytes);
            assert!(
                moves[to as usize]
                    .iter_mut()
                    .any(|region| region.take(&leg, &mut bytes))
            );
        }
        for new in &order {
            let registry = &mut self.processes[*new as usize].registry;
            for region in &mut moves[*new as usize] {
                region.prepare(registry.region_mut(region.id())).unwrap();
            }
        }
        if is_made {
            for (rank, new) in (0..).zip(&order) {
                let registry = &mut self.processes[*new as usize].registry;
                registry.home_set(rank, after);
                for region in std::mem::take(&mut moves[*new as usize]) {
                    region.commit(registry).unwrap();
                }
            }
        }
        assert_eq!(Self::calls(&self.processes), wanted);
        let mut processes: BTreeMap<u32, Process> = (0..).zip(self.processes.drain(..)).collect();
        let layout = if is_made { order } else { (0..before).collect() };
        self.processes = layout.iter().map(|of| processes.remove(of).unwrap()).collect();
        self.is_on = !is_made;
        assert_eq!(self.total(), total, "nothing of the per-rank values is lost");
    }

    /// Images of all ranks, unless the program has not gone on.
    fn park(&mut self, after: u32) -> Option<Images> {
        let mut images = Vec::new();
        for process in &mut self.processes {
            // A checkpoint is an image for as many ranks.
            let image = Image::new(&mut process.registry, 5, Some(after));
            assert_eq!(image.is_ok(), self.is_on);
            if let Ok(image) = image {
                images.push(File::from(image.write(&mut process.registry).unwrap().0));
            }
        }
        let calls = Self::calls(&self.processes);
        if self.is_on {
            assert_eq!(calls, wanted_of_image(self.size(), after));
            return Some(Images(images));
        }
        assert!(calls.concat().iter().all(|call| matches!(call, Call::Targets(..))));
        None
    }

    fn start_again(&mut self, before: u32, after: u32, mut images: Images) {
        self.processes = (0..after).map(|rank| process(rank, after)).collect();
        for process in &mut self.processes {
            let relaunched = Relaunched {
                awaited: None,
                old_size: before,
                weights: Vec::new(),
            };
            restore(&mut process.registry, &relaunched, &mut images).unwrap();
        }
        assert_eq!(Self::calls(&self.processes), wanted_of_restore(before, after));
        self.is_on = false;
    }
}

/// Each order of four events after which the program may or may not have gone on.
#[test]
fn hooks_run_as_the_guide_says_in_every_order_of_events() {
    const LENGTH: u32 = 4;
    for number in 0..EVENTS.len().pow(LENGTH) {
        let event = |place: u32| EVENTS[number / EVENTS.len().pow(place) % EVENTS.len()];
        let mut job = Job::new();
        (0..LENGTH).for_each(|place| job.live(event(place)));
    }
}
