//! What a simulated cluster is like: sizes, speeds, jobs, faults. Values only.

/// How fast nodes are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speeds {
    Same,
    /// Half, one, one and a half or two, by chance.
    Mixed,
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub nodes: usize,
    /// CPUs of each.
    pub cpus: u32,
    /// How fast they are.
    pub speeds: Speeds,
    /// Sites, of equal size.
    pub sites: usize,
    /// Whether anybody told the nodes which they are of.
    pub has_site_names: bool,
    pub jobs: usize,
    /// Ranks each begins with.
    pub ranks: usize,
    /// Fewest ranks of a job.
    pub min: usize,
    /// Most ranks of a job.
    pub max: usize,
    /// Work of one job's iteration: milliseconds on one CPU of speed 1.
    pub work_ms: f64,
    /// Communication in each iteration.
    pub mpi_ms: f64,
    /// Messages of each rank to the next one in an iteration; they take as long as their link.
    pub messages: f64,
    /// The jobs' policy; empty means the default.
    pub policy: String,
    /// Measurements are wrong by up to this part.
    pub noise: f64,
    /// Part of the messages that are lost.
    pub loss: f64,
    /// Part of the nodes that die and are replaced in a minute.
    pub churn_per_minute: f64,
    /// Bytes of data of each rank.
    pub bytes_per_rank: u64,
    /// Time between two looks of an agent.
    pub look_ms: u64,
    /// Whether ranks begin on the nodes of the lowest numbers, or anywhere.
    pub is_scattered: bool,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            nodes: 16,
            cpus: 1,
            speeds: Speeds::Same,
            sites: 1,
            has_site_names: true,
            jobs: 1,
            ranks: 4,
            min: 4,
            max: 4,
            work_ms: 80.0,
            mpi_ms: 1.0,
            messages: 0.0,
            policy: String::new(),
            noise: 0.03,
            loss: 0.0,
            churn_per_minute: 0.0,
            bytes_per_rank: 1 << 20,
            look_ms: 250,
            is_scattered: false,
        }
    }
}

impl Scenario {
    /// What the nodes of a site are told that it is called.
    pub(super) fn site_name(&self, site: usize) -> String {
        if self.has_site_names {
            format!("s{site}")
        } else {
            String::new()
        }
    }
}
