//! What was measured of the link between two nodes. Values only.

use crate::ids::NodeName;
use serde::{Deserialize, Serialize};

/// Links a daemon tells its agent of at once: those of its jobs, and of as many thieves as an agent remembers.
pub const LINKS_TOLD_MAX: usize = 64;

/// Links to other nodes of a job that a node measures and reports: to its coordinator, and to those whose ranks come
/// next, with which a stencil talks.
pub const LINKS_OF_JOB_MAX: usize = 8;

/// What was measured of a link; what the daemons at its ends add is in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkMeasured {
    /// The node at its other end.
    pub node: NodeName,
    /// Time of a small message, one way.
    pub latency_us: Option<f64>,
    /// What copies of checkpoints reach.
    pub megabytes_per_s: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_link_are_those_of_this_version() {
        let link = LinkMeasured {
            node: NodeName::new("n1").unwrap(),
            latency_us: Some(2.0),
            megabytes_per_s: None,
        };
        let bytes = rmp_serde::to_vec(&link).unwrap();
        assert_eq!(bytes, b"\x93\xa2n1\xcb\x40\x00\x00\x00\x00\x00\x00\x00\xc0");
        assert_eq!(rmp_serde::from_slice::<LinkMeasured>(&bytes).unwrap(), link);
    }
}
