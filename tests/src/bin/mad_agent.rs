//! An agent as no agent should be, for tests: it takes the place of `ios-agent` beside a daemon and does, by the word
//! in `PCM_TEST_MADNESS`, what must not hurt any job. `panic` dies in the middle of a look at a job, as an agent with a
//! faulty policy does; `garbage` says what is no message; `lies` asks for changes that make no sense, names nodes that
//! are none and never stops talking.

use pcm_fabric::{Link, LocalEndpoint};
use pcm_proto::agent::{AgentToAgent, AgentToDaemon, DaemonToAgent, NodeProfile, OfferNumber};
use pcm_proto::control::LayoutChange;
use pcm_proto::event::Decision;
use pcm_proto::handshake::{Identity, Role};
use pcm_proto::ids::{Epoch, JobId, NodeName, Rank};
use std::os::fd::AsFd;
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, _, node] = &words[..] else {
        eprintln!("usage: mad_agent CLUSTER NODE");
        std::process::exit(2);
    };
    let name = NodeName::new(node).expect("a daemon names its node");
    let endpoint = LocalEndpoint::new(Identity::new(Role::Agent { node: name }));
    let given = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .expect("a socket for input");
    let link = endpoint.over(given, Duration::from_secs(5)).await;
    let link = link.expect("the daemon holds the other end");
    let pid = std::process::id();
    link.send(&AgentToDaemon::Ready { pid })
        .await
        .expect("the daemon is there");
    match std::env::var("PCM_TEST_MADNESS").as_deref() {
        Ok("garbage") => {
            let _ = link.send(&("no", "message", [1.5; 7])).await;
            std::future::pending::<()>().await;
        }
        Ok("lies") => lie(link).await,
        _ => panic_at_a_job(link).await,
    }
}

/// Works until it sees a job.
async fn panic_at_a_job(mut link: Link) {
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if link.send(&AgentToDaemon::Sample { about: Vec::new() }).await.is_err() {
            return;
        }
        while let Ok(message) = link.recv::<DaemonToAgent>().await {
            if let DaemonToAgent::Samples { jobs, .. } = message {
                let ranks: usize = jobs.iter().map(|job| job.ranks.len()).sum();
                assert_eq!(ranks, 0, "a policy that cannot stand ranks");
                break;
            }
        }
    }
}

async fn lie(link: Link) {
    let (sender, mut receiver) = link.split();
    let nowhere = NodeName::new("nowhere").expect("a name");
    let changes = [
        LayoutChange::Migrate(vec![(Rank(99), nowhere.clone())]),
        LayoutChange::Expand {
            to: u32::MAX,
            nodes: vec![nowhere.clone()],
        },
        LayoutChange::Leave((0..64).map(Rank).collect()),
        LayoutChange::Arrange {
            moves: vec![(Rank(0), nowhere.clone()), (Rank(0), nowhere.clone())],
            weights: vec![0, u32::MAX],
        },
    ];
    let listening = async { while receiver.recv::<DaemonToAgent>().await.is_ok() {} };
    let lying = async {
        for number in 0_u64.. {
            for message in lies(number, &changes, &nowhere) {
                if sender.send(&message).await.is_err() {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::join!(listening, lying);
}

fn lies(number: u64, changes: &[LayoutChange], nowhere: &NodeName) -> Vec<AgentToDaemon> {
    let job = JobId(1 + number % 3);
    let offer = OfferNumber(number);
    vec![
        AgentToDaemon::Profile(NodeProfile {
            speed: f64::NAN,
            load_by_others: f64::NEG_INFINITY,
            ..NodeProfile::default()
        }),
        AgentToDaemon::Sample {
            about: vec![nowhere.clone(); 1000],
        },
        AgentToDaemon::Propose {
            number,
            job,
            epoch: Epoch(number % 2),
            change: changes[number as usize % changes.len()].clone(),
            cause: "x".repeat(5000),
        },
        AgentToDaemon::Tell {
            to: nowhere.clone(),
            message: Box::new(AgentToAgent::Accept { offer }),
        },
        AgentToDaemon::Decided {
            job,
            decision: Box::new(Decision {
                policy: "y".repeat(5000),
                chosen: Some(String::new()),
                predicted_gain_s: f64::NAN,
                cost_s: f64::INFINITY,
                achieved_gain_s: None,
                considered: vec![(String::new(), f64::NAN); 100],
                reason: String::new(),
            }),
        },
    ]
}
