//! Every number by which agents decide, with its default. A cluster replaces some of them with a file `agents.toml`
//! in its directory; what the file does not name keeps its default, a name it must not use is an error.

use serde::{Deserialize, Serialize};

/// The documented file: all names and defaults, ready to be copied and changed.
pub const DOCUMENTED: &str = include_str!("../../agents.toml");

/// Numbers of all parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tuning {
    /// When a proposal is good enough.
    pub judge: JudgeTuning,
    /// What a change costs before any was measured.
    pub cost: CostTuning,
    /// What links are like before any was measured.
    pub links: LinkTuning,
    /// When a job grows, shrinks or shares its data anew.
    pub size: SizeTuning,
    /// Weights of the policy `rsm`.
    pub rsm: RsmTuning,
    /// How far `nts` goes.
    pub nts: NtsTuning,
    /// How work is sought.
    pub steal: StealTuning,
}

/// Hysteresis, cool-down, learning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JudgeTuning {
    /// Time between two looks at a job.
    pub period_ms: u64,
    /// Looks in a row at which a proposal must be the same and good.
    pub holds: u32,
    /// Part of the time per iteration that must be gained.
    pub gain_min: f64,
    /// A change that gains a smaller part must hold longer, in proportion.
    pub gain_sure: f64,
    /// The gain must be this many times the cost.
    pub gain_per_cost_min: f64,
    /// Time after a change before the next one.
    pub cool_down_s: f64,
    /// Longest that time becomes when changes do not deliver.
    pub cool_down_max_s: f64,
    /// A change that brought less than this part of its prediction counts as failed.
    pub achieved_min: f64,
    /// A failed change is not tried again for so long.
    pub block_s: f64,
    /// Part of the run time that may be spent on changes.
    pub spend: f64,
    /// Seconds that may be spent at once.
    pub spend_burst_s: f64,
    /// A job is left alone for so long after its start.
    pub settle_s: f64,
    /// A job that somebody else changed is left alone for so long.
    pub hands_off_s: f64,
}

impl Default for JudgeTuning {
    fn default() -> Self {
        Self {
            period_ms: 250,
            holds: 3,
            gain_min: 0.08,
            gain_sure: 0.33,
            gain_per_cost_min: 3.0,
            cool_down_s: 3.0,
            cool_down_max_s: 120.0,
            achieved_min: 0.25,
            block_s: 60.0,
            spend: 0.015,
            spend_burst_s: 1.0,
            settle_s: 1.0,
            hands_off_s: 30.0,
        }
    }
}

/// Cost of a change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CostTuning {
    /// Pause of a change that moves no data.
    pub fixed_ms: f64,
    /// Data that moves, per second.
    pub megabytes_per_s: f64,
}

impl Default for CostTuning {
    fn default() -> Self {
        Self {
            fixed_ms: 60.0,
            megabytes_per_s: 500.0,
        }
    }
}

/// Links between two ranks, by how far they are apart; what holds where nothing was measured, or no more exactly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkTuning {
    /// Latency on one host.
    pub host_us: f64,
    /// Latency within a site.
    pub site_us: f64,
    /// Latency between sites.
    pub far_us: f64,
    /// Bandwidth on one host.
    pub host_megabytes_per_s: f64,
    /// Bandwidth within a site.
    pub site_megabytes_per_s: f64,
    /// Bandwidth between sites.
    pub far_megabytes_per_s: f64,
    /// What the daemons add to a measured latency at most.
    pub daemons_us: f64,
    /// What copies of checkpoints reach at least where no link holds them up.
    pub copies_megabytes_per_s: f64,
}

impl Default for LinkTuning {
    fn default() -> Self {
        Self {
            host_us: 2.0,
            site_us: 50.0,
            far_us: 10_000.0,
            host_megabytes_per_s: 5000.0,
            site_megabytes_per_s: 1000.0,
            far_megabytes_per_s: 20.0,
            daemons_us: 300.0,
            copies_megabytes_per_s: 250.0,
        }
    }
}

/// Growing, shrinking, shares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SizeTuning {
    /// A job grows only while at least this part of its time is useful.
    pub grow_useful_min: f64,
    /// Ranks that may join at once, as a part of those there are; at least one may.
    pub grow_part_max: f64,
    /// Part by which time in MPI grows when the number of ranks doubles, until it was measured.
    pub mpi_growth: f64,
    /// A job shrinks when less than this part of its time is useful and fewer ranks are no slower.
    pub shrink_useful_max: f64,
    /// What fewer ranks may cost in time per iteration.
    pub shrink_loss_max: f64,
    /// A node whose owner has used it for so long without a pause is given back.
    pub owner_s: f64,
    /// CPUs an owner must use to count, as a part of the node's.
    pub owner_load: f64,
}

impl Default for SizeTuning {
    fn default() -> Self {
        Self {
            grow_useful_min: 0.7,
            grow_part_max: 1.0,
            mpi_growth: 0.3,
            shrink_useful_max: 0.35,
            shrink_loss_max: 0.01,
            owner_s: 10.0,
            owner_load: 0.5,
        }
    }
}

/// Weights of resources.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RsmTuning {
    pub cpu: f64,
    pub memory: f64,
    pub network: f64,
}

impl Default for RsmTuning {
    fn default() -> Self {
        Self {
            cpu: 0.7,
            memory: 0.1,
            network: 0.2,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NtsTuning {
    /// A change that spreads a job over more sites must gain this many times as much.
    pub far_factor: f64,
}

impl Default for NtsTuning {
    fn default() -> Self {
        Self { far_factor: 5.0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StealTuning {
    /// CPUs a node must have to spare to ask for work.
    pub spare_min: f64,
    /// Nodes asked at once.
    pub peers: u32,
    /// Nodes a request is passed on to, one after the other.
    pub hops: u8,
    /// Pause after a request that brought nothing; doubled each time.
    pub pause_s: f64,
    pub pause_max_s: f64,
    /// A thief that asked is remembered for so long.
    pub remember_s: f64,
    /// An offer is answered within this time.
    pub offer_s: f64,
    /// A place is kept for so long.
    pub keep_s: f64,
    /// A thief collects offers for so long before it takes the neediest.
    pub choose_ms: u64,
}

impl Default for StealTuning {
    fn default() -> Self {
        Self {
            spare_min: 0.6,
            peers: 2,
            hops: 6,
            pause_s: 1.0,
            pause_max_s: 60.0,
            remember_s: 60.0,
            offer_s: 1.0,
            keep_s: 60.0,
            choose_ms: 100,
        }
    }
}

/// Why a tuning file is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TuningError {
    /// It cannot be read as what it should be.
    #[error("agents.toml is not understood, the defaults hold: {message}")]
    Form {
        /// Where and what, in the words of the reader.
        message: String,
    },
    /// A number makes no sense.
    #[error("agents.toml: {name} must be {must}; the defaults hold until it is corrected")]
    Range {
        name: &'static str,
        /// What it must be.
        must: &'static str,
    },
}

impl Tuning {
    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Self, TuningError> {
        let tuning: Self = toml::from_str(text).map_err(|error| TuningError::Form {
            message: error.to_string(),
        })?;
        tuning.check()?;
        Ok(tuning)
    }

    fn check(&self) -> Result<(), TuningError> {
        let (judge, size, steal, links) = (&self.judge, &self.size, &self.steal, &self.links);
        let rules = [
            positive("judge.period_ms", judge.period_ms as f64),
            share("judge.gain_min", judge.gain_min),
            share("judge.gain_sure", judge.gain_sure),
            at_least("judge.gain_per_cost_min", "at least 1", judge.gain_per_cost_min, 1.0),
            positive("judge.cool_down_s", judge.cool_down_s),
            at_least(
                "judge.cool_down_max_s",
                "at least cool_down_s",
                judge.cool_down_max_s,
                judge.cool_down_s,
            ),
            share("judge.spend", judge.spend),
            positive("cost.megabytes_per_s", self.cost.megabytes_per_s),
            positive("links.host_megabytes_per_s", links.host_megabytes_per_s),
            positive("links.site_megabytes_per_s", links.site_megabytes_per_s),
            positive("links.far_megabytes_per_s", links.far_megabytes_per_s),
            positive("links.copies_megabytes_per_s", links.copies_megabytes_per_s),
            at_least("links.daemons_us", "0 or more", links.daemons_us, 0.0),
            share("size.grow_useful_min", size.grow_useful_min),
            positive("steal.pause_s", steal.pause_s),
            at_least(
                "steal.pause_max_s",
                "at least pause_s",
                steal.pause_max_s,
                steal.pause_s,
            ),
            at_least("steal.keep_s", "at least offer_s", steal.keep_s, steal.offer_s),
        ];
        match rules.iter().find(|rule| !rule.holds()) {
            Some(Rule { name, must, .. }) => Err(TuningError::Range { name, must }),
            None => Ok(()),
        }
    }
}

/// What a number of the file has to be.
struct Rule {
    name: &'static str,
    must: &'static str,
    value: f64,
    least: f64,
    most: f64,
}

impl Rule {
    /// No number that is none holds.
    fn holds(&self) -> bool {
        self.value >= self.least && self.value <= self.most
    }
}

fn at_least(name: &'static str, must: &'static str, value: f64, least: f64) -> Rule {
    Rule {
        name,
        must,
        value,
        least,
        most: f64::MAX,
    }
}

fn positive(name: &'static str, value: f64) -> Rule {
    at_least(name, "above 0 and finite", value, f64::MIN_POSITIVE)
}

fn share(name: &'static str, value: f64) -> Rule {
    Rule {
        most: 1.0,
        ..at_least(name, "from 0 to 1", value, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_file_names_every_number_with_its_default() {
        let documented = Tuning::parse(DOCUMENTED).unwrap();
        assert_eq!(documented, Tuning::default());
        let names = |text: &str| -> toml::Table { text.parse().unwrap() };
        let own = names(&toml::to_string(&Tuning::default()).unwrap());
        let file = names(DOCUMENTED);
        for (part, numbers) in &own {
            let named = file[part].as_table().unwrap();
            for name in numbers.as_table().unwrap().keys() {
                assert!(named.contains_key(name), "{part}.{name}");
            }
        }
    }

    #[test]
    fn a_file_changes_what_it_names_and_nothing_else() {
        let tuning = Tuning::parse("[judge]\nholds = 9\n").unwrap();
        assert_eq!(tuning.judge.holds, 9);
        assert_eq!(tuning.steal, StealTuning::default());
    }

    #[test]
    fn wrong_names_and_senseless_numbers_are_refused() {
        assert!(matches!(
            Tuning::parse("[judge]\nhold = 9\n"),
            Err(TuningError::Form { .. })
        ));
        let text = "[steal]\npause_s = 0\n";
        assert!(matches!(
            Tuning::parse(text),
            Err(TuningError::Range {
                name: "steal.pause_s",
                ..
            })
        ));
        assert!(Tuning::parse("[links]\nfar_megabytes_per_s = nan\n").is_err());
    }
}
