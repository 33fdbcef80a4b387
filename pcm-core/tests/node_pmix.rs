//! A node with a rank of Open MPI: the rank starts when PMIx is served to it, its coordinator hears of its end when the
//! helper has, and the helper's end is the loss of the job.

mod one_node;

use one_node::{heritage, name, no_past, node, order, start_order};
use pcm_core::moment::Moment;
use pcm_core::node::Node;
use pcm_core::node::event::{Event, Held, KeeperFact, PeerFact, RankNews};
use pcm_core::node::outbox::Effect;
use pcm_core::node::pmix::effect::{HelperId, PmixEffect, PmixNews};
use pcm_core::node::ranks::effect::{Attached, RankEffect};
use pcm_proto::ids::{Epoch, JobId, ProcessId, WorldId};
use pcm_proto::keeper::{ExitStatus, ProcessKey};
use pcm_proto::peer::{
    CoordinatorToNode, DaemonToDaemon, JobMessage, MpiStage, NodeToCoordinator, RankRun, WorldMessage, WorldStart,
};
use pcm_proto::pmix::{Environment, Order, PmixMessage, Process, Report, SpawnCommand, Status};
use pcm_proto::spawn::{SpawnAsk, SpawnedWorld, WorldCommand, WorldMember};
use std::collections::BTreeMap;
use std::time::Duration;

const JOB: JobId = JobId(1);
const HELPER: HelperId = HelperId {
    job: JOB,
    life: Epoch(0),
};
const KEY: ProcessKey = ProcessKey {
    job: JOB,
    process: ProcessId(0),
};
const NAMESPACE: &str = "pcm-c-1-0-0";

struct Bench {
    node: Node,
    now: Moment,
}

impl Bench {
    fn new() -> Self {
        let now = Moment(1_000_000);
        let mut node = node(1, now, Duration::from_secs(1), None);
        _ = node.begin(heritage(no_past(1)));
        Self { node, now }
    }

    fn event(&mut self, event: Event) -> Vec<Effect> {
        self.now = self.now.plus(Duration::from_millis(1));
        self.node.handle(self.now, event)
    }

    fn ordered(&mut self) -> Vec<Effect> {
        let mut start = start_order();
        start.spec.env = vec![
            (b"PCM_MPI_ABI".to_vec(), b"openmpi".to_vec()),
            (b"PCM_PMIX_LIBRARY".to_vec(), b"/m/libpmix.so.2".to_vec()),
            (b"OMPI_MCA_pml".to_vec(), b"ucx".to_vec()),
        ];
        self.event(order(JOB, start))
    }

    fn said(&mut self, report: Report) -> Vec<Effect> {
        self.news(PmixNews::Said(Box::new(report)))
    }

    fn news(&mut self, news: PmixNews) -> Vec<Effect> {
        let helper = HELPER;
        self.event(Event::Rank(RankNews::Pmix { helper, news }))
    }

    fn letter(&mut self, life: u64, number: u64) -> Vec<Effect> {
        let bytes = vec![7];
        let message = PmixMessage::Letter { number, bytes };
        let life = Epoch(life);
        let message = Box::new(JobMessage::Pmix { life, message });
        self.event(Event::Peer(PeerFact::Said {
            node: name(0),
            message: DaemonToDaemon::Job { job: JOB, message },
        }))
    }

    fn ordered_by_coordinator(&mut self, order: CoordinatorToNode) -> Vec<Effect> {
        let message = Box::new(JobMessage::ToNode(order));
        self.event(Event::Peer(PeerFact::Said {
            node: name(0),
            message: DaemonToDaemon::Job { job: JOB, message },
        }))
    }

    /// A rank that runs.
    fn running() -> Self {
        let mut bench = Self::new();
        bench.ordered();
        bench.said(registered());
        bench.event(Event::Keeper(KeeperFact::Started(Held {
            key: KEY,
            pid: 9,
            ended: None,
            attached: Ok(Attached {
                key: KEY,
                pid: 9,
                is_starting: true,
                is_asking: false,
                has_stdin: false,
            }),
        })));
        bench.event(Event::Rank(RankNews::Silent {
            key: KEY,
            nonsense: None,
        }));
        bench
    }

    fn exited(&mut self, status: ExitStatus) -> Vec<Effect> {
        self.event(Event::Keeper(KeeperFact::Exited { key: KEY, status }))
    }
}

fn registered() -> Report {
    Report::Registered {
        namespace: NAMESPACE.to_owned(),
        environments: vec![Environment {
            rank: 0,
            variables: vec![(b"PMIX_RANK".to_vec(), b"0".to_vec())],
        }],
    }
}

fn process() -> Process {
    Process::new(NAMESPACE, 0)
}

/// The orders for the helper, its start as the first.
fn orders(effects: &[Effect]) -> Vec<Order> {
    let order = |effect: &Effect| match effect {
        Effect::Pmix(PmixEffect::Start { serve, .. }) => Some(Order::Serve((**serve).clone())),
        Effect::Pmix(PmixEffect::Tell { order, .. }) => Some((**order).clone()),
        _ => None,
    };
    effects.iter().filter_map(order).collect()
}

/// The environment of the rank that is started, if one is.
fn launched(effects: &[Effect]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    effects.iter().find_map(|effect| match effect {
        Effect::Rank(RankEffect::Launch(launch)) => Some(launch.spec.env.clone()),
        _ => None,
    })
}

fn to_coordinator(effects: &[Effect]) -> Vec<NodeToCoordinator> {
    let said = |effect: &Effect| match effect {
        Effect::Send {
            message: DaemonToDaemon::Job { message, .. },
            ..
        } => match &**message {
            JobMessage::ToCoordinator(said) => Some(said.clone()),
            _ => None,
        },
        _ => None,
    };
    effects.iter().filter_map(said).collect()
}

/// The stages in which processes are said to have ended.
fn ends(effects: &[Effect]) -> Vec<MpiStage> {
    let ends = to_coordinator(effects).into_iter().filter_map(|said| match said {
        NodeToCoordinator::Exited(ends) => Some(ends),
        _ => None,
    });
    ends.flatten().map(|end| end.stage).collect()
}

fn losses(effects: &[Effect]) -> Vec<String> {
    let losses = to_coordinator(effects).into_iter().filter_map(|said| match said {
        NodeToCoordinator::Lost { reason } => Some(reason),
        _ => None,
    });
    losses.collect()
}

/// Whether a start is refused for a reason that ends so.
fn is_refused(said: &NodeToCoordinator, words: &str) -> bool {
    matches!(said, NodeToCoordinator::StartRefused { reason, .. } if reason.ends_with(words))
}

#[test]
fn a_rank_starts_with_the_variables_of_its_namespace_once_that_is_registered() {
    let mut bench = Bench::new();
    let effects = bench.ordered();
    assert!(launched(&effects).is_none(), "{effects:?}");
    let orders = orders(&effects);
    let [Order::Serve(serve), Order::Register(namespace)] = &orders[..] else {
        panic!("{orders:?}");
    };
    assert_eq!(
        (&serve.library[..], &serve.directory),
        (&b"/m/libpmix.so.2"[..], &name(0))
    );
    assert_eq!((&*namespace.name, namespace.ranks_on(&name(1))), (NAMESPACE, &[0][..]));
    let env = launched(&bench.said(registered())).expect("a start");
    let value = |name: &str| {
        let all = env.iter().filter(|(known, _)| known == name.as_bytes());
        let all: Vec<_> = all
            .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
            .collect();
        all.join(" and ")
    };
    assert_eq!(value("PMIX_RANK"), "0");
    assert_eq!(value("OMPI_MCA_pml"), "ucx", "the user's word is stronger");
    assert_eq!(value("OMPI_MCA_btl"), "self,sm,tcp");
}

#[test]
fn a_world_that_cannot_be_registered_is_not_started_and_its_coordinator_hears_why() {
    let mut bench = Bench::new();
    bench.ordered();
    let order = format!("register {NAMESPACE}");
    let reason = "no memory".to_owned();
    let effects = bench.said(Report::Refused { order, reason });
    assert!(launched(&effects).is_none(), "{effects:?}");
    let said = to_coordinator(&effects);
    assert!(said.iter().any(|said| is_refused(said, "no memory")), "{said:?}");
}

#[test]
fn the_end_of_a_rank_is_reported_after_what_the_helper_knows_of_it() {
    for (said, stage) in [
        (vec![], MpiStage::Before),
        (vec![Report::Connected { process: process() }], MpiStage::Inside),
        (
            vec![
                Report::Connected { process: process() },
                Report::Finalized { process: process() },
            ],
            MpiStage::After,
        ),
    ] {
        let mut bench = Bench::running();
        let effects = bench.exited(ExitStatus::Code(0));
        assert_eq!(ends(&effects), [], "{effects:?}");
        assert_eq!(orders(&effects), [Order::Ended { process: process() }]);
        for report in said {
            assert_eq!(ends(&bench.said(report)), []);
        }
        let effects = bench.said(Report::Over { process: process() });
        assert_eq!(ends(&effects), [stage], "{effects:?}");
        assert_eq!(ends(&bench.said(Report::Over { process: process() })), []);
    }
}

#[test]
fn the_end_of_a_rank_by_a_signal_is_reported_at_once() {
    let mut bench = Bench::running();
    let effects = bench.exited(ExitStatus::Signal(9));
    assert_eq!(ends(&effects).len(), 1, "{effects:?}");
    assert_eq!(orders(&effects), [Order::Ended { process: process() }]);
    assert_eq!(ends(&bench.said(Report::Over { process: process() })), []);
}

#[test]
fn the_end_of_the_helper_is_the_loss_of_the_job_before_any_end_of_a_rank() {
    let mut bench = Bench::running();
    assert_eq!(ends(&bench.exited(ExitStatus::Code(1))), []);
    let reason = "signal: 9 (SIGKILL)".to_owned();
    let effects = bench.news(PmixNews::Ended { reason });
    let said = to_coordinator(&effects);
    assert!(
        matches!(&said[..], [NodeToCoordinator::Lost { reason }, NodeToCoordinator::Exited(_)]
            if reason == "the process that serves PMIx to ranks on node n1 ended: signal: 9 (SIGKILL)"),
        "{said:?}"
    );
}

#[test]
fn a_helper_that_ends_before_it_has_served_says_itself_why_its_ranks_do_not_start() {
    let mut bench = Bench::new();
    bench.ordered();
    bench.said(Report::Failed {
        reason: "no libpmix".to_owned(),
    });
    let reason = "exit status: 1".to_owned();
    let effects = bench.news(PmixNews::Ended { reason });
    let said = to_coordinator(&effects);
    assert!(said.iter().any(|said| is_refused(said, "no libpmix")), "{said:?}");
    assert_eq!(losses(&effects), [] as [&str; 0]);
}

#[test]
fn words_of_other_nodes_reach_the_helper_and_its_own_reach_them() {
    let mut bench = Bench::running();
    let (node, number, message) = (name(0), 1, vec![7]);
    let from_node = Order::FromNode { node, number, message };
    assert_eq!(orders(&bench.letter(0, 1)), [from_node]);
    for (report, expected) in [
        (
            Report::Heard {
                node: name(0),
                number: 1,
            },
            PmixMessage::Heard { number: 1 },
        ),
        (
            Report::ToNode {
                node: name(0),
                number: 5,
                message: vec![9],
            },
            PmixMessage::Letter {
                number: 5,
                bytes: vec![9],
            },
        ),
    ] {
        let effects = bench.said(report);
        let said = effects.iter().find_map(|effect| match effect {
            Effect::Send {
                node,
                message: DaemonToDaemon::Job { message, .. },
            } => match &**message {
                JobMessage::Pmix { message, .. } => Some((node.clone(), message.clone())),
                _ => None,
            },
            _ => None,
        });
        assert_eq!(said, Some((name(0), expected)));
    }
}

#[test]
fn words_of_another_start_of_the_job_are_not_heard() {
    let mut bench = Bench::running();
    assert_eq!(orders(&bench.letter(2, 1)), [], "it waits for that start");
    let mut early = Bench::new();
    early.letter(0, 1);
    let orders = orders(&early.ordered());
    assert!(
        matches!(
            &orders[..],
            [Order::Serve(_), Order::Register(_), Order::FromNode { .. }]
        ),
        "{orders:?}"
    );
}

#[test]
fn a_process_that_is_given_up_while_it_waits_for_the_helper_is_not_started() {
    let mut bench = Bench::new();
    bench.ordered();
    bench.ordered_by_coordinator(CoordinatorToNode::EndProcesses {
        processes: vec![KEY.process],
        grace_ms: 0,
    });
    let effects = bench.said(registered());
    assert!(launched(&effects).is_none(), "{effects:?}");
    let said = to_coordinator(&effects);
    let words = "it was not wanted any more";
    assert!(said.iter().any(|said| is_refused(said, words)), "{said:?}");
}

#[test]
fn the_helper_ends_with_the_last_process() {
    let mut bench = Bench::running();
    bench.ordered_by_coordinator(CoordinatorToNode::End { grace_ms: 0 });
    let effects = bench.event(Event::Keeper(KeeperFact::JobCleared {
        job: JOB,
        killed: 1,
        segments: 0,
        left: 0,
    }));
    let is_stop = |effect: &Effect| matches!(effect, Effect::Pmix(PmixEffect::Stop { helper: HELPER }));
    assert!(effects.iter().any(is_stop), "{effects:?}");
}

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
