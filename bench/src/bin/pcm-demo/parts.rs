//! How fast the job goes in each part of the demo: iterations over time between two marks. Pure: time is an argument.

use pcm_bench::pace::Pace;
use std::time::Duration;

/// What was seen of the job's progress, and where parts of the demo begin.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) pace: Pace,
    marks: Vec<(String, f64)>,
}

/// One part of the demo.
#[derive(Debug, PartialEq)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) seconds: f64,
    pub(super) per_second: f64,
}

impl Parts {
    /// A part begins.
    pub(super) fn mark(&mut self, at: Duration, name: impl Into<String>) {
        self.marks.push((name.into(), at.as_secs_f64()));
    }

    /// The parts in order, as far as something was seen; what is shorter than an instant has no rate and is left out.
    pub(super) fn rates(&self) -> Vec<Part> {
        let Some((first, last)) = self.pace.span() else {
            return Vec::new();
        };
        let starts = self.marks.iter().map(|(_, at)| at.clamp(first, last));
        let ends = starts.clone().skip(1).chain([last]);
        let spans = self.marks.iter().zip(starts.zip(ends));
        let parts = spans.map(|((name, _), (start, end))| Part {
            name: name.clone(),
            seconds: end - start,
            per_second: (self.pace.done_at(end) - self.pace.done_at(start)) / (end - start),
        });
        parts.filter(|part| part.seconds > 0.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(marks: &[(f64, &str)], seen: &[(f64, u64)]) -> Vec<(String, f64)> {
        let mut parts = Parts::default();
        seen.iter().for_each(|(at_s, done)| parts.pace.saw(*at_s, *done));
        for (at_s, name) in marks {
            parts.mark(Duration::from_secs_f64(*at_s), *name);
        }
        let rates = parts.rates().into_iter();
        rates.map(|part| (part.name, part.per_second)).collect()
    }

    #[test]
    fn each_part_has_the_rate_between_its_marks() {
        let seen = [(0.0, 0), (1.0, 100), (2.0, 200), (3.0, 220), (4.0, 420)];
        let expected = [("before", 100.0), ("while it changes", 20.0), ("after", 200.0)];
        let marks = [(0.0, "before"), (2.0, "while it changes"), (3.0, "after")];
        assert_eq!(
            parts(&marks, &seen),
            expected.map(|(name, rate)| (name.to_owned(), rate))
        );
    }

    #[test]
    fn a_part_that_nothing_was_seen_of_is_left_out() {
        assert_eq!(parts(&[(0.0, "before")], &[]), []);
        let marks = [(0.0, "before"), (9.0, "never")];
        assert_eq!(parts(&marks, &[(0.5, 10), (1.5, 20)]), [("before".to_owned(), 10.0)]);
    }
}
