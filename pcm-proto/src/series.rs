//! How a job fared over time: samples that its coordinator takes, thinned so that their number stays the same however
//! long the job runs.

use crate::ids::NodeName;
use crate::time_use::TimeUse;
use serde::{Deserialize, Serialize};

/// Most samples kept of a job: more than a plot has columns.
pub const SAMPLES_MAX: usize = 512;

/// One moment of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Microseconds since 1970.
    pub time_us: u64,
    /// Iterations that the rank furthest behind has started.
    pub iteration: u64,
    /// Ranks that were seen.
    pub ranks: u32,
    /// CPU time taken on each node by others, in CPUs.
    pub loads: Vec<(NodeName, f64)>,
}

/// What one rank has sent to another in the present layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    pub from: u32,
    pub to: u32,
    pub messages: u64,
    pub bytes: u64,
}

/// See the file head.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Oldest first, at about equal distances.
    pub samples: Vec<Sample>,
    /// Of this many samples one was kept.
    pub thinning: u64,
    /// Samples taken so far.
    pub taken: u64,
    /// How the ranks used their time, for each number of them, the first first.
    pub uses: Vec<TimeUse>,
    /// Messages between ranks when they were last looked at.
    pub traffic: Vec<Traffic>,
}

impl Series {
    /// Takes a sample in; when there are too many, every second one is left out from the beginning.
    pub fn push(&mut self, sample: Sample) {
        self.thinning = self.thinning.max(1);
        if self.taken.is_multiple_of(self.thinning) {
            self.samples.push(sample);
        }
        self.taken += 1;
        if self.samples.len() > SAMPLES_MAX {
            let mut is_kept = false;
            self.samples.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.thinning *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_job_keeps_equally_spaced_samples_of_its_whole_life() {
        let mut series = Series::default();
        for second in 0..10_000_u64 {
            series.push(Sample {
                time_us: second,
                iteration: second,
                ranks: 1,
                loads: Vec::new(),
            });
        }
        let times: Vec<u64> = series.samples.iter().map(|sample| sample.time_us).collect();
        assert!(
            times.len() <= SAMPLES_MAX && times.len() > SAMPLES_MAX / 4,
            "{}",
            times.len()
        );
        assert!(
            times.windows(2).all(|pair| pair[1] - pair[0] == series.thinning),
            "{times:?}"
        );
        assert_eq!(times[0], 0);
    }
}
