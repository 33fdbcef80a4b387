//! Ranks that spawn: what they ask for goes to the coordinator of their job, and its answer comes back when the
//! children are there.

use super::*;

const PORT: &str = "OMPI_PARENT_PORT";

fn text(words: &str) -> Vec<u8> {
    words.as_bytes().to_vec()
}

fn worker(processes: u32) -> SpawnCommand {
    SpawnCommand {
        program: text("./worker"),
        arguments: ["./worker", "a"].map(text).to_vec(),
        environment: [
            "OMPI_PARENT_PORT=1.0:7",
            "OMPI_MCA_pml=ucx",
            "OMPI_MCA_btl_sm_backing_directory=/of/the/parent",
            "PMIX_RANK=0",
            "COLOUR=blue",
            "PCM_SPAWN_PATH=/there:/elsewhere",
        ]
        .map(text)
        .to_vec(),
        directory: Vec::new(),
        processes,
        hints: vec![
            (text("pmix.wdir"), text("/here")),
            (text("pmix.host"), text("n1, n2")),
            (text("pmix.prefix"), text("/opt")),
        ],
    }
}

impl Bench {
    fn asks(&mut self, number: u64, commands: Vec<SpawnCommand>) -> Vec<SpawnAsk> {
        let process = process();
        let asked = Report::SpawnAsked {
            number,
            process,
            commands,
        };
        spawn_asks(&self.said(asked))
    }

    fn answered(&mut self, number: u32, result: Result<SpawnedWorld, String>) -> Vec<Effect> {
        self.ordered_by_coordinator(CoordinatorToNode::SpawnResult {
            process: KEY.process,
            number,
            result,
        })
    }

    /// Two children here, of two programs, and one more on another node.
    fn with_children(here: u32) -> (Self, Vec<Effect>) {
        let mut bench = Self::running();
        let command = |number, count| WorldCommand {
            count,
            number,
            program: text("./worker"),
            args: Vec::new(),
            cwd: None,
            search_path: None,
            hosts: Vec::new(),
            environment: vec![(text("COLOUR"), text("blue"))],
        };
        let run = |node, first, count| RankRun {
            node,
            first: ProcessId(first),
            count,
        };
        let mut order = start_order();
        order.number = 1;
        order.worlds = vec![WorldStart {
            world: WorldId(5),
            nodes: vec![name(1), name(2)],
            runs: vec![run(0, 7, here), run(1, 7 + here, 1)],
            commands: vec![command(0, here), command(1, 1)],
            preset: vec![(PORT.to_owned(), "1.0:7".to_owned())],
            spawned: true,
            parent: Some(WorldMember {
                world: WorldId(0),
                rank: 0,
            }),
            ..one_node::world(0)
        }];
        let effects = bench.ordered_by_coordinator(CoordinatorToNode::Start(Box::new(order)));
        (bench, effects)
    }

    fn child_ended(&mut self, process: u32, status: ExitStatus) -> Vec<Effect> {
        let process = ProcessId(process);
        let key = ProcessKey { job: JOB, process };
        self.event(Event::Keeper(KeeperFact::Exited { key, status }))
    }
}

const CHILDREN: &str = "pcm-c-1-0-5";

fn spawn_asks(effects: &[Effect]) -> Vec<SpawnAsk> {
    let asks = to_coordinator(effects).into_iter().filter_map(|said| match said {
        NodeToCoordinator::Spawn(ask) => Some(*ask),
        _ => None,
    });
    asks.collect()
}

fn are_ready(effects: &[Effect]) -> bool {
    let said = to_coordinator(effects);
    said.contains(&NodeToCoordinator::SpawnReady { world: WorldId(5) })
}

#[test]
fn a_spawn_goes_to_the_coordinator_as_from_every_mpi() {
    let asks = Bench::running().asks(9, vec![worker(2), worker(1)]);
    let [ask] = &asks[..] else { panic!("{asks:?}") };
    assert_eq!((ask.process, ask.number), (KEY.process, 0));
    assert_eq!((ask.asker.world, ask.asker.rank), (WorldId(0), 0));
    assert_eq!(ask.preset, [(PORT.to_owned(), "1.0:7".to_owned())]);
    let commands = ask.commands.as_ref().unwrap();
    let counts = commands.iter().map(|command| (command.number, command.count));
    assert_eq!(counts.collect::<Vec<_>>(), [(0, 2), (1, 1)]);
    for command in commands {
        assert_eq!((&command.program, &command.args), (&text("./worker"), &vec![text("a")]));
        assert_eq!(
            (&command.cwd, &command.hosts),
            (&Some("/here".into()), &vec!["n1".to_owned(), "n2".to_owned()])
        );
        assert_eq!(command.search_path, Some(text("/there:/elsewhere")));
        assert_eq!(command.environment, [(text("COLOUR"), text("blue"))]);
    }
}

#[test]
fn a_spawn_that_no_job_can_read_goes_to_the_coordinator_with_what_is_wrong() {
    let not_text = SpawnCommand {
        program: vec![255],
        ..worker(1)
    };
    let too_long = SpawnCommand {
        arguments: vec![text("./worker"), vec![b'x'; 64 * 1024]],
        ..worker(1)
    };
    for (command, reason) in [
        (not_text, "it holds bytes that are not UTF-8"),
        (
            too_long,
            "it is longer than 65536 bytes; pass long data in a file or a message",
        ),
    ] {
        let asks = Bench::running().asks(1, vec![command]);
        assert_eq!(asks.len(), 1);
        assert_eq!(asks[0].commands, Err(reason.to_owned()));
    }
}

#[test]
fn each_spawn_of_a_process_gets_its_own_answer_and_they_come_one_after_the_other() {
    let mut bench = Bench::running();
    assert_eq!(bench.asks(4, vec![worker(1)]).len(), 1);
    assert_eq!(bench.asks(5, vec![worker(2)]).len(), 0, "the first has no answer yet");
    let made = SpawnedWorld {
        world: WorldId(5),
        size: 1,
    };
    let effects = bench.answered(0, Ok(made));
    let outcome = Ok(CHILDREN.to_owned());
    assert_eq!(orders(&effects), [Order::SpawnAnswer { number: 4, outcome }]);
    let asks = spawn_asks(&effects);
    assert_eq!(asks.iter().map(|ask| ask.number).collect::<Vec<_>>(), [1]);
    assert_eq!(orders(&bench.answered(0, Ok(made))), [], "that was answered");
    let effects = bench.answered(1, Err("no room".to_owned()));
    let outcome = Err(Status(-181));
    assert_eq!(orders(&effects), [Order::SpawnAnswer { number: 5, outcome }]);
}

#[test]
fn a_question_that_is_said_again_to_the_next_daemon_is_one_spawn_and_gets_one_answer() {
    let made = |world| SpawnedWorld {
        world: WorldId(world),
        size: 1,
    };
    let answer = |number| Order::SpawnAnswer {
        number,
        outcome: Ok(CHILDREN.to_owned()),
    };
    let mut bench = Bench::running();
    assert_eq!(bench.asks(4, vec![worker(1)]).len(), 1);
    let again = spawn_asks(&bench.restarted());
    assert!(again.iter().all(|ask| ask.number == 0), "{again:?}");
    assert_eq!(bench.asks(4, vec![worker(1)]), [], "it is under way");
    assert_eq!(orders(&bench.answered(0, Ok(made(5)))), [answer(4)]);
    // The daemon is killed before its helper has that answer.
    bench.restarted();
    let effects = bench.said(Report::SpawnAsked {
        number: 4,
        process: process(),
        commands: vec![worker(1)],
    });
    assert_eq!(spawn_asks(&effects), []);
    assert_eq!(orders(&effects), [answer(4)]);
    let next = bench.asks(5, vec![worker(1)]);
    assert_eq!(next.iter().map(|ask| ask.number).collect::<Vec<_>>(), [1]);
}

#[test]
fn children_are_a_namespace_with_a_parent_and_programs_and_start_with_its_port() {
    let (mut bench, effects) = Bench::with_children(2);
    let orders = orders(&effects);
    let [Order::Register(namespace)] = &orders[..] else {
        panic!("{orders:?}");
    };
    assert_eq!((&*namespace.name, &namespace.parent), (CHILDREN, &Some(process())));
    let programs: Vec<_> = (0..3).map(|rank| namespace.program_of(rank)).collect();
    assert_eq!((namespace.programs(), programs), (2, vec![(0, 0), (0, 1), (1, 0)]));
    assert_eq!(namespace.ranks_on(&name(2)), [2]);
    let effects = bench.said(Report::Registered {
        namespace: CHILDREN.to_owned(),
        environments: [0, 1]
            .map(|rank| Environment {
                rank,
                variables: Vec::new(),
            })
            .to_vec(),
    });
    let env = launched(&effects).expect("a start");
    for variable in [(text(PORT), text("1.0:7")), (text("COLOUR"), text("blue"))] {
        assert!(env.contains(&variable), "{env:?}");
    }
}

#[test]
fn a_spawn_is_answered_when_the_children_of_all_nodes_are_connected() {
    let (mut bench, _) = Bench::with_children(2);
    let connected = |rank| Report::Connected {
        process: Process::new(CHILDREN, rank),
    };
    let barrier = |bench: &mut Bench| {
        let message = Box::new(JobMessage::World(WorldMessage::Barrier {
            world: WorldId(5),
            generation: 0,
            puts: BTreeMap::new(),
        }));
        bench.event(Event::Peer(PeerFact::Said {
            node: name(2),
            message: DaemonToDaemon::Job { job: JOB, message },
        }))
    };
    assert!(!are_ready(&bench.said(connected(0))));
    assert!(!are_ready(&bench.said(connected(1))), "one on another node is not in");
    assert!(are_ready(&barrier(&mut bench)));
    let (mut other, _) = Bench::with_children(1);
    assert!(!are_ready(&barrier(&mut other)), "one here is not in");
    assert!(are_ready(&other.said(connected(0))));
}

#[test]
fn a_child_that_is_given_up_while_it_waits_for_the_helper_is_not_started() {
    let (mut bench, _) = Bench::with_children(1);
    bench.ordered_by_coordinator(CoordinatorToNode::EndProcesses {
        processes: vec![ProcessId(7)],
        grace_ms: 0,
    });
    let effects = bench.said(Report::Registered {
        namespace: CHILDREN.to_owned(),
        environments: vec![Environment {
            rank: 0,
            variables: Vec::new(),
        }],
    });
    assert!(launched(&effects).is_none(), "{effects:?}");
    let said = to_coordinator(&effects);
    assert!(
        said.iter().any(|said| is_refused(said, "it was not wanted any more")),
        "{said:?}"
    );
}

#[test]
fn children_that_are_given_up_are_no_loss_to_others() {
    let ended = |process| Order::Ended {
        process: Process::new(CHILDREN, process),
    };
    let (mut lost, _) = Bench::with_children(2);
    assert_eq!(orders(&lost.child_ended(7, ExitStatus::Signal(9))), [ended(0)]);
    let (mut given_up, _) = Bench::with_children(2);
    given_up.ordered_by_coordinator(CoordinatorToNode::EndProcesses {
        processes: vec![ProcessId(7), ProcessId(8)],
        grace_ms: 0,
    });
    let namespace = CHILDREN.to_owned();
    assert_eq!(
        orders(&given_up.child_ended(7, ExitStatus::Signal(9))),
        [Order::Forget { namespace }, ended(0)]
    );
}
