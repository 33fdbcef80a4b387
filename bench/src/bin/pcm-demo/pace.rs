//! How fast the job goes in each part of the demo: iterations over time between two marks. Pure: time is an argument.

use std::time::Duration;

/// What was seen of the job's progress, and where parts of the demo begin.
#[derive(Debug, Default)]
pub(super) struct Pace {
    seen: Vec<(f64, f64)>,
    marks: Vec<(String, f64)>,
}

/// One part of the demo.
#[derive(Debug, PartialEq)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) seconds: f64,
    pub(super) per_second: f64,
}

impl Pace {
    /// So many iterations were done at this time.
    pub(super) fn saw(&mut self, at: Duration, done: u64) {
        self.seen.push((at.as_secs_f64(), done as f64));
    }

    /// A part begins.
    pub(super) fn mark(&mut self, at: Duration, name: impl Into<String>) {
        self.marks.push((name.into(), at.as_secs_f64()));
    }

    /// The parts in order, up to what was seen last; what is shorter than an instant has no rate and is left out.
    pub(super) fn parts(&self) -> Vec<Part> {
        let (Some(first), Some(last)) = (self.seen.first(), self.seen.last()) else {
            return Vec::new();
        };
        let starts = self.marks.iter().map(|(_, at)| at.clamp(first.0, last.0));
        let ends = starts.clone().skip(1).chain([last.0]);
        let spans = self.marks.iter().zip(starts.zip(ends));
        spans
            .filter(|(_, (start, end))| end > start)
            .map(|((name, _), (start, end))| Part {
                name: name.clone(),
                seconds: end - start,
                per_second: (self.done_at(end) - self.done_at(start)) / (end - start),
            })
            .collect()
    }

    /// Between two sightings the job is taken to go evenly.
    fn done_at(&self, at: f64) -> f64 {
        let after = self.seen.partition_point(|(seen, _)| *seen < at);
        match (
            after.checked_sub(1).map(|before| self.seen[before]),
            self.seen.get(after),
        ) {
            (Some((t0, d0)), Some((t1, d1))) if t1 > &t0 => d0 + (d1 - d0) * (at - t0) / (t1 - t0),
            (_, Some((_, done))) => *done,
            (Some((_, done)), None) => done,
            (None, None) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn each_part_has_the_rate_between_its_marks() {
        let mut pace = Pace::default();
        for (seconds, done) in [(0.0, 0), (1.0, 100), (2.0, 200), (3.0, 220), (4.0, 420)] {
            pace.saw(at(seconds), done);
        }
        pace.mark(at(0.0), "before");
        pace.mark(at(2.0), "while it changes");
        pace.mark(at(3.0), "after");
        let rates: Vec<(String, f64)> = pace
            .parts()
            .into_iter()
            .map(|part| (part.name, part.per_second))
            .collect();
        let expected = [("before", 100.0), ("while it changes", 20.0), ("after", 200.0)];
        assert_eq!(rates, expected.map(|(name, rate)| (name.to_owned(), rate)));
    }

    #[test]
    fn a_part_that_nothing_was_seen_of_is_left_out() {
        let mut pace = Pace::default();
        pace.mark(at(0.0), "before");
        assert_eq!(pace.parts(), []);
        pace.saw(at(0.5), 10);
        pace.saw(at(1.5), 20);
        pace.mark(at(9.0), "never");
        assert_eq!(pace.parts().len(), 1);
        assert_eq!(pace.parts()[0].per_second, 10.0);
    }
}
