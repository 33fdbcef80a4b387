//! How fast a job goes: what was seen of its progress, and rates between two times. Pure: time is an argument.

/// What was seen: seconds, and iterations done by then.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    seen: Vec<(f64, f64)>,
}

impl Pace {
    pub fn saw(&mut self, at_s: f64, done: u64) {
        self.seen.push((at_s, done as f64));
    }

    /// How often something was seen.
    pub fn sightings(&self) -> usize {
        self.seen.len()
    }

    /// When something was seen last.
    pub fn seconds(&self) -> f64 {
        self.seen.last().map_or(f64::NAN, |(at, _)| *at)
    }

    /// Iterations from what was seen first to what was seen last.
    pub fn iterations(&self) -> f64 {
        let first = self.seen.first().map_or(0.0, |(_, done)| *done);
        self.seen.last().map_or(f64::NAN, |(_, done)| *done - first)
    }

    /// When something was seen first, and last.
    pub fn span(&self) -> Option<(f64, f64)> {
        Some((self.seen.first()?.0, self.seen.last()?.0))
    }

    /// Iterations done by a time; between two sightings the job is taken to go evenly.
    pub fn done_at(&self, at_s: f64) -> f64 {
        let after = self.seen.partition_point(|(seen, _)| *seen < at_s);
        let before = after.checked_sub(1).map(|before| self.seen[before]);
        match (before, self.seen.get(after)) {
            (Some((t0, d0)), Some((t1, d1))) if *t1 > t0 => d0 + (d1 - d0) * (at_s - t0) / (t1 - t0),
            (_, Some((_, done))) => *done,
            (Some((_, done)), None) => done,
            (None, None) => 0.0,
        }
    }

    /// Iterations a second between two times, from the first sighting in that time to the last.
    pub fn rate(&self, from_s: f64, to_s: f64) -> f64 {
        let within = |(at, _): &&(f64, f64)| (from_s..=to_s).contains(at);
        let (first, last) = (self.seen.iter().find(within), self.seen.iter().rev().find(within));
        match (first, last) {
            (Some((t0, d0)), Some((t1, d1))) if t1 > t0 => (d1 - d0) / (t1 - t0),
            _ => f64::NAN,
        }
    }

    /// Iterations a second over time, for a plot.
    pub fn rates(&self) -> Vec<(f64, f64)> {
        let windows = self.seen.windows(3);
        let rates = windows.filter(|window| window[2].0 > window[0].0);
        rates
            .map(|window| (window[1].0, (window[2].1 - window[0].1) / (window[2].0 - window[0].0)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_its_time() {
        let mut pace = Pace::default();
        for (at_s, done) in [(0.0, 1), (1.0, 11), (2.0, 21), (3.0, 121)] {
            pace.saw(at_s, done);
        }
        assert_eq!((pace.rate(0.0, 2.0), pace.rate(2.0, 3.0)), (10.0, 100.0));
        assert_eq!((pace.seconds(), pace.iterations()), (3.0, 120.0));
        assert!(pace.rate(5.0, 6.0).is_nan());
        assert_eq!(pace.rates(), [(1.0, 10.0), (2.0, 55.0)]);
        assert_eq!((pace.done_at(2.5), pace.done_at(9.0)), (71.0, 121.0));
    }
}
