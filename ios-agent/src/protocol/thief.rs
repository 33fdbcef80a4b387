//! The side that has room: asks for work while it has a CPU to spare, keeps places for what it was offered. Pure.
//!
//! | place | event | becomes |
//! | --- | --- | --- |
//! | none | `Offer`, room | waiting until others have had time to offer |
//! | none | `Offer`, no room or draining | none, `Decline` |
//! | waiting | its time is up | kept, `Accept`, if it is among the neediest that fit; else none, `Decline` |
//! | waiting, kept | the same `Offer` again | unchanged; a kept one says `Accept` again |
//! | waiting, kept | `Release`, `Moved` | none |
//! | kept | its deadline | none; the leader is dead or its `Release` was lost |

use super::effects::Outbox;
use crate::decide::tuning::StealTuning;
use crate::decide::view::SPARE_TO_ACCEPT;
use pcm_core::moment::Moment;
use pcm_proto::agent::{AgentToAgent, Need, Neighbour, OfferNumber, Resources};
use pcm_proto::ids::{JobId, NodeName};
use pcm_proto::random::Random;
use std::collections::BTreeMap;
use std::time::Duration;

/// Offers a node deals with at once.
const OFFERS_MAX: usize = 32;

#[derive(Clone, Debug, PartialEq)]
struct Offered {
    job: JobId,
    ranks: u32,
    need: Need,
    size_permille: u32,
    gain_s: f64,
    is_kept: bool,
    until: Moment,
}

/// What an offer says.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub job: JobId,
    /// Ranks it would bring.
    pub ranks: u32,
    pub need: Need,
    /// How far the job has grown.
    pub size_permille: u32,
    /// What it would gain.
    pub gain_s: f64,
}

/// A node as a thief.
#[derive(Clone, Debug)]
pub struct Thief {
    next_ask: Moment,
    pause: Duration,
    had_spare: bool,
    offers: BTreeMap<(NodeName, OfferNumber), Offered>,
}

impl Thief {
    /// A node that has just joined: it asks at once.
    pub fn new(now: Moment, tuning: &StealTuning) -> Self {
        Self {
            next_ask: now,
            pause: Duration::from_secs_f64(tuning.pause_s),
            had_spare: false,
            offers: BTreeMap::new(),
        }
    }

    /// Ranks for which a place is kept.
    pub fn promised(&self) -> u32 {
        let kept = self.offers.values().filter(|offered| offered.is_kept);
        kept.map(|offered| offered.ranks).sum()
    }

    /// CPUs nobody wants.
    pub fn spare(own: &Resources) -> f64 {
        own.cpus.len() as f64 - own.demand_by_others - f64::from(own.ranks)
    }

    /// Whether the node would take a rank now. `own` counts promised ranks.
    pub fn is_hungry(own: &Resources, tuning: &StealTuning) -> bool {
        !own.is_draining && !own.ends_soon && Self::spare(own) >= tuning.spare_min
    }

    /// Asks for work when it is time to.
    pub fn ask(
        &mut self,
        now: Moment,
        own: &Resources,
        near: &[Neighbour],
        tuning: &StealTuning,
        draw: &mut Random,
        out: &mut Outbox,
    ) {
        let is_hungry = Self::is_hungry(own, tuning);
        if is_hungry && !self.had_spare {
            self.pause = Duration::from_secs_f64(tuning.pause_s);
            // Never sooner than a pause after the last time: a load that flickers must not make noise.
            self.next_ask = self.next_ask.min(now.plus(self.pause));
        }
        self.had_spare = is_hungry;
        if !is_hungry || now < self.next_ask || near.is_empty() {
            return;
        }
        let all: Vec<&NodeName> = near.iter().map(|near| &near.node).collect();
        for to in draw.some(&all, tuning.peers as usize) {
            let thief = Box::new(own.clone());
            out.tell(
                to,
                AgentToAgent::Steal {
                    thief,
                    hops: tuning.hops,
                },
            );
        }
        let spread = 0.75 + 0.5 * draw.unit();
        self.next_ask = now.plus(self.pause.mul_f64(spread));
        self.pause = (self.pause * 2).min(Duration::from_secs_f64(tuning.pause_max_s));
    }

    /// Somebody offers ranks. `has_own_only` says whether all ranks here are of the job that is offered.
    pub fn on_offer(
        &mut self,
        now: Moment,
        from: &NodeName,
        offer: OfferNumber,
        terms: Terms,
        room: Room<'_>,
        out: &mut Outbox,
    ) {
        let key = (from.clone(), offer);
        if let Some(known) = self.offers.get(&key) {
            if known.is_kept {
                out.tell(from, AgentToAgent::Accept { offer });
            }
            return;
        }
        if self.offers.len() >= OFFERS_MAX || !room.fits(terms.ranks) {
            return out.tell(from, AgentToAgent::Decline { offer });
        }
        let Terms {
            job,
            ranks,
            need,
            size_permille,
            gain_s,
        } = terms;
        let until = now.plus(Duration::from_millis(room.tuning.choose_ms));
        let offered = Offered {
            job,
            ranks,
            need,
            size_permille,
            gain_s,
            is_kept: false,
            until,
        };
        self.offers.insert(key, offered);
    }

    /// Chooses among the offers whose time is up, and gives up places that were kept too long.
    pub fn choose(
        &mut self,
        now: Moment,
        own: &Resources,
        own_jobs: &BTreeMap<JobId, u32>,
        tuning: &StealTuning,
        out: &mut Outbox,
    ) {
        self.offers.retain(|_, offered| !offered.is_kept || now < offered.until);
        if !self
            .offers
            .values()
            .any(|offered| !offered.is_kept && now >= offered.until)
        {
            return;
        }
        let waiting = self.offers.iter().filter(|(_, offered)| !offered.is_kept);
        let mut waiting: Vec<((NodeName, OfferNumber), Offered)> =
            waiting.map(|(key, offered)| (key.clone(), offered.clone())).collect();
        // The neediest first: urgency, then the job that has grown least, then the greatest gain.
        waiting.sort_by(|(a_key, a), (b_key, b)| {
            let by_need = b.need.cmp(&a.need).then(a.size_permille.cmp(&b.size_permille));
            by_need.then(b.gain_s.total_cmp(&a.gain_s)).then(a_key.cmp(b_key))
        });
        let mut taken = 0;
        for (key, offered) in waiting {
            let present = Resources {
                ranks: own.ranks + taken,
                ..own.clone()
            };
            let room = Room {
                own: &present,
                own_jobs,
                job: offered.job,
                tuning,
            };
            let (from, offer) = key.clone();
            if room.fits(offered.ranks) {
                taken += offered.ranks;
                let until = now.plus(Duration::from_secs_f64(tuning.keep_s));
                self.offers.insert(
                    key,
                    Offered {
                        is_kept: true,
                        until,
                        ..offered
                    },
                );
                out.tell(&from, AgentToAgent::Accept { offer });
            } else {
                self.offers.remove(&key);
                out.tell(&from, AgentToAgent::Decline { offer });
            }
        }
    }

    /// A place is not needed.
    pub fn on_release(&mut self, from: &NodeName, offer: OfferNumber) {
        self.offers.remove(&(from.clone(), offer));
    }

    /// The ranks came: where there was work there may be more.
    pub fn on_moved(&mut self, now: Moment, from: &NodeName, offer: OfferNumber, tuning: &StealTuning) {
        if self.offers.remove(&(from.clone(), offer)).is_some() {
            self.pause = Duration::from_secs_f64(tuning.pause_s);
            self.next_ask = now.plus(self.pause);
        }
    }

    /// Offers that are dealt with now.
    pub fn open_offers(&self) -> usize {
        self.offers.len()
    }
}

/// What there is room for.
#[derive(Clone, Copy, Debug)]
pub struct Room<'a> {
    /// The node, promised ranks counted.
    pub own: &'a Resources,
    /// Ranks here by job.
    pub own_jobs: &'a BTreeMap<JobId, u32>,
    /// The job that is offered.
    pub job: JobId,
    pub tuning: &'a StealTuning,
}

impl Room<'_> {
    /// Whether so many ranks may come. A job may crowd CPUs that only it uses; it knows best.
    fn fits(&self, ranks: u32) -> bool {
        if self.own.is_draining || self.own.ends_soon {
            return false;
        }
        let of_job = self.own_jobs.get(&self.job).copied().unwrap_or(0);
        let is_its_own = of_job > 0 && self.own.ranks == of_job;
        is_its_own || Thief::spare(self.own) - f64::from(ranks - 1) >= SPARE_TO_ACCEPT.min(self.tuning.spare_min)
    }
}
