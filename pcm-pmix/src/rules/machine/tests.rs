//! Machines of up to three nodes that hear each other's messages, in any order a test wants.

use super::*;
use crate::{
    bindings::numbers::{PMIX_ERR_DUPLICATE_KEY, PMIX_ERR_PROC_TERM_WO_SYNC},
    names::Value,
    rules::{Collected, Kind},
};
use pcm_proto::pmix::{Namespace, Place};
use std::collections::VecDeque;

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn machine(name: &str) -> Machine {
    Machine::new(&Serve {
        library: Vec::new(),
        node: node(name),
        host: name.to_owned(),
        folder: Vec::new(),
        directory: node("a"),
        first_context: 7 << 32,
    })
}

/// A namespace with one list of ranks per node, from node a on.
fn namespace(name: &str, ranks: &[&[u32]]) -> Namespace {
    let place = |(node_name, ranks): (&str, &&[u32])| Place {
        node: node(node_name),
        host: node_name.to_owned(),
        ranks: ranks.to_vec(),
    };
    Namespace {
        name: name.to_owned(),
        places: ["a", "b", "c"].into_iter().zip(ranks).map(place).collect(),
        universe: 8,
        parent: None,
        programs: Vec::new(),
    }
}

fn call(kind: Kind, members: &[Process], data: &[u8]) -> Upcall {
    Upcall::Collective(CollectiveCall {
        kind,
        members: members.to_vec(),
        data: data.to_vec(),
        timeout: None,
        local: Status::SUCCESS,
        is_local: false,
    })
}

/// Machines and the messages between them.
struct Nodes {
    machines: BTreeMap<NodeName, Machine>,
    /// From, to, what.
    under_way: VecDeque<(NodeName, NodeName, NodeMessage)>,
    /// What is not a message, by node.
    effects: Vec<(String, Effect)>,
    now: Duration,
}

impl Nodes {
    fn new(names: &[&str], namespaces: &[Namespace]) -> Self {
        let mut nodes = Self {
            machines: names.iter().map(|name| (node(name), machine(name))).collect(),
            under_way: VecDeque::new(),
            effects: Vec::new(),
            now: Duration::from_secs(1),
        };
        for name in names {
            for namespace in namespaces {
                nodes.event(name, Event::Registered(namespace.clone()));
            }
        }
        nodes.deliver();
        nodes
    }

    fn event(&mut self, at: &str, event: Event) {
        let from = node(at);
        let machine = self.machines.get_mut(&from).unwrap();
        for effect in machine.handle(self.now, event) {
            match effect {
                Effect::Tell { node, message } => {
                    self.under_way.push_back((from.clone(), node, message));
                }
                other => self.effects.push((at.to_owned(), other)),
            }
        }
    }

    fn call(&mut self, at: &str, ticket: u64, upcall: Upcall) {
        let ticket = Ticket(ticket);
        self.event(at, Event::Called { ticket, upcall });
    }

    /// Delivers messages until there are none; those for machines that are not there are lost.
    fn deliver(&mut self) {
        while let Some((from, to, message)) = self.under_way.pop_front() {
            if self.machines.contains_key(&to) {
                let event = Event::FromNode { node: from, message };
                self.event(to.as_str(), event);
            }
        }
    }

    fn later(&mut self, span: Duration) {
        self.now += span;
        for at in self.machines.keys().cloned().collect::<Vec<_>>() {
            self.event(at.as_str(), Event::Later);
        }
    }

    /// Answers so far, by ticket, and forgets them.
    fn answers(&mut self) -> BTreeMap<u64, Answer> {
        let mut found = BTreeMap::new();
        self.effects.retain(|(_, effect)| match effect {
            Effect::Answer { ticket, answer } => {
                let before = found.insert(ticket.0, answer.clone());
                assert_eq!(before, None, "a call is answered once");
                false
            }
            _ => true,
        });
        found
    }
}

fn collected(data: &[u8]) -> Answer {
    let data = data.to_vec();
    Answer::Collected(Collected { data, group: None })
}

fn failed(status: i32) -> Answer {
    Answer::Done(Status(status))
}

#[test]
fn a_fence_of_one_node_returns_its_own_data_at_once() {
    let mut nodes = Nodes::new(&["a"], &[namespace("w", &[&[0, 1]])]);
    nodes.call("a", 1, call(Kind::Fence, &[Process::all_of("w")], b"xy"));
    assert_eq!(nodes.answers(), BTreeMap::from([(1, collected(b"xy"))]));
}

#[test]
fn a_fence_over_nodes_ends_when_all_are_in_with_the_data_of_all() {
    let mut nodes = Nodes::new(&["a", "b", "c"], &[namespace("w", &[&[0], &[1], &[2]])]);
    let all = [Process::all_of("w")];
    for round in 0..2 {
        nodes.call("c", 3, call(Kind::Fence, &all, b"c"));
        nodes.deliver();
        nodes.call("a", 1, call(Kind::Fence, &all, b"a"));
        nodes.deliver();
        assert_eq!(nodes.answers(), BTreeMap::new(), "round {round}");
        nodes.call("b", 2, call(Kind::Fence, &all, b"b"));
        nodes.deliver();
        let expected = [1, 2, 3].map(|ticket| (ticket, collected(b"abc")));
        assert_eq!(nodes.answers(), BTreeMap::from(expected), "round {round}");
    }
}

#[test]
fn members_named_in_another_order_are_the_same_and_other_members_are_others() {
    let mut nodes = Nodes::new(&["a", "b", "c"], &[namespace("w", &[&[0], &[1], &[2]])]);
    let [zero, one, two] = [0, 1, 2].map(|rank| Process::new("w", rank));
    nodes.call("a", 1, call(Kind::Connect, &[zero.clone(), one.clone()], b""));
    nodes.call("a", 2, call(Kind::Connect, &[zero.clone(), two.clone()], b""));
    nodes.call("b", 3, call(Kind::Connect, &[one, zero.clone()], b""));
    nodes.deliver();
    assert_eq!(nodes.answers().into_keys().collect::<Vec<_>>(), [1, 3]);
    nodes.call("c", 4, call(Kind::Connect, &[two, zero], b""));
    nodes.deliver();
    assert_eq!(nodes.answers().into_keys().collect::<Vec<_>>(), [2, 4]);
}

#[test]
fn a_participant_that_is_lost_before_its_node_is_in_ends_the_operation() {
    let all = [Process::all_of("w")];
    // Lost while others wait, and before they come; at the leader's node, and at another.
    for (lost_at, rank) in [("a", 0), ("b", 1)] {
        for is_before in [false, true] {
            let mut nodes = Nodes::new(&["a", "b", "c"], &[namespace("w", &[&[0], &[1], &[2]])]);
            let process = Process::new("w", rank);
            if is_before {
                nodes.event(
                    lost_at,
                    Event::Ended {
                        process: process.clone(),
                    },
                );
                nodes.deliver();
            }
            let others = ["a", "b", "c"].into_iter().filter(|name| *name != lost_at);
            for (ticket, at) in others.enumerate() {
                nodes.call(at, ticket as u64, call(Kind::Fence, &all, b""));
            }
            nodes.deliver();
            if !is_before {
                assert_eq!(nodes.answers(), BTreeMap::new());
                nodes.event(lost_at, Event::Ended { process });
                nodes.deliver();
            }
            let expected = [0, 1].map(|ticket| (ticket, failed(PMIX_ERR_LOST_CONNECTION)));
            assert_eq!(nodes.answers(), BTreeMap::from(expected), "{lost_at} {is_before}");
        }
    }
}

#[test]
fn a_participant_that_is_lost_after_its_node_was_in_ends_nothing() {
    let mut nodes = Nodes::new(&["a", "b"], &[namespace("w", &[&[0], &[1]])]);
    let all = [Process::all_of("w")];
    nodes.call("b", 2, call(Kind::Fence, &all, b"b"));
    nodes.deliver();
    let process = Process::new("w", 1);
    nodes.event("b", Event::Ended { process });
    nodes.deliver();
    nodes.call("a", 1, call(Kind::Fence, &all, b"a"));
    nodes.deliver();
    assert_eq!(nodes.answers().remove(&1), Some(collected(b"ab")));
}

#[test]
fn what_libpmix_says_of_a_lost_participant_reaches_all() {
    let mut nodes = Nodes::new(&["a", "b"], &[namespace("w", &[&[0], &[1, 2]])]);
    let members = vec![Process::all_of("w")];
    nodes.call("a", 1, call(Kind::Fence, &members, b""));
    let partial = CollectiveCall {
        kind: Kind::Fence,
        members,
        data: Vec::new(),
        timeout: None,
        local: Status(PMIX_ERR_PROC_TERM_WO_SYNC),
        is_local: false,
    };
    nodes.call("b", 2, Upcall::Collective(partial));
    nodes.deliver();
    let expected = [1, 2].map(|ticket| (ticket, failed(PMIX_ERR_PROC_TERM_WO_SYNC)));
    assert_eq!(nodes.answers(), BTreeMap::from(expected));
}

#[test]
fn a_node_that_is_lost_leaves_no_call_without_an_answer() {
    for lost in ["a", "b"] {
        let mut nodes = Nodes::new(&["a", "b", "c"], &[namespace("w", &[&[0], &[1], &[2]])]);
        let all = [Process::all_of("w")];
        let kind = |name: &str| Kind::Construct(name.to_owned());
        nodes.call("c", 1, call(Kind::Fence, &all, b""));
        nodes.call("c", 2, call(kind("g"), &all, b""));
        let process = Process::new("w", 1);
        nodes.call("c", 3, Upcall::Modex { process, timeout: None });
        let keys = vec!["port".to_owned()];
        let waits = true;
        let timeout = None;
        nodes.call("c", 4, Upcall::Lookup { keys, waits, timeout });
        nodes.machines.remove(&node(lost));
        nodes.deliver();
        for at in nodes.machines.keys().cloned().collect::<Vec<_>>() {
            nodes.event(at.as_str(), Event::NodeLost { node: node(lost) });
        }
        nodes.deliver();
        let answered: Vec<u64> = nodes.answers().into_keys().collect();
        let expected: &[u64] = if lost == "a" { &[1, 2, 4] } else { &[1, 2, 3] };
        assert_eq!(answered, expected, "{lost}");
        let is_announced = |(at, effect): &(String, Effect)| at == "c" && matches!(effect, Effect::Announce { .. });
        assert_eq!(
            nodes.effects.iter().filter(|effect| is_announced(effect)).count(),
            1,
            "{lost}"
        );
    }
}

#[test]
fn an_operation_with_a_deadline_ends_at_it_and_a_late_node_is_not_kept_waiting() {
    let mut nodes = Nodes::new(&["a", "b"], &[namespace("w", &[&[0], &[1]])]);
    let timed = |seconds| {
        Upcall::Collective(CollectiveCall {
            kind: Kind::Connect,
            members: vec![Process::all_of("w")],
            data: Vec::new(),
            timeout: Some(Duration::from_secs(seconds)),
            local: Status::SUCCESS,
            is_local: false,
        })
    };
    nodes.call("a", 1, timed(5));
    nodes.later(Duration::from_millis(4_999));
    assert_eq!(nodes.answers(), BTreeMap::new());
    nodes.later(Duration::from_millis(1));
    assert_eq!(nodes.answers(), BTreeMap::from([(1, failed(PMIX_ERR_TIMEOUT))]));
    nodes.call("b", 2, timed(600));
    nodes.deliver();
    assert_eq!(nodes.answers(), BTreeMap::from([(2, failed(PMIX_ERR_TIMEOUT))]));
}

#[test]
fn groups_get_numbers_of_their_own_that_all_members_see_alike() {
    let mut nodes = Nodes::new(&["a", "b"], &[namespace("w", &[&[0], &[1]])]);
    let all = [Process::all_of("w")];
    let mut numbers = Vec::new();
    for name in ["g", "h"] {
        for (ticket, at) in ["a", "b"].into_iter().enumerate() {
            nodes.call(
                at,
                ticket as u64,
                call(Kind::Construct(name.to_owned()), &all, at.as_bytes()),
            );
        }
        nodes.deliver();
        let answers: Vec<Answer> = nodes.answers().into_values().collect();
        assert_eq!(answers.len(), 2);
        assert_eq!(answers[0], answers[1]);
        let Answer::Collected(collected) = &answers[0] else {
            panic!("{answers:?}");
        };
        assert_eq!(collected.data, b"ab");
        let group = collected.group.as_ref().expect("a group");
        assert_eq!(group.members, all);
        numbers.push(group.context);
    }
    assert_eq!(numbers, [7 << 32, (7 << 32) + 1]);
}

#[test]
fn a_lookup_waits_for_what_another_node_publishes_and_reads_once_what_may_be_read_once() {
    let mut nodes = Nodes::new(&["a", "b", "c"], &[namespace("w", &[&[0], &[1], &[2]])]);
    let publisher = Process::new("w", 1);
    let look_up = |waits| Upcall::Lookup {
        keys: vec!["port".to_owned()],
        waits,
        timeout: Some(Duration::from_secs(5)),
    };
    nodes.call("c", 1, look_up(true));
    nodes.deliver();
    assert_eq!(nodes.answers(), BTreeMap::new());
    let publish = Upcall::Publish {
        publisher: publisher.clone(),
        values: vec![("port".to_owned(), Value::text("here"))],
        is_read_once: true,
    };
    nodes.call("b", 2, publish.clone());
    nodes.deliver();
    let published = Published {
        publisher: publisher.clone(),
        key: "port".to_owned(),
        value: Value::text("here"),
    };
    let expected = [(1, Answer::Found(vec![published])), (2, failed(0))];
    assert_eq!(nodes.answers(), BTreeMap::from(expected));
    nodes.call("a", 3, look_up(false));
    assert_eq!(nodes.answers(), BTreeMap::from([(3, failed(PMIX_ERR_NOT_FOUND))]));
    nodes.call("a", 4, look_up(true));
    nodes.later(Duration::from_secs(5));
    assert_eq!(nodes.answers(), BTreeMap::from([(4, failed(PMIX_ERR_TIMEOUT))]));
    nodes.call("b", 5, publish.clone());
    nodes.deliver();
    nodes.call("b", 6, publish);
    nodes.deliver();
    assert_eq!(
        nodes.answers(),
        BTreeMap::from([(5, failed(0)), (6, failed(PMIX_ERR_DUPLICATE_KEY))])
    );
    nodes.call(
        "b",
        7,
        Upcall::Unpublish {
            publisher,
            keys: Vec::new(),
        },
    );
    nodes.deliver();
    nodes.call("c", 8, look_up(false));
    nodes.deliver();
    assert_eq!(
        nodes.answers(),
        BTreeMap::from([(7, failed(0)), (8, failed(PMIX_ERR_NOT_FOUND))])
    );
}

#[test]
fn what_a_process_of_another_node_published_for_its_peers_is_fetched_there() {
    let mut nodes = Nodes::new(&["a", "b"], &[namespace("w", &[&[0], &[1]])]);
    let process = Process::new("w", 1);
    let modex = |process: &Process| Upcall::Modex {
        process: process.clone(),
        timeout: None,
    };
    nodes.call("a", 1, modex(&process));
    nodes.deliver();
    let fetch = Effect::Fetch {
        number: 1,
        process: process.clone(),
    };
    assert_eq!(nodes.effects, [("b".to_owned(), fetch)]);
    let outcome = Ok(b"blob".to_vec());
    nodes.event("b", Event::Fetched { number: 1, outcome });
    nodes.deliver();
    assert_eq!(nodes.answers(), BTreeMap::from([(1, Answer::Data(b"blob".to_vec()))]));
    // One that gives no answer ends at its deadline; one that is lost, at once; one that is not known is not asked for.
    nodes.call("a", 2, modex(&process));
    nodes.deliver();
    nodes.later(ANSWER_MAX);
    assert_eq!(nodes.answers(), BTreeMap::from([(2, failed(PMIX_ERR_TIMEOUT))]));
    nodes.call("a", 3, modex(&process));
    nodes.event(
        "b",
        Event::Ended {
            process: process.clone(),
        },
    );
    nodes.deliver();
    assert_eq!(nodes.answers(), BTreeMap::from([(3, failed(PMIX_ERR_LOST_CONNECTION))]));
    nodes.call("a", 4, modex(&process));
    nodes.call("a", 5, modex(&Process::new("other", 0)));
    let expected = [4, 5].map(|ticket| (ticket, failed(PMIX_ERR_NOT_FOUND)));
    assert_eq!(nodes.answers(), BTreeMap::from(expected));
}

#[test]
fn a_spawn_goes_to_the_parent_and_ends_with_its_word_or_its_deadline() {
    let mut nodes = Nodes::new(&["a"], &[namespace("w", &[&[0]])]);
    let spawn = || Upcall::Spawn {
        process: Process::new("w", 0),
        commands: Vec::new(),
        timeout: None,
    };
    nodes.call("a", 1, spawn());
    nodes.call("a", 2, spawn());
    nodes.call("a", 3, spawn());
    let is_asked = |(_, effect): &(String, Effect)| matches!(effect, Effect::Report(Report::SpawnAsked { .. }));
    assert_eq!(nodes.effects.iter().filter(|effect| is_asked(effect)).count(), 3);
    // A parent that comes back hears of each that has no answer.
    let open = |nodes: &Nodes| nodes.machines[&node("a")].standing().len();
    assert_eq!(open(&nodes), 3);
    let outcome = Ok("children".to_owned());
    nodes.event("a", Event::SpawnAnswer { number: 1, outcome });
    let outcome = Err(Status(PMIX_ERR_NOT_FOUND));
    nodes.event("a", Event::SpawnAnswer { number: 2, outcome });
    nodes.later(SPAWN_MAX);
    let outcome = Ok("late".to_owned());
    nodes.event("a", Event::SpawnAnswer { number: 3, outcome });
    let expected = [
        (1, Answer::Spawned("children".to_owned())),
        (2, failed(PMIX_ERR_NOT_FOUND)),
        (3, failed(PMIX_ERR_TIMEOUT)),
    ];
    assert_eq!(nodes.answers(), BTreeMap::from(expected));
    assert_eq!(open(&nodes), 0);
}

#[test]
fn a_process_that_finalized_may_end_and_one_that_did_not_is_announced_once() {
    let mut nodes = Nodes::new(&["a", "b"], &[namespace("w", &[&[0, 2], &[1]])]);
    let done = Process::new("w", 0);
    let lost = Process::new("w", 2);
    nodes.call("a", 1, Upcall::Finalized(done.clone()));
    nodes.event("a", Event::Ended { process: done.clone() });
    nodes.event("a", Event::Ended { process: lost.clone() });
    nodes.event("a", Event::Ended { process: lost.clone() });
    nodes.event(
        "a",
        Event::Ended {
            process: Process::new("unknown", 0),
        },
    );
    nodes.deliver();
    assert_eq!(nodes.answers(), BTreeMap::from([(1, failed(0))]));
    let announce = Effect::Announce { lost };
    let expected = [
        ("a".to_owned(), Effect::Report(Report::Finalized { process: done })),
        ("a".to_owned(), announce.clone()),
        ("b".to_owned(), announce),
    ];
    assert_eq!(nodes.effects, expected);
}

#[test]
fn an_abort_reaches_the_parent_and_lets_its_caller_go() {
    let mut nodes = Nodes::new(&["a"], &[namespace("w", &[&[0]])]);
    let process = Process::new("w", 0);
    let victims = vec![process.clone()];
    let (status, message) = (3, "why".to_owned());
    let aborted = Upcall::Aborted {
        process: process.clone(),
        status,
        message: message.clone(),
        victims: victims.clone(),
    };
    nodes.call("a", 1, aborted);
    assert_eq!(nodes.answers(), BTreeMap::from([(1, failed(0))]));
    let report = Report::Aborted {
        process,
        status,
        message,
        victims,
    };
    assert_eq!(nodes.effects, [("a".to_owned(), Effect::Report(report))]);
}

#[test]
fn a_namespace_that_is_forgotten_leaves_nothing() {
    let mut nodes = Nodes::new(&["a"], &[namespace("w", &[&[0]])]);
    let publish = Upcall::Publish {
        publisher: Process::new("w", 0),
        values: vec![("port".to_owned(), Value::text("here"))],
        is_read_once: false,
    };
    nodes.call("a", 1, publish.clone());
    let namespace_name = "w".to_owned();
    nodes.event(
        "a",
        Event::Forgotten {
            namespace: namespace_name,
        },
    );
    nodes.call("a", 2, call(Kind::Fence, &[Process::all_of("w")], b""));
    nodes.call("a", 3, publish);
    let expected = [(1, failed(0)), (2, failed(PMIX_ERR_NOT_FOUND)), (3, failed(0))];
    assert_eq!(nodes.answers(), BTreeMap::from(expected));
    assert_eq!(nodes.machines[&node("a")].due(), None);
}

/// The namespaces that libpmix of a node has to learn, in order.
fn to_learn(nodes: &Nodes, at: &str) -> Vec<String> {
    let of_node = nodes.effects.iter().filter(|(node, _)| node == at);
    let learned = of_node.filter_map(|(_, effect)| match effect {
        Effect::Learn(namespace) => Some(namespace.name.clone()),
        _ => None,
    });
    learned.collect()
}

#[test]
fn nodes_learn_of_worlds_elsewhere_before_they_find_what_these_published() {
    let mut nodes = Nodes::new(&["a", "b", "c"], &[]);
    let old = namespace("old", &[&[0], &[1]]);
    for name in ["a", "b"] {
        nodes.event(name, Event::Registered(old.clone()));
    }
    nodes.deliver();
    assert_eq!(to_learn(&nodes, "c"), Vec::<String>::new(), "it has nothing of the job");
    let publish = Upcall::Publish {
        publisher: Process::new("old", 1),
        values: vec![("port".to_owned(), Value::text("here"))],
        is_read_once: false,
    };
    nodes.call("b", 1, publish);
    let new = namespace("new", &[&[], &[], &[0]]);
    nodes.event("c", Event::Registered(new));
    let look_up = Upcall::Lookup {
        keys: vec!["port".to_owned()],
        waits: true,
        timeout: None,
    };
    nodes.call("c", 2, look_up);
    nodes.deliver();
    assert_eq!(to_learn(&nodes, "c"), ["old"]);
    assert_eq!(to_learn(&nodes, "b"), ["new"]);
    assert_eq!(to_learn(&nodes, "a"), ["new"]);
    let at_c = nodes
        .effects
        .iter()
        .position(|(node, effect)| node == "c" && matches!(effect, Effect::Learn(_)));
    let found = nodes
        .effects
        .iter()
        .position(|(node, effect)| node == "c" && matches!(effect, Effect::Answer { .. }));
    assert!(at_c < found && found.is_some(), "{:?}", nodes.effects);
    let both = [Process::all_of("old"), Process::all_of("new")];
    nodes.answers();
    for (at, ticket) in [("a", 3), ("b", 4), ("c", 5)] {
        nodes.call(at, ticket, call(Kind::Connect, &both, at.as_bytes()));
    }
    nodes.deliver();
    assert_eq!(
        nodes.answers(),
        [3, 4, 5].map(|ticket| (ticket, collected(b"abc"))).into()
    );
}

#[test]
fn a_namespace_is_named_to_a_node_once() {
    let mut nodes = Nodes::new(&["a", "b", "c"], &[namespace("old", &[&[0], &[1]])]);
    for name in ["one", "two"] {
        nodes.event("c", Event::Registered(namespace(name, &[&[], &[], &[0]])));
        nodes.deliver();
    }
    for at in ["a", "b"] {
        assert_eq!(to_learn(&nodes, at), ["one", "two"], "{at}");
    }
}
