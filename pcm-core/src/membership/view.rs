//! What one node believes about the others. A belief is replaced only by a newer one: a later boot of the same name,
//! a later revision of the same boot (only the node itself makes those), or, for the same revision, a worse state.

use super::timing;
use pcm_proto::{fabric::UdAddress, ids::NodeName};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Health {
    Up,
    /// It answers and is being emptied.
    Draining,
    /// Somebody has not heard from it for [`timing::SUSPECT_AFTER`]; it may still object.
    Suspect,
    /// It is taken for dead or cut off.
    Gone,
    /// It left on purpose.
    Left,
}

impl Health {
    /// Whether the node may still be used and is watched.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Up | Self::Draining | Self::Suspect)
    }

    fn weight(self) -> u8 {
        match self {
            Self::Up | Self::Draining => 0,
            Self::Suspect => 1,
            Self::Gone => 2,
            Self::Left => 3,
        }
    }
}

/// What a node says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Where its daemon listens, as `host:port`.
    pub address: String,
    pub site: String,
    /// The CPUs it may use.
    pub cpus: Vec<u32>,
    /// Nodes with the same number can share memory among their processes.
    pub host: u64,
    /// Where datagrams over InfiniBand or RoCE reach its daemon, if it has a device.
    pub ud: Option<UdAddress>,
}

impl Details {
    pub(super) fn fits(&self) -> bool {
        self.address.len() <= timing::ADDRESS_LENGTH_MAX
            && self.site.len() <= pcm_proto::ids::NAME_LENGTH_MAX
            && self.cpus.len() <= timing::CPUS_MAX
    }
}

/// What is believed of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which start of the daemon; a later start has a greater number.
    pub boot: u64,
    /// Which statement of the node about itself.
    pub revision: u64,
    pub health: Health,
    /// What it says about itself.
    pub details: Details,
    /// Time until a suspicion is believed or a dead node is forgotten; without meaning otherwise.
    pub(super) left: Duration,
}

/// One belief on its way to others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Update {
    pub(super) node: NodeName,
    pub(super) boot: u64,
    pub(super) revision: u64,
    pub(super) health: Health,
    /// How long ago a suspicion arose, so that all believe it at about the same time.
    pub(super) suspected_ms: u32,
    /// Absent where the receiver can be expected to know them.
    pub(super) details: Option<Details>,
}

impl Update {
    /// The same as a suspicion that is nearly believed: its subject has [`timing::SUSPICION_LEFT_MIN`] to object.
    pub(super) fn into_suspicion(self) -> Self {
        Self {
            health: Health::Suspect,
            suspected_ms: u32::MAX,
            ..self
        }
    }

    fn order(&self) -> (u64, u64, u8) {
        (self.boot, self.revision, self.health.weight())
    }
}

/// What happened to a node, as far as the daemon has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Joined,
    /// It has been started again; everything its former daemon held is to be asked for anew.
    Restarted,
    /// It has not been heard for a while.
    Suspected,
    /// It objected to a suspicion.
    Recovered,
    /// It is dead or cut off.
    Failed,
    /// It left on purpose.
    Left,
    /// It was taken for dead and is back, with the same daemon.
    Returned,
    /// It takes no new ranks.
    Draining,
    /// It takes new ranks again.
    Undrained,
}

/// Beliefs about all other nodes.
#[derive(Debug)]
pub(super) struct View {
    /// How long a suspicion waits for an objection.
    suspicion: Duration,
    members: BTreeMap<NodeName, Member>,
    /// Of the live members; kept up to date because every packet carries it.
    digest: u64,
    /// Whether the set of members that can watch and be watched has changed since it was last asked for.
    rings_changed: bool,
}

/// What an update did to the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Applied {
    /// It was old, or about a node we need not know.
    Nothing,
    /// It is newer but changes nothing that the daemon sees.
    Refreshed,
    /// It is a change.
    Changed(Change),
}

impl View {
    /// Nobody is known yet.
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            suspicion: patience.saturating_sub(timing::SUSPECT_AFTER),
            members: BTreeMap::new(),
            digest: 0,
            rings_changed: false,
        }
    }

    pub(super) fn member(&self, node: &NodeName) -> Option<&Member> {
        self.members.get(node)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&NodeName, &Member)> {
        self.members.iter()
    }

    pub(super) fn live_count(&self) -> usize {
        self.members.values().filter(|member| member.health.is_live()).count()
    }

    /// Takes a belief of another node, or one of our own about a third.
    pub(super) fn apply(&mut self, update: Update) -> Applied {
        let order = update.order();
        let left = self.left(update.health, update.suspected_ms);
        let Some(known) = self.members.get_mut(&update.node) else {
            return self.add(update);
        };
        if order <= (known.boot, known.revision, known.health.weight()) {
            return Applied::Nothing;
        }
        let before = (known.boot, known.health);
        self.digest ^= digest_of(&update.node, known.boot, known.revision, known.health);
        self.digest ^= digest_of(&update.node, update.boot, update.revision, update.health);
        self.rings_changed |= known.health != update.health;
        known.boot = update.boot;
        known.revision = update.revision;
        known.health = update.health;
        known.left = left;
        if let Some(details) = update.details {
            known.details = details;
        }
        change(before, (update.boot, update.health)).map_or(Applied::Refreshed, Applied::Changed)
    }

    fn add(&mut self, update: Update) -> Applied {
        let (true, Some(details)) = (update.health.is_live(), update.details) else {
            return Applied::Nothing;
        };
        if self.members.len() >= timing::MEMBERS_MAX {
            return Applied::Nothing;
        }
        let left = self.left(update.health, update.suspected_ms);
        self.digest ^= digest_of(&update.node, update.boot, update.revision, update.health);
        self.rings_changed = true;
        let member = Member {
            boot: update.boot,
            revision: update.revision,
            health: update.health,
            details,
            left,
        };
        self.members.insert(update.node, member);
        Applied::Changed(Change::Joined)
    }

    /// Time until a suspicion is believed or a dead node is forgotten.
    fn left(&self, health: Health, suspected_ms: u32) -> Duration {
        match health {
            Health::Suspect => self
                .suspicion
                .saturating_sub(Duration::from_millis(u64::from(suspected_ms)))
                .max(timing::SUSPICION_LEFT_MIN),
            _ => timing::GONE_KEPT,
        }
    }

    /// Lets time pass; returns the nodes whose suspicion is to be believed now.
    pub(super) fn age(&mut self, credited: Duration) -> Vec<NodeName> {
        let mut overdue = Vec::new();
        self.members.retain(|node, member| {
            if matches!(member.health, Health::Up | Health::Draining) {
                return true;
            }
            member.left = member.left.saturating_sub(credited);
            if member.health == Health::Suspect && member.left.is_zero() {
                overdue.push(node.clone());
            }
            member.health == Health::Suspect || !member.left.is_zero()
        });
        overdue
    }

    /// We hear a suspect ourselves, so we do not give up on it before it had time to object.
    pub(super) fn hold_suspicion(&mut self, node: &NodeName) {
        if let Some(member) = self.members.get_mut(node)
            && member.health == Health::Suspect
        {
            member.left = member.left.max(self.suspicion / 2);
        }
    }

    /// The belief about a node, to be told to others.
    pub(super) fn update(&self, node: &NodeName, with_details: bool) -> Option<Update> {
        let member = self.members.get(node)?;
        let wanted = matches!(member.health, Health::Up | Health::Draining) || with_details;
        let suspected = match member.health {
            Health::Suspect => self.suspicion.saturating_sub(member.left),
            _ => Duration::ZERO,
        };
        Some(Update {
            node: node.clone(),
            boot: member.boot,
            revision: member.revision,
            health: member.health,
            suspected_ms: u32::try_from(suspected.as_millis()).unwrap_or(u32::MAX),
            details: wanted.then(|| member.details.clone()),
        })
    }

    /// Equal where two nodes believe the same of the living; `own` is the update about the asking node itself.
    pub(super) fn digest(&self, own: &Update) -> u64 {
        self.digest ^ digest_of(&own.node, own.boot, own.revision, own.health)
    }

    /// Whether the rings have to be drawn anew.
    pub(super) fn take_rings_changed(&mut self) -> bool {
        std::mem::take(&mut self.rings_changed)
    }

    /// The nodes that stand in the rings.
    pub(super) fn sound(&self) -> Vec<&NodeName> {
        let is_sound = |member: &Member| matches!(member.health, Health::Up | Health::Draining);
        self.members
            .iter()
            .filter(|(_, member)| is_sound(member))
            .map(|(node, _)| node)
            .collect()
    }
}

/// Nothing for those who do not live, which some nodes remember and others do not.
fn digest_of(node: &NodeName, boot: u64, revision: u64, health: Health) -> u64 {
    match health.is_live() {
        true => super::ring::hash(
            boot ^ revision.rotate_left(32) ^ u64::from(health.weight()),
            node.as_str(),
        ),
        false => 0,
    }
}

fn change(before: (u64, Health), after: (u64, Health)) -> Option<Change> {
    match (before.1, after.1) {
        (_, Health::Gone) if before.1 != Health::Gone => Some(Change::Failed),
        (_, Health::Left) if before.1 != Health::Left => Some(Change::Left),
        (_, Health::Up | Health::Draining | Health::Suspect) if after.0 > before.0 => Some(Change::Restarted),
        (Health::Gone | Health::Left, Health::Up | Health::Draining | Health::Suspect) => Some(Change::Returned),
        (Health::Up | Health::Draining, Health::Suspect) => Some(Change::Suspected),
        (Health::Suspect, Health::Up | Health::Draining) => Some(Change::Recovered),
        (Health::Up, Health::Draining) => Some(Change::Draining),
        (Health::Draining, Health::Up) => Some(Change::Undrained),
        _ => None,
    }
}
