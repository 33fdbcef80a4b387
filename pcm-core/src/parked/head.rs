//! What an image says of itself: whose it is, and where each region's bytes lie. Written and read by the library only.

use crate::partition::ArraySpec;
use pcm_proto::ids::{Iteration, Rank};
use serde::{Deserialize, Serialize};

/// Bytes within the data of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The first, counted from the beginning of the data.
    pub offset: u64,
    pub length: u64,
}

/// What is parked of a region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Contents {
    /// Local storage of an array.
    Array {
        /// The division that the job's first ranks registered.
        registered: ArraySpec,
        /// The division in force.
        in_force: ArraySpec,
        /// Local storage, halo included; none of an array whose contents do not travel.
        storage: Option<Place>,
    },
    /// A replicated value.
    Value(Place),
    /// The value of this rank.
    PerRank(Place),
    /// What was packed for each new rank; none in an image of a process that hung.
    Custom(Option<Vec<(Rank, Place)>>),
}

/// A region in an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParkedRegion {
    pub name: String,
    /// Its registration as text; equal on all ranks.
    pub text: String,
    /// What is there of it.
    pub contents: Contents,
}

/// The head of an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The iteration it goes on with.
    pub iteration: Iteration,
    /// The rank whose data it is.
    pub rank: Rank,
    /// Number of ranks.
    pub size: u32,
    /// Regions in the order of their registration.
    pub regions: Vec<ParkedRegion>,
}

/// Why a head cannot be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the description of parked data is not understood ({}); are all ranks of one version of libpcm?", .detail)]
pub struct HeadError {
    detail: String,
}

impl Head {
    pub fn encode(&self) -> Result<Vec<u8>, HeadError> {
        rmp_serde::to_vec(self).map_err(|error| HeadError {
            detail: error.to_string(),
        })
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, HeadError> {
        pcm_proto::unpack::from_slice(bytes).map_err(|error| HeadError {
            detail: error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::AxisSpec;

    #[test]
    fn a_head_survives_its_bytes_and_others_are_refused() {
        let spec = ArraySpec::new(8, [AxisSpec::block(10).with_halo(1)]);
        let storage = Some(Place { offset: 64, length: 96 });
        let head = Head {
            iteration: Iteration(7),
            rank: Rank(1),
            size: 2,
            regions: vec![ParkedRegion {
                name: "t".to_owned(),
                text: "array".to_owned(),
                contents: Contents::Array {
                    registered: spec.clone(),
                    in_force: spec,
                    storage,
                },
            }],
        };
        let bytes = head.encode().unwrap();
        assert_eq!(Head::decode(&bytes), Ok(head));
        assert!(Head::decode(&bytes[..bytes.len() - 1]).is_err());
    }
}
