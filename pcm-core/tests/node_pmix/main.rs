//! A node with a rank of Open MPI: the rank starts when PMIx is served to it, its coordinator hears of its end when the
//! helper has, and the helper's end is the loss of the job.

#[path = "../one_node/mod.rs"]
mod one_node;
mod spawns;

use one_node::{heritage, name, no_past, node, order, start_order};
use pcm_core::moment::Moment;
use pcm_core::node::event::{Event, Held, KeeperFact, PeerFact, RankNews};
use pcm_core::node::outbox::Effect;
use pcm_core::node::pmix::effect::{HelperId, PmixEffect, PmixNews};
use pcm_core::node::ranks::effect::{Attached, RankEffect};
use pcm_core::node::record::Record;
use pcm_core::node::{Heritage, Node};
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
    journal: Vec<Record>,
}

impl Bench {
    fn new() -> Self {
        let now = Moment(1_000_000);
        let mut node = node(1, now, Duration::from_secs(1), None);
        let begun = node.begin(heritage(no_past(1)));
        let journal = Vec::new();
        let mut bench = Self { node, now, journal };
        bench.keep(&begun);
        bench
    }

    fn event(&mut self, event: Event) -> Vec<Effect> {
        self.now = self.now.plus(Duration::from_millis(1));
        let effects = self.node.handle(self.now, event);
        self.keep(&effects);
        effects
    }

    fn keep(&mut self, effects: &[Effect]) {
        for effect in effects {
            if let Effect::Record(record) = effect {
                self.journal.push((**record).clone());
            }
        }
    }

    /// The daemon is killed, and the next one finds the rank.
    fn restarted(&mut self) -> Vec<Effect> {
        let mut past = no_past(1);
        self.journal.iter().for_each(|record| past.take(record.clone()));
        self.node = node(1, self.now, Duration::from_secs(1), None);
        let effects = self.node.begin(Heritage {
            restarts: 1,
            held: vec![held()],
            ..heritage(past)
        });
        self.keep(&effects);
        effects
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
        bench.event(Event::Keeper(KeeperFact::Started(held())));
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

/// The rank as the keeper holds it.
fn held() -> Held {
    Held {
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
