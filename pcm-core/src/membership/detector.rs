//! The failure detector of one node: ticks, packets and the daemon's wishes in; packets and changes out. Silence is
//! counted in time that this node really watched, so a node that was itself held up accuses nobody.

use super::{
    message::{Body, Message, Rejection},
    news::News,
    probing::Probing,
    ring, timing,
    view::{Applied, Change, Details, Health, Member, Update, View},
};
use pcm_proto::ids::NodeName;
use std::{collections::BTreeSet, time::Duration};

/// This node, as its daemon knows it at start.
#[derive(Clone, Debug)]
pub struct LocalNode {
    pub node: NodeName,
    /// Greater than at any earlier start of a daemon with this name; the wall clock in microseconds will do.
    pub boot: u64,
    /// What others shall know of it.
    pub details: Details,
    /// How long another node may be silent before it is taken for dead; the same on all nodes of a cluster.
    pub patience: Duration,
}

/// Where a packet goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// To a member, over the link there is or a new one to [`Membership::member`]'s address.
    Node(NodeName),
    /// To whoever listens at this address.
    Seed(String),
}

/// What the daemon has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this packet; it may be lost.
    Send { to: Target, bytes: Vec<u8> },
    /// A node changed; [`Membership::member`] has its new state.
    Report { node: NodeName, change: Change },
    /// A later daemon with this node's name is in the cluster: this one must end.
    Superseded {
        /// The later one's boot number.
        boot: u64,
    },
    /// The leave has been announced; the daemon may end.
    LeaveComplete,
}

/// What the detector has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub sent: u64,
    pub rejected: u64,
    /// Ticks that came later than [`timing::CREDIT_MAX`] after the one before.
    pub late_ticks: u64,
    /// Nodes this one suspected by itself.
    pub suspected: u64,
    /// Suspicions about this node that it objected to.
    pub objected: u64,
    /// Comparisons in full that it asked for.
    pub syncs: u64,
}

/// The failure detector of one node.
#[derive(Debug)]
pub struct Membership {
    own: Update,
    leaving: Option<u8>,
    superseded: bool,
    /// Whether it has taken a higher number for its boot.
    has_outbid: bool,
    view: View,
    probing: Probing,
    news: News,
    seeds: Vec<String>,
    turn: usize,
    last_tick: Duration,
    next_join: Duration,
    /// A node with mates looks for its seeds seldom from then on.
    seeks_until: Duration,
    next_knock: Duration,
    next_sync: Duration,
    counters: Counters,
}

impl Membership {
    /// A node that knows nobody but the addresses of some that may know others.
    pub fn new(local: LocalNode, seeds: Vec<String>, now: Duration) -> Self {
        let LocalNode {
            node,
            boot,
            details,
            patience,
        } = local;
        let seeds = seeds.into_iter().filter(|seed| *seed != details.address).collect();
        let own = Update {
            node,
            boot,
            revision: 0,
            health: Health::Up,
            suspected_ms: 0,
            details: Some(details),
        };
        Self {
            own,
            leaving: None,
            superseded: false,
            has_outbid: false,
            view: View::new(patience),
            probing: Probing::default(),
            news: News::default(),
            seeds,
            turn: 0,
            last_tick: now,
            next_join: now,
            seeks_until: now + timing::SEEK_MAX,
            next_knock: now + timing::KNOCK_PERIOD,
            next_sync: now,
            counters: Counters::default(),
        }
    }

    /// When [`Membership::on_tick`] wants to be called next.
    pub fn next_tick(&self) -> Duration {
        self.last_tick + timing::TICK
    }

    /// What is believed of another node.
    pub fn member(&self, node: &NodeName) -> Option<&Member> {
        self.view.member(node)
    }

    /// All other nodes that are or lately were members.
    pub fn members(&self) -> impl Iterator<Item = (&NodeName, &Member)> {
        self.view.iter()
    }

    /// The number of this node's boot, by which the others tell a daemon from the ones before it.
    pub fn own_boot(&self) -> u64 {
        self.own.boot
    }

    /// The state this node announces of itself.
    pub fn own_health(&self) -> Health {
        self.own.health
    }

    /// What the detector has seen.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Announces that this node is being emptied, or is not any more.
    pub fn drain(&mut self, draining: bool, now: Duration, out: &mut Vec<Effect>) {
        let health = if draining { Health::Draining } else { Health::Up };
        if self.leaving.is_none() && self.own.health != health {
            self.announce(health);
            self.flush(now, out);
        }
    }

    /// Announces that this node leaves on purpose; ends with [`Effect::LeaveComplete`] after a few ticks.
    pub fn leave(&mut self, now: Duration, out: &mut Vec<Effect>) {
        if self.leaving.is_none() {
            self.leaving = Some(timing::LEAVE_REPEATS);
            self.announce(Health::Left);
            self.flush(now, out);
        }
    }

    /// The link to a node broke or could not be made.
    pub fn on_unreachable(&mut self, node: &NodeName) {
        self.probing.unreachable(node);
    }

    /// Time has passed.
    pub fn on_tick(&mut self, now: Duration, out: &mut Vec<Effect>) {
        let elapsed = now.saturating_sub(self.last_tick);
        self.last_tick = now;
        if elapsed > timing::CREDIT_MAX {
            self.counters.late_ticks += 1;
        }
        let credited = elapsed.min(timing::CREDIT_MAX);
        if let Some(left) = self.leaving {
            self.on_leaving_tick(left, out);
            return;
        }
        for node in self.view.age(credited) {
            self.believe(&node, Health::Gone, out);
        }
        let due = self.probing.age(credited);
        for node in due.suspect {
            if self
                .view
                .member(&node)
                .is_some_and(|member| matches!(member.health, Health::Up | Health::Draining))
            {
                self.counters.suspected += 1;
                self.believe(&node, Health::Suspect, out);
            }
        }
        self.retarget();
        for node in due.probe {
            self.send(&node, Body::Probe, out);
        }
        for subject in due.ask_for_help {
            for helper in self.helpers(&subject) {
                self.send(
                    &helper,
                    Body::ProbeFor {
                        subject: subject.clone(),
                    },
                    out,
                );
            }
        }
        self.join(now, out);
        self.knock(now, out);
        self.flush(now, out);
    }

    /// A packet came over the link of a node.
    pub fn on_message(
        &mut self,
        now: Duration,
        from: &NodeName,
        bytes: &[u8],
        out: &mut Vec<Effect>,
    ) -> Result<(), Rejection> {
        let message = Message::from_bytes(bytes).and_then(|message| match *from == self.own.node {
            true => Err(Rejection::FromOurselves),
            false => Ok(message),
        });
        let message = message.inspect_err(|_| self.counters.rejected += 1)?;
        let has_introduced = |update: &Update| update.node == *from && update.details.is_some();
        let is_introduced = message.updates.iter().any(has_introduced);
        for update in message.updates {
            self.hear(update, out);
        }
        let header = (message.boot, message.revision);
        self.hear_from(from, header, is_introduced, &message.body, out);
        if matches!(message.body, Body::Probe | Body::Answer) {
            self.compare(now, from, message.digest, out);
        }
        match message.body {
            Body::Probe => {
                self.probing.probed_by(from);
                self.send(from, Body::Answer, out);
            }
            Body::ProbeFor { subject } => {
                if self.view.member(&subject).is_some() && self.probing.help(from, &subject) {
                    self.send(&subject, Body::Probe, out);
                }
            }
            Body::Heard { subject, boot } => {
                if self.view.member(&subject).is_some_and(|member| member.boot == boot) {
                    self.probing.heard(&subject);
                }
            }
            Body::Sync { answer_wanted: true } => self.send_all(&Target::Node(from.clone()), false, out),
            Body::WhoAreYou => self.send_with(&Target::Node(from.clone()), Body::News, vec![self.own.clone()], out),
            Body::Sync { answer_wanted: false } | Body::Answer | Body::News => {}
        }
        self.retarget();
        self.flush(now, out);
        Ok(())
    }

    /// What a packet's header says about its sender, which may have introduced itself in the packet.
    fn hear_from(
        &mut self,
        from: &NodeName,
        (boot, revision): (u64, u64),
        is_introduced: bool,
        body: &Body,
        out: &mut Vec<Effect>,
    ) {
        let known = self
            .view
            .member(from)
            .map(|member| (member.boot, member.revision, member.health));
        match known {
            Some((known_boot, known_revision, health)) if known_boot == boot && known_revision >= revision => {
                self.probing.heard(from);
                self.view.hold_suspicion(from);
                for requester in self.probing.take_requesters(from) {
                    self.send(
                        &requester,
                        Body::Heard {
                            subject: from.clone(),
                            boot,
                        },
                        out,
                    );
                }
                // A probe is answered anyway, and every packet tells its receiver what is believed of it.
                if matches!(health, Health::Suspect | Health::Gone) && *body != Body::Probe {
                    self.send(from, Body::News, out);
                }
            }
            Some((known_boot, ..)) if known_boot > boot => self.send(from, Body::News, out),
            // Unknown, or it has said more about itself than reached us. A node that leaves stays unknown: it is not
            // asked again for what it has just said.
            _ if *body != Body::WhoAreYou && !is_introduced => self.send(from, Body::WhoAreYou, out),
            _ => {}
        }
    }

    /// A belief of another node.
    fn hear(&mut self, update: Update, out: &mut Vec<Effect>) {
        if update.node == self.own.node {
            self.hear_about_ourselves(&update, out);
            return;
        }
        let node = update.node.clone();
        let known = self.view.member(&node);
        let is_live = known.is_some_and(|member| member.health.is_live() && member.boot == update.boot);
        // Who was cut off brings such beliefs back: the subject may object before we share them.
        let is_doubted = update.health == Health::Gone && is_live;
        let update = if is_doubted { update.into_suspicion() } else { update };
        let applied = self.view.apply(update);
        self.tell(&node, applied, out);
        if is_doubted && applied != Applied::Nothing {
            self.send(&node, Body::Probe, out);
        }
    }

    fn hear_about_ourselves(&mut self, update: &Update, out: &mut Vec<Effect>) {
        if update.boot > self.own.boot {
            if !self.has_outbid {
                // It may be this node before it was lost, by a clock that was ahead. A daemon that runs bids higher.
                self.has_outbid = true;
                self.own.boot = update.boot + 1;
                self.announce(self.own.health);
            } else if !self.superseded {
                self.superseded = true;
                out.push(Effect::Superseded { boot: update.boot });
            }
        } else if update.boot < self.own.boot {
            self.news.add(&self.own.node, self.view.live_count());
        } else if update.revision >= self.own.revision && update.health != self.own.health && self.leaving.is_none() {
            self.counters.objected += 1;
            self.own.revision = update.revision;
            self.announce(self.own.health);
        }
    }

    /// A belief of our own.
    fn believe(&mut self, node: &NodeName, health: Health, out: &mut Vec<Effect>) {
        if let Some(mut update) = self.view.update(node, false) {
            update.health = health;
            update.suspected_ms = 0;
            let applied = self.view.apply(update);
            self.tell(node, applied, out);
            if health == Health::Suspect {
                self.send(node, Body::Probe, out);
            }
        }
    }

    fn tell(&mut self, node: &NodeName, applied: Applied, out: &mut Vec<Effect>) {
        let change = match applied {
            Applied::Nothing => return,
            Applied::Refreshed => None,
            Applied::Changed(change) => Some(change),
        };
        self.news.add(node, self.view.live_count());
        match self.view.member(node) {
            Some(member) if matches!(member.health, Health::Up | Health::Draining) => self.probing.heard(node),
            Some(member) if !member.health.is_live() => self.probing.forget(node),
            _ => {}
        }
        if let Some(change) = change {
            out.push(Effect::Report {
                node: node.clone(),
                change,
            });
        }
    }

    fn announce(&mut self, health: Health) {
        self.own.revision += 1;
        self.own.health = health;
        self.news.add(&self.own.node, self.view.live_count());
    }

    /// Suspects stay watched until they are gone or have objected; the rings close over them at once.
    fn retarget(&mut self) {
        if !self.view.take_rings_changed() {
            return;
        }
        let mut chosen = ring::subjects(&self.own.node, &self.view.sound());
        let is_suspect = |node: &&NodeName| {
            self.view
                .member(node)
                .is_some_and(|member| member.health == Health::Suspect)
        };
        chosen.extend(self.probing.subjects().filter(is_suspect).cloned());
        self.probing.retarget(chosen);
    }

    fn helpers(&mut self, subject: &NodeName) -> Vec<NodeName> {
        let is_sound = |node: &NodeName| {
            self.view
                .member(node)
                .is_some_and(|m| m.health != Health::Suspect && m.health.is_live())
        };
        let candidates: Vec<NodeName> = self
            .probing
            .neighbours()
            .into_iter()
            .filter(|node| node != subject && is_sound(node))
            .collect();
        self.turn = self.turn.wrapping_add(1);
        let start = self.turn % candidates.len().max(1);
        candidates
            .iter()
            .cycle()
            .skip(start)
            .take(candidates.len().min(timing::HELPERS))
            .cloned()
            .collect()
    }

    /// Two views that differ although all news has been told are compared in full.
    fn compare(&mut self, now: Duration, with: &NodeName, digest: u64, out: &mut Vec<Effect>) {
        if now >= self.next_sync && self.news.is_quiet() && digest != self.view.digest(&self.own) {
            self.next_sync = now + timing::SYNC_PERIOD;
            self.counters.syncs += 1;
            self.send_all(&Target::Node(with.clone()), true, out);
        }
    }

    /// While it has no mates, a node asks one seed after the other; at first also while it knows none of its seeds: its
    /// mates may be as new as it is, and the answers of the seed lost. Later, and seldom, it asks those that no node it
    /// knows of has: where all daemons started again while the network was cut, no side remembers the other.
    fn join(&mut self, now: Duration, out: &mut Vec<Effect>) {
        if now < self.next_join {
            return;
        }
        let has_mates = self.view.live_count() > 0;
        let is_urgent = !has_mates || (now < self.seeks_until && !self.knows_seed());
        let asked: Vec<&String> = match is_urgent {
            true => self.seeds.iter().collect(),
            false if now < self.seeks_until => return,
            false => self.unmet_seeds().collect(),
        };
        let turn = self.turn.wrapping_add(1);
        let Some(seed) = asked.get(turn % asked.len().max(1)) else {
            return;
        };
        let seed = Target::Seed((*seed).clone());
        self.turn = turn;
        self.next_join = now
            + match is_urgent {
                true => timing::JOIN_PERIOD,
                false => timing::SEEK_PERIOD,
            };
        self.send_all(&seed, true, out);
    }

    fn knows_seed(&self) -> bool {
        let mut live = self.view.iter().filter(|(_, member)| member.health.is_live());
        live.any(|(_, member)| self.seeds.contains(&member.details.address))
    }

    /// The seeds that are the address of no node that is known, those included that are gone.
    fn unmet_seeds(&self) -> impl Iterator<Item = &String> {
        let is_met = |seed: &&String| self.view.iter().any(|(_, member)| member.details.address == **seed);
        self.seeds.iter().filter(move |seed| !is_met(seed))
    }

    /// Tries one of the nodes that are taken for dead; if it lives it will object.
    fn knock(&mut self, now: Duration, out: &mut Vec<Effect>) {
        if now < self.next_knock {
            return;
        }
        self.next_knock = now + timing::KNOCK_PERIOD;
        let gone: Vec<&NodeName> = self
            .view
            .iter()
            .filter(|(_, member)| member.health == Health::Gone)
            .map(|(node, _)| node)
            .collect();
        self.turn = self.turn.wrapping_add(1);
        if let Some(node) = gone.get(self.turn % gone.len().max(1)).map(|node| (*node).clone()) {
            self.send(&node, Body::Probe, out);
        }
    }

    fn on_leaving_tick(&mut self, left: u8, out: &mut Vec<Effect>) {
        for node in self.probing.neighbours() {
            self.send_with(&Target::Node(node), Body::News, vec![self.own.clone()], out);
        }
        match left.checked_sub(1) {
            Some(left) => self.leaving = Some(left),
            None => out.push(Effect::LeaveComplete),
        }
    }

    /// Tells the neighbours at once what is new.
    fn flush(&mut self, now: Duration, out: &mut Vec<Effect>) {
        let fresh = self.news.take_fresh(now);
        if fresh.is_empty() {
            return;
        }
        let neighbours: BTreeSet<NodeName> = self.probing.neighbours();
        for updates in fresh.chunks(timing::UPDATES_PER_SYNC) {
            let updates: Vec<Update> = updates.iter().filter_map(|node| self.update(node)).collect();
            for node in &neighbours {
                self.send_with(&Target::Node(node.clone()), Body::News, updates.clone(), out);
            }
        }
    }

    fn update(&self, node: &NodeName) -> Option<Update> {
        if *node == self.own.node {
            Some(self.own.clone())
        } else {
            self.view.update(node, false)
        }
    }

    /// One packet to a member, with the news that is due and with what is held against it.
    fn send(&mut self, to: &NodeName, body: Body, out: &mut Vec<Effect>) {
        let mut told = self.news.take_for_message();
        if self
            .view
            .member(to)
            .is_some_and(|member| !matches!(member.health, Health::Up | Health::Draining))
        {
            told.retain(|node| node != to);
            told.push(to.clone());
        }
        let updates = told.iter().filter_map(|node| self.update(node)).collect();
        self.send_with(&Target::Node(to.clone()), body, updates, out);
    }

    /// Everything this node believes.
    fn send_all(&mut self, to: &Target, answer_wanted: bool, out: &mut Vec<Effect>) {
        let others = self.view.iter().filter_map(|(node, _)| self.view.update(node, true));
        let all: Vec<Update> = std::iter::once(self.own.clone()).chain(others).collect();
        let pieces = all.chunks(timing::UPDATES_PER_SYNC);
        let last = pieces.len() - 1;
        for (index, piece) in pieces.enumerate() {
            let body = Body::Sync {
                answer_wanted: answer_wanted && index == last,
            };
            self.send_with(to, body, piece.to_vec(), out);
        }
    }

    fn send_with(&mut self, to: &Target, body: Body, updates: Vec<Update>, out: &mut Vec<Effect>) {
        self.counters.sent += 1;
        let digest = self.view.digest(&self.own);
        let message = Message {
            boot: self.own.boot,
            revision: self.own.revision,
            digest,
            body,
            updates,
        };
        out.push(Effect::Send {
            to: to.clone(),
            bytes: message.to_bytes(),
        });
    }
}
