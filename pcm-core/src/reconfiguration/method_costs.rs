//! What changes have cost on this cluster, by method, and which method follows from that for the next one. Methods are
//! compared only where they changed the same program in the same way, and one replaces the default only where the
//! default was measured too. Must never try a method out on somebody's job.

use pcm_proto::ids::Bytes;
use pcm_proto::method::Method;
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

/// Changes remembered: some hundred a method, and a search that takes well below a millisecond.
pub const REMEMBERED_MAX: usize = 4096;

/// The newest changes by a method in one situation that count: older ones may be of other times.
const COUNTED_MAX: usize = 40;

/// Fewer changes say nothing: of so many, the highest below the lowest of as many others is no chance any more.
const COUNTED_MIN: usize = 5;

/// How far two methods' pauses must be apart, in standard deviations of the sum of their ranks: by chance alone one of
/// eleven equal methods would get there in seven of a hundred.
const APART: f64 = 2.5;

/// A method must cost less than this share of the default: below lies what measurements of minutes vary by.
const CLEARLY: f64 = 0.95;

/// Situations further away than this are not the like: a factor of four in one size, or of two in two.
const FAR: f64 = 1.4;

/// What the program itself is worth as a difference, and its arguments: sizes within a third say more than either.
const OTHER_PROGRAM: f64 = 0.6;
const OTHER_ARGUMENTS: f64 = 0.3;

/// From no constant data to nothing else.
const OTHER_DATA: f64 = 2.0;

/// Data below this moves in no time that could be told from none.
const BYTES_OF_NO_ACCOUNT: f64 = (1 << 20) as f64;

/// Sizes of data within about a quarter of each other are one.
const SIZE_CLASSES: f64 = 4.0;

/// Longest name of a program that is told from others.
const PROGRAM_MAX: usize = 48;

/// What is changed, and how far.
#[derive(Clone, Debug, PartialEq)]
pub struct Situation {
    pub from: u32,
    pub to: u32,
    /// Data that all ranks together have registered.
    pub registered: Bytes,
    /// The constant part of it.
    pub constant: Bytes,
    /// The program, by [`program_name`].
    pub program: String,
    /// Its arguments, by [`fingerprint`].
    pub arguments: u32,
}

/// What one change by a method cost.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodCost {
    /// What was changed.
    pub situation: Situation,
    pub method: Method,
    /// Longest time any rank's application code was held.
    pub pause_ms: f64,
}

/// A method, and why it is the one.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    pub method: Method,
    /// The numbers behind it, for people.
    pub reason: String,
}

/// See the file head.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MethodCosts {
    seen: VecDeque<MethodCost>,
}

/// Situations that count as one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    from: u32,
    to: u32,
    size_class: i64,
    constant_quarters: i64,
    program: String,
    arguments: u32,
}

/// The last part of a program's path, of letters that need no quoting.
pub fn program_name(path: &[u8]) -> String {
    let last = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let plain = |byte: &u8| match *byte {
        byte if byte.is_ascii_alphanumeric() || b"._+-".contains(&byte) => char::from(byte),
        _ => '_',
    };
    last.iter().take(PROGRAM_MAX).map(plain).collect()
}

/// A number that arguments can be told apart by (FNV-1a).
pub fn fingerprint<'a>(arguments: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let bytes = arguments.into_iter().flat_map(|argument| argument.iter().chain(&[0]));
    bytes.fold(0x811c_9dc5, |sum: u32, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

impl MethodCost {
    /// Whether a change can have cost that.
    pub fn is_sensible(&self) -> bool {
        let Situation { from, to, .. } = self.situation;
        self.pause_ms.is_finite() && self.pause_ms > 0.0 && from > 0 && to > 0
    }
}

impl MethodCosts {
    /// One more change was made. What makes no sense is left out.
    pub fn learn(&mut self, cost: MethodCost) {
        if !cost.is_sensible() {
            return;
        }
        if self.seen.len() == REMEMBERED_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back(cost);
    }

    /// What is remembered, oldest first.
    pub fn seen(&self) -> impl Iterator<Item = &MethodCost> {
        self.seen.iter()
    }

    /// The method with the lowest median pause in the nearest situation where methods were compared.
    pub fn choose(&self, wanted: &Situation) -> Choice {
        let default = Method::default();
        let mut kinds: BTreeMap<Kind, Vec<&MethodCost>> = BTreeMap::new();
        let near = |cost: &&MethodCost| distance(&cost.situation, wanted) <= FAR;
        for cost in self.seen.iter().rev().filter(near) {
            kinds.entry(Kind::of(&cost.situation)).or_default().push(cost);
        }
        let found = kinds
            .values()
            .filter_map(|costs| {
                let compared = Compared::of(costs)?;
                Some((distance(&costs[0].situation, wanted), compared))
            })
            .min_by(|(one, _), (other, _)| one.total_cmp(other));
        let Some((_, compared)) = found else {
            let reason = match kinds.len() {
                0 => "the default: no change like this one was measured here".to_owned(),
                _ => format!(
                    "the default: nothing was measured here beside it {COUNTED_MIN} times for a change like this one"
                ),
            };
            return Choice {
                method: default,
                reason,
            };
        };
        compared.choice()
    }
}

/// The default and the best other method in one kind of situation.
struct Compared<'a> {
    situation: &'a Situation,
    default: Pauses,
    best: (Method, Pauses),
}

/// How long changes by one method have held a job, shortest first.
struct Pauses(Vec<f64>);

impl<'a> Compared<'a> {
    /// `None` where the default or everything else was measured too seldom. Newest first.
    fn of(costs: &[&'a MethodCost]) -> Option<Self> {
        let mut pauses: BTreeMap<Method, Vec<f64>> = BTreeMap::new();
        for cost in costs {
            let counted = pauses.entry(cost.method).or_default();
            if counted.len() < COUNTED_MAX {
                counted.push(cost.pause_ms);
            }
        }
        pauses.retain(|_, pauses| pauses.len() >= COUNTED_MIN);
        let mut pauses: BTreeMap<Method, Pauses> = pauses
            .into_iter()
            .map(|(method, pauses)| (method, Pauses::of(pauses)))
            .collect();
        let default = pauses.remove(&Method::default())?;
        let best = pauses
            .into_iter()
            .min_by(|(_, one), (_, other)| one.median().total_cmp(&other.median()))?;
        let situation = &costs.first()?.situation;
        Some(Self {
            situation,
            default,
            best,
        })
    }

    fn choice(&self) -> Choice {
        let Self {
            situation,
            default,
            best,
        } = self;
        let (other, pauses) = best;
        let told = |method: Method, pauses: &Pauses| {
            let (median, changes) = (pauses.median(), pauses.0.len());
            format!("{method} {median:.1} ms (median pause of {changes})")
        };
        let figures = format!(
            "{}, {}; changes of {} from {} to {} ranks with {:.0} MiB",
            told(Method::default(), default),
            told(*other, pauses),
            situation.program,
            situation.from,
            situation.to,
            situation.registered.0 as f64 / BYTES_OF_NO_ACCOUNT
        );
        match pauses.are_below(default) && pauses.median() < default.median() * CLEARLY {
            true => Choice {
                method: *other,
                reason: format!("measured here: {figures}"),
            },
            false => Choice {
                method: Method::default(),
                reason: format!("the default, and nothing measured here is clearly cheaper: {figures}"),
            },
        }
    }
}

impl Pauses {
    fn of(mut pauses: Vec<f64>) -> Self {
        pauses.sort_by(f64::total_cmp);
        Self(pauses)
    }

    fn median(&self) -> f64 {
        let Self(pauses) = self;
        let half = pauses.len() / 2;
        match pauses.len() % 2 {
            1 => pauses[half],
            _ => f64::midpoint(pauses[half - 1], pauses[half]),
        }
    }

    /// Whether these are shorter by more than chance (Wilcoxon's rank sum): medians of noisy pauses always differ, and
    /// among eleven methods chance favours one.
    fn are_below(&self, others: &Self) -> bool {
        let (n, m) = (self.0.len() as f64, others.0.len() as f64);
        let pairs = self
            .0
            .iter()
            .flat_map(|one| others.0.iter().map(move |other| (one, other)));
        let shorter: f64 = pairs
            .map(|(one, other)| match one.total_cmp(other) {
                Ordering::Less => 1.0,
                Ordering::Equal => 0.5,
                Ordering::Greater => 0.0,
            })
            .sum();
        shorter - n * m / 2.0 > APART * (n * m * (n + m + 1.0) / 12.0).sqrt()
    }
}

impl Kind {
    fn of(situation: &Situation) -> Self {
        Self {
            from: situation.from,
            to: situation.to,
            size_class: (size(situation).ln() * SIZE_CLASSES).round() as i64,
            constant_quarters: (constant_share(situation) * 4.0).round() as i64,
            program: situation.program.clone(),
            arguments: situation.arguments,
        }
    }
}

fn size(situation: &Situation) -> f64 {
    situation.registered.0 as f64 + BYTES_OF_NO_ACCOUNT
}

fn constant_share(situation: &Situation) -> f64 {
    match situation.registered.0 {
        0 => 0.0,
        registered => (situation.constant.0 as f64 / registered as f64).min(1.0),
    }
}

/// How unlike two situations are: 0 for the same; growing is nothing like shrinking.
fn distance(one: &Situation, other: &Situation) -> f64 {
    let direction = |situation: &Situation| -> Ordering { situation.from.cmp(&situation.to) };
    if direction(one) != direction(other) {
        return f64::INFINITY;
    }
    let factor = |one: f64, other: f64| (one / other).ln().abs();
    let program = match (one.program == other.program, one.arguments == other.arguments) {
        (true, true) => 0.0,
        (true, false) => OTHER_ARGUMENTS,
        (false, _) => OTHER_PROGRAM,
    };
    factor(f64::from(one.from), f64::from(other.from))
        + factor(f64::from(one.to), f64::from(other.to))
        + factor(size(one), size(other))
        + (constant_share(one) - constant_share(other)).abs() * OTHER_DATA
        + program
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    pub(in crate::reconfiguration) fn situation(from: u32, to: u32, mib: u64) -> Situation {
        Situation {
            from,
            to,
            registered: Bytes(mib * MIB),
            constant: Bytes(0),
            program: "heat2d".to_owned(),
            arguments: 7,
        }
    }

    fn measured(changes: &[(Situation, &str, f64)]) -> MethodCosts {
        let mut costs = MethodCosts::default();
        for (situation, method, pause_ms) in changes {
            for noise in [0.0, 0.1, -0.1, 0.2, -0.2] {
                costs.learn(MethodCost {
                    situation: situation.clone(),
                    method: method.parse().unwrap(),
                    pause_ms: pause_ms + noise,
                });
            }
        }
        costs
    }

    #[test]
    fn without_measurements_of_the_like_the_default_is_chosen() {
        let nothing = MethodCosts::default().choose(&situation(2, 4, 0));
        assert_eq!(nothing.method, Method::default());
        assert!(nothing.reason.contains("no change like this one"), "{nothing:?}");
        let costs = measured(&[
            (situation(2, 4, 64), "merge-p2p-async", 20.0),
            (situation(2, 4, 64), "baseline-p2p-sync", 10.0),
        ]);
        let chosen = costs.choose(&situation(2, 4, 64));
        assert_eq!(chosen.method.as_str(), "baseline-p2p-sync");
        assert!(
            chosen.reason.contains("baseline-p2p-sync 10.0 ms (median pause of 5)"),
            "{chosen:?}"
        );
        assert!(chosen.reason.contains("merge-p2p-async 20.0 ms"), "{chosen:?}");
        for (from, to, mib) in [(4, 2, 64), (2, 20, 64), (2, 4, 4096)] {
            let chosen = costs.choose(&situation(from, to, mib));
            assert_eq!(chosen.method, Method::default(), "{from} {to} {mib}");
        }
    }

    #[test]
    fn the_nearest_sizes_decide_and_about_as_cheap_is_no_reason_to_leave_the_default() {
        let costs = measured(&[
            (situation(2, 4, 64), "merge-p2p-async", 20.0),
            (situation(2, 4, 64), "merge-collective-async", 19.5),
            (situation(2, 4, 64), "baseline-p2p-sync", 50.0),
            (situation(3, 6, 64), "merge-p2p-async", 40.0),
            (situation(3, 6, 64), "merge-collective-async", 30.0),
        ]);
        let stays = costs.choose(&situation(2, 4, 60));
        assert_eq!(stays.method, Method::default());
        assert!(stays.reason.contains("clearly cheaper"), "{stays:?}");
        for (from, to) in [(3, 6), (3, 7)] {
            let chosen = costs.choose(&situation(from, to, 70));
            assert_eq!(chosen.method.as_str(), "merge-collective-async", "{from} {to}");
        }
    }

    #[test]
    fn pauses_that_overlap_are_no_reason_to_leave_the_default() {
        let mut costs = MethodCosts::default();
        let mut learn = |method: &str, pauses: [f64; 5]| {
            for pause_ms in pauses {
                costs.learn(MethodCost {
                    situation: situation(1, 2, 16),
                    method: method.parse().unwrap(),
                    pause_ms,
                });
            }
            costs.choose(&situation(1, 2, 16)).method
        };
        learn("merge-p2p-async", [10.0, 40.0, 50.0, 30.0, 35.0]);
        let few = learn("baseline-p2p-sync", [9.0, 20.0, 60.0, 15.0, 16.0]);
        assert_eq!(few, Method::default());
        // What five leave open forty decide.
        let many = (0..7).map(|_| {
            learn("merge-p2p-async", [10.0, 40.0, 50.0, 30.0, 35.0]);
            learn("baseline-p2p-sync", [9.0, 20.0, 60.0, 15.0, 16.0])
        });
        assert_eq!(many.last().map(Method::as_str), Some("baseline-p2p-sync"));
    }

    #[test]
    fn a_method_that_was_not_measured_beside_the_default_does_not_replace_it() {
        let costs = measured(&[(situation(2, 4, 64), "merge-collective-async", 1.0)]);
        let stays = costs.choose(&situation(2, 4, 64));
        assert_eq!(stays.method, Method::default());
        assert!(
            stays.reason.contains("nothing was measured here beside it"),
            "{stays:?}"
        );
        let other_kind = Situation {
            constant: Bytes(64 * MIB),
            ..situation(2, 4, 64)
        };
        let apart = measured(&[
            (situation(2, 4, 64), "merge-collective-async", 1.0),
            (other_kind, "merge-p2p-async", 5.0),
        ]);
        assert_eq!(apart.choose(&situation(2, 4, 64)).method, Method::default());
    }

    #[test]
    fn a_program_whose_own_changes_compare_nothing_follows_what_a_bench_compared() {
        let bench = Situation {
            program: "pcm-moving".to_owned(),
            ..situation(2, 4, 64)
        };
        let costs = measured(&[
            (situation(2, 4, 64), "merge-p2p-async", 5.0),
            (bench.clone(), "merge-p2p-async", 20.0),
            (bench, "merge-p2p-sync", 12.0),
        ]);
        let chosen = costs.choose(&situation(2, 4, 64));
        assert_eq!(chosen.method.as_str(), "merge-p2p-sync");
        assert!(chosen.reason.contains("of pcm-moving from 2 to 4"), "{chosen:?}");
    }

    #[test]
    fn old_measurements_give_way_to_new_ones_and_senseless_ones_are_left_out() {
        let here = situation(2, 4, 64);
        let mut costs = measured(&[
            (here.clone(), "merge-p2p-async", 20.0),
            (here.clone(), "merge-p2p-sync", 10.0),
        ]);
        let default = costs.seen[0].clone();
        for _ in 0..COUNTED_MAX {
            costs.learn(MethodCost {
                pause_ms: 5.0,
                ..default.clone()
            });
        }
        assert_eq!(costs.choose(&here).method, Method::default());
        let before = costs.clone();
        for pause_ms in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            costs.learn(MethodCost {
                pause_ms,
                ..default.clone()
            });
        }
        assert_eq!(costs, before);
        for _ in 0..2 * REMEMBERED_MAX {
            costs.learn(default.clone());
        }
        assert_eq!(costs.seen.len(), REMEMBERED_MAX);
    }

    #[test]
    fn programs_are_named_without_their_folder_and_arguments_told_apart() {
        assert_eq!(program_name(b"/some where/my prog,1"), "my_prog_1");
        assert_eq!(program_name(&[b'a'; 1000]).len(), PROGRAM_MAX);
        let print = |arguments: &[&str]| fingerprint(arguments.iter().map(|argument| argument.as_bytes()));
        assert_ne!(print(&["a", "b"]), print(&["ab"]));
        assert_eq!(print(&["a", "b"]), print(&["a", "b"]));
    }
}
