//! One outcome for all ranks: a rank that failed must not leave the others waiting, or going on without it.

use crate::mpi::{Communicator, MpiError};
use serde::{Serialize, de::DeserializeOwned};

/// Everybody's outcome at rank 0; the first failure counts, with the rank's number.
pub(super) fn collect<T: Serialize + DeserializeOwned>(
    job: &Communicator,
    own: Result<T, String>,
) -> Result<Option<Result<Vec<T>, String>>, MpiError> {
    let mut bytes = encode(&own);
    if bytes.len() > job.gather_bytes_max()? {
        bytes = encode(&Err::<T, _>(format!("its record of {} bytes is too long", bytes.len())));
    }
    let all = job.gather(&bytes)?;
    Ok(all.map(|all| {
        let outcomes = (0..)
            .zip(&all)
            .map(|(rank, bytes): (u32, _)| decode(bytes).map_err(|problem| format!("rank {rank}: {problem}")));
        outcomes.collect()
    }))
}

/// Rank 0's outcome, everywhere. The others' argument counts for nothing.
pub(super) fn announce<T: Serialize + DeserializeOwned>(
    job: &Communicator,
    own: Option<Result<T, String>>,
) -> Result<Result<T, String>, MpiError> {
    let mut bytes = own.as_ref().map(encode).unwrap_or_default();
    job.broadcast(&mut bytes, 0)?;
    Ok(decode(&bytes))
}

fn encode<T: Serialize>(outcome: &Result<T, String>) -> Vec<u8> {
    // Bytes that are no outcome are decoded to a failure that says so.
    rmp_serde::to_vec(outcome).unwrap_or_default()
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    pcm_proto::unpack::from_slice(bytes).unwrap_or_else(|error| Err(format!("an outcome cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_survives_its_bytes_and_anything_else_is_a_failure() {
        let good: Result<Vec<u32>, String> = Ok(vec![1, 2]);
        assert_eq!(decode::<Vec<u32>>(&encode(&good)), good);
        let bad: Result<Vec<u32>, String> = Err("no room".to_owned());
        assert_eq!(decode::<Vec<u32>>(&encode(&bad)), bad);
        assert!(decode::<Vec<u32>>(b"").is_err());
    }
}
