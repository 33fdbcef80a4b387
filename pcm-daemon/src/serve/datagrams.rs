//! Messages to other daemons without a connection: which may go so, to whom they can, and whether they were confirmed.
//! What is not confirmed comes back to its sender, which has connections; nothing is lost here in silence.

use super::datagram_way::{Turn, Way};
use super::event::Event;
use pcm_fabric::ClusterKey;
use pcm_fabric::datagram::{
    Datagram, DatagramLimits, DatagramService as _, ExchangeError, MESSAGE_LENGTH_MAX, PACKET_LENGTH_SAFE, key_epoch,
};
use pcm_fabric::hybrid::{Choice, Service, Tuning};
use pcm_proto::fabric::{FabricReport, FabricWish, Spoken, TUNING_FILE, Telling, say, understand};
use pcm_proto::ids::NodeName;
use pcm_proto::peer::{Answer, DaemonToDaemon, JobMessage, Question};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::mpsc;

/// A message that is not confirmed by then goes over a connection. Far above a round trip of a loaded machine, and
/// below what the failure detector waits before it asks others.
const CONFIRM_WITHIN: Duration = Duration::from_millis(500);

/// The same for a message that others wait behind.
const CONFIRM_IN_ORDER_WITHIN: Duration = Duration::from_millis(250);

/// What is said of a node that is connected and confirms no datagrams.
pub(super) const SILENT: &str = "it confirms no datagrams while it can be connected to: UDP may be blocked on the way";

/// Where a connection is there already, it is as fast for everything that takes more than one packet.
const BESIDE_LINK_MAX: usize = PACKET_LENGTH_SAFE - 132;

/// How a message is to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// It may be lost, come twice, or overtake others.
    Loose,
    /// It is numbered: it comes once in each life of its receiver, and in its order.
    InOrder,
    /// The same, and another life of its receiver does not get it again: only a connection can carry it.
    Once,
}

/// How a message is to arrive, by what it is.
pub(super) fn manner(message: &DaemonToDaemon) -> Manner {
    match message {
        DaemonToDaemon::Membership(_) | DaemonToDaemon::Report(_) | DaemonToDaemon::Agent(_) => Manner::Loose,
        DaemonToDaemon::Job { .. } => Manner::InOrder,
        DaemonToDaemon::Ask { question, .. } => match **question {
            Question::Ping
            | Question::Report
            | Question::JobNumber
            | Question::Jobs
            | Question::Ranks { .. }
            | Question::Look { .. }
            | Question::Events { .. } => Manner::Loose,
            Question::Trace { .. } | Question::Control(_) | Question::EndJobs | Question::Quit => Manner::Once,
        },
        DaemonToDaemon::Answer { answer, .. } => match **answer {
            Answer::Pong { .. }
            | Answer::Report(_)
            | Answer::JobNumber(_)
            | Answer::Jobs(_)
            | Answer::Ranks(_)
            | Answer::Look(_)
            | Answer::Events(_) => Manner::Loose,
            Answer::Trace(_) | Answer::Control(_) | Answer::Done => Manner::Once,
        },
    }
}

/// A message on its way as a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(u64);

/// What became of it.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) node: NodeName,
    pub(super) number: Number,
    /// The message, where its sender did not keep it.
    pub(super) message: Option<Box<DaemonToDaemon>>,
    pub(super) outcome: Result<(), ExchangeError>,
}

/// The datagram service of this daemon.
#[derive(Debug)]
pub(super) struct Datagrams {
    own: NodeName,
    endpoint: Option<Datagram<SocketAddr>>,
    /// Why nothing better is in use, wherever the message goes.
    why_not: Vec<String>,
    tuning: Tuning,
    tuning_file: PathBuf,
    tuned_at: Option<SystemTime>,
    epoch: u32,
    ways: BTreeMap<NodeName, Way>,
    events: mpsc::Sender<Event>,
    count: u64,
}

impl Datagrams {
    /// Opens the port beside the connections'. An error means that what the owner insists on cannot be had.
    pub(super) async fn open(
        own: NodeName,
        wish: FabricWish,
        (key, port): (&ClusterKey, SocketAddr),
        cluster_dir: &Path,
        events: mpsc::Sender<Event>,
    ) -> Result<Self, String> {
        let epoch = key_epoch(SystemTime::now());
        let mut why_not = Vec::new();
        let endpoint = match wish {
            FabricWish::Rdma => {
                return Err("InfiniBand and RoCE are not used by daemons yet: boot with --fabric auto".to_owned());
            }
            FabricWish::Tcp => {
                why_not.push("udp: the cluster was booted with --fabric tcp".to_owned());
                None
            }
            FabricWish::Auto | FabricWish::Udp => {
                match Datagram::udp(port, key, epoch, DatagramLimits::default()).await {
                    Ok(endpoint) => Some(endpoint),
                    Err(error) if wish == FabricWish::Auto => {
                        why_not.push(format!("udp: port {port} cannot be used ({error})"));
                        None
                    }
                    Err(error) => {
                        return Err(format!(
                            "UDP port {port} cannot be used ({error}): boot with --fabric auto or tcp"
                        ));
                    }
                }
            }
        };
        why_not.push("rdma: daemons do not use InfiniBand and RoCE yet".to_owned());
        if let Some(endpoint) = endpoint.clone() {
            tokio::spawn(hear(endpoint, own.clone(), events.clone()));
        }
        let mut datagrams = Self {
            own,
            endpoint,
            why_not,
            tuning: Tuning::default(),
            tuning_file: cluster_dir.join(TUNING_FILE),
            tuned_at: None,
            epoch,
            ways: BTreeMap::new(),
            events,
            count: 0,
        };
        if datagrams.endpoint.is_some() {
            datagrams.look_at_tuning();
        }
        Ok(datagrams)
    }

    /// What carries this node's messages. Datagrams that no other node confirms are none.
    pub(super) fn report(&self) -> FabricReport {
        let silent = self.ways.iter().filter(|(_, way)| way.is_silent());
        let silent: Vec<String> = silent.map(|(node, _)| format!("udp to {node}: {SILENT}")).collect();
        let is_used = self.endpoint.is_some() && (silent.is_empty() || silent.len() < self.ways.len());
        FabricReport {
            datagrams: if is_used { "udp" } else { "none" }.to_owned(),
            connections: "tcp".to_owned(),
            why_not: silent.into_iter().chain(self.why_not.iter().cloned()).collect(),
        }
    }

    /// Turns to new keys and to new costs when it is time.
    pub(super) fn on_beat(&mut self) {
        let Some(endpoint) = self.endpoint.clone() else { return };
        self.look_at_tuning();
        let epoch = key_epoch(SystemTime::now());
        if epoch != self.epoch {
            self.epoch = epoch;
            tokio::spawn(async move { endpoint.turn(epoch).await });
        }
    }

    /// Reads what `pcmctl doctor --tune` wrote, if it did so lately.
    fn look_at_tuning(&mut self) {
        let written_at = std::fs::metadata(&self.tuning_file).and_then(|metadata| metadata.modified());
        let Ok(written_at) = written_at else { return };
        if self.tuned_at.replace(written_at) == Some(written_at) {
            return;
        }
        let text = std::fs::read(&self.tuning_file).unwrap_or_default();
        match serde_json::from_slice(&text) {
            Ok(tuning) => {
                self.tuning = tuning;
                tracing::info!(?tuning, "what exchanges cost on this fabric");
            }
            Err(error) => {
                tracing::warn!(file = %self.tuning_file.display(), %error, "this is no tuning: run `pcmctl doctor --tune` again");
            }
        }
    }

    /// What costs less for this many bytes to each of so many nodes, without connections to them.
    pub(super) fn choose(&self, members: usize, bytes: usize) -> Choice {
        self.tuning.choose(members, bytes)
    }

    /// Whether any message may go as one.
    pub(super) fn are_in_use(&self) -> bool {
        self.endpoint.is_some()
    }

    /// Whether datagrams to this node are known to arrive.
    pub(super) fn is_proven(&self, node: &NodeName) -> bool {
        self.endpoint.is_some() && self.ways.get(node).is_some_and(Way::is_proven)
    }

    /// Sends a message that keeps no order, or gives it back where a connection is the better way.
    pub(super) fn send_loose(
        &mut self,
        node: &NodeName,
        address: Option<&str>,
        message: DaemonToDaemon,
        is_linked: bool,
    ) -> Result<Number, DaemonToDaemon> {
        let max = if is_linked { BESIDE_LINK_MAX } else { MESSAGE_LENGTH_MAX };
        let told = Telling {
            ordinal: None,
            message: &message,
        };
        match address.and_then(|address| self.packed(node, address, told, (1, max))) {
            Some((address, bytes)) => Ok(self.spawn(node, address, bytes, Some(Box::new(message)))),
            None => Err(message),
        }
    }

    /// Sends a message that keeps its order to a node without a connection, or nothing where a connection is the better
    /// way. Its sender keeps it.
    pub(super) fn send_in_order(
        &mut self,
        node: &NodeName,
        address: &str,
        told: Telling<'_>,
        members: usize,
    ) -> Option<Number> {
        if manner(told.message) == Manner::Once {
            return None;
        }
        let (address, bytes) = self.packed(node, address, told, (members, MESSAGE_LENGTH_MAX))?;
        Some(self.spawn(node, address, bytes, None))
    }

    /// Where the message goes and its bytes, if it should be a datagram.
    fn packed(
        &mut self,
        node: &NodeName,
        address: &str,
        told: Telling<'_>,
        (members, max): (usize, usize),
    ) -> Option<(SocketAddr, Vec<u8>)> {
        self.endpoint.as_ref()?;
        let address = address.parse().ok()?;
        let bytes = say(&self.own, told, max).ok()?;
        let is_beside_link = max == BESIDE_LINK_MAX;
        let is_cheaper = is_beside_link || self.tuning.choose(members, bytes.len()).service == Service::Datagram;
        let may = is_cheaper && self.ways.entry(node.clone()).or_default().take_leave(Instant::now());
        may.then_some((address, bytes))
    }

    fn spawn(
        &mut self,
        node: &NodeName,
        address: SocketAddr,
        bytes: Vec<u8>,
        message: Option<Box<DaemonToDaemon>>,
    ) -> Number {
        self.count += 1;
        let number = Number(self.count);
        let within = if message.is_some() {
            CONFIRM_WITHIN
        } else {
            CONFIRM_IN_ORDER_WITHIN
        };
        let (endpoint, events, node) = (self.endpoint.clone(), self.events.clone(), node.clone());
        tokio::spawn(async move {
            let outcome = match endpoint {
                Some(endpoint) => endpoint.exchange(address, bytes, within).await,
                None => Err(ExchangeError::Stopped),
            };
            let sent = Sent {
                node,
                number,
                message,
                outcome,
            };
            let _ = events.send(Event::DatagramSent(Box::new(sent))).await;
        });
        number
    }

    /// A datagram came from this node.
    pub(super) fn on_heard(&mut self, node: &NodeName) {
        self.ways.entry(node.clone()).or_default().on_heard();
    }

    /// A datagram to this node was confirmed or not.
    pub(super) fn on_sent(
        &mut self,
        node: &NodeName,
        outcome: &Result<(), ExchangeError>,
        is_linked: bool,
    ) -> Option<Turn> {
        let way = self.ways.entry(node.clone()).or_default();
        match outcome {
            Ok(()) => way.on_confirmed(),
            // Too much at once says nothing of the network.
            Err(ExchangeError::Refused(_)) => None,
            Err(ExchangeError::Failed(_) | ExchangeError::Stopped) => way.on_unconfirmed(Instant::now(), is_linked),
        }
    }

    /// The node is taken for dead; what comes back under its name is tried anew.
    pub(super) fn forget(&mut self, node: &NodeName) {
        self.ways.remove(node);
    }
}

/// How many nodes are told the same as this one, from here.
pub(super) fn members(message: &DaemonToDaemon, own: &NodeName) -> usize {
    let DaemonToDaemon::Job { message, .. } = message else {
        return 1;
    };
    let JobMessage::Start(order) = &**message else {
        return 1;
    };
    let place = order.tree.iter().position(|node| node == own).unwrap_or(0);
    pcm_core::job::tree::children(place, order.tree.len()).len().max(1)
}

/// Passes on what comes in datagrams, until the endpoint stops.
async fn hear(endpoint: Datagram<SocketAddr>, own: NodeName, events: mpsc::Sender<Event>) {
    while let Some(received) = endpoint.receive().await {
        match understand(&received.message) {
            Ok(Spoken::Said { from, told }) if from != own => {
                let said = Event::DatagramSaid { node: from, told };
                if events.send(said).await.is_err() {
                    return;
                }
            }
            Ok(Spoken::Said { .. } | Spoken::Measured(_)) => {}
            Err(error) => tracing::warn!(from = ?received.from, %error, "a datagram is not understood"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_fabric::datagram::ExchangeFailure;
    use pcm_proto::control::ControlToDaemon;
    use pcm_proto::ids::JobId;

    fn ask(question: Question) -> DaemonToDaemon {
        DaemonToDaemon::Ask {
            ask: 1,
            question: Box::new(question),
        }
    }

    #[test]
    fn a_request_that_changes_something_is_never_said_twice() {
        assert_eq!(manner(&ask(Question::Quit)), Manner::Once);
        let kill = ControlToDaemon::Kill { job: JobId(1) };
        assert_eq!(manner(&ask(Question::Control(Box::new(kill)))), Manner::Once);
        assert_eq!(manner(&ask(Question::Ping)), Manner::Loose);
    }

    #[test]
    fn messages_about_a_job_keep_their_order() {
        let message = Box::new(JobMessage::Emptied);
        assert_eq!(manner(&DaemonToDaemon::Job { job: JobId(1), message }), Manner::InOrder);
    }

    async fn two() -> ([Datagrams; 2], [mpsc::Receiver<Event>; 2], [String; 2]) {
        let key = ClusterKey::from_hex("test", &"5a".repeat(32)).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut made = Vec::new();
        for name in ["n0", "n1"] {
            let (events, heard) = mpsc::channel(16);
            let own = NodeName::new(name).unwrap();
            let port = SocketAddr::from(([127, 0, 0, 1], 0));
            let open = Datagrams::open(own, FabricWish::Udp, (&key, port), directory.path(), events);
            let datagrams = open.await.unwrap();
            let address = datagrams.endpoint.as_ref().unwrap().local().to_string();
            made.push((datagrams, heard, address));
        }
        let [(a, from_a, at_a), (b, from_b, at_b)]: [_; 2] = made.try_into().ok().unwrap();
        ([a, b], [from_a, from_b], [at_a, at_b])
    }

    #[tokio::test]
    async fn a_port_that_is_taken_stops_only_who_insists_on_it() {
        let taken = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = taken.local_addr().unwrap();
        let key = ClusterKey::from_hex("test", &"5a".repeat(32)).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let open = |wish| {
            let (own, (events, _)) = (NodeName::new("n0").unwrap(), mpsc::channel(16));
            Datagrams::open(own, wish, (&key, port), directory.path(), events)
        };
        let report = open(FabricWish::Auto).await.unwrap().report();
        assert_eq!(report.datagrams, "none");
        assert!(report.why_not[0].contains("cannot be used"), "{report:?}");
        let refused = open(FabricWish::Udp).await.unwrap_err();
        assert!(refused.contains("--fabric auto"), "{refused}");
    }

    #[tokio::test]
    async fn a_message_arrives_and_its_sender_hears_so() {
        let ([mut a, mut b], [mut at_a, mut at_b], [_, address]) = two().await;
        let (there, message) = (b.own.clone(), DaemonToDaemon::Membership(vec![1; 300]));
        let number = a.send_loose(&there, Some(&address), message.clone(), false).unwrap();
        let Some(Event::DatagramSaid { node, told }) = at_b.recv().await else {
            panic!("nothing was heard");
        };
        assert_eq!((&node, told.message), (&a.own, message));
        b.on_heard(&node);
        let Some(Event::DatagramSent(sent)) = at_a.recv().await else {
            panic!("nothing was confirmed");
        };
        assert_eq!((sent.number, sent.outcome), (number, Ok(())));
        assert!(!a.is_proven(&there));
        a.on_sent(&there, &Ok(()), false);
        assert!(a.is_proven(&there));
    }

    #[tokio::test]
    async fn a_message_that_nobody_confirms_comes_back() {
        let ([mut a, b], [mut at_a, _], [_, address]) = two().await;
        let there = b.own.clone();
        drop(b);
        let closed = "127.0.0.1:1";
        assert_ne!(address, closed);
        let message = DaemonToDaemon::Membership(vec![7; 10]);
        a.send_loose(&there, Some(closed), message.clone(), false).unwrap();
        let Some(Event::DatagramSent(sent)) = at_a.recv().await else {
            panic!("nothing came back");
        };
        assert!(matches!(sent.outcome, Err(ExchangeError::Failed(_))));
        assert_eq!(sent.message.as_deref(), Some(&message));
    }

    #[tokio::test]
    async fn what_is_long_or_must_come_once_is_given_back_at_once() {
        let ([mut a, b], _, [_, address]) = two().await;
        let long = DaemonToDaemon::Membership(vec![0; MESSAGE_LENGTH_MAX]);
        assert_eq!(a.send_loose(&b.own, Some(&address), long.clone(), false), Err(long));
        let beside = DaemonToDaemon::Membership(vec![0; BESIDE_LINK_MAX]);
        assert_eq!(a.send_loose(&b.own, Some(&address), beside.clone(), true), Err(beside));
        let quit = ask(Question::Quit);
        let told = Telling {
            ordinal: None,
            message: &quit,
        };
        assert_eq!(a.send_in_order(&b.own, &address, told, 1), None);
        let unknown = DaemonToDaemon::Membership(vec![0]);
        assert_eq!(a.send_loose(&b.own, None, unknown.clone(), false), Err(unknown));
    }

    #[tokio::test]
    async fn what_no_node_confirms_is_said_to_be_of_no_use() {
        let ([mut a, b], _, _) = two().await;
        assert_eq!(a.report().datagrams, "udp");
        let failed = Err(ExchangeError::Failed(ExchangeFailure::Deadline));
        for _ in 0..3 {
            a.on_sent(&b.own, &failed, true);
        }
        let report = a.report();
        assert_eq!(report.datagrams, "none");
        assert!(report.why_not[0].starts_with("udp to n1"), "{report:?}");
        let third = NodeName::new("n2").unwrap();
        a.on_heard(&third);
        let report = a.report();
        assert_eq!(report.datagrams, "udp");
        assert!(report.why_not[0].starts_with("udp to n1"), "{report:?}");
    }
}
