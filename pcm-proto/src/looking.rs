//! What `pcmctl` takes of its machine's CPUs, as it tells the agents there, so that looking at a cluster is not taken
//! for a load of others. One datagram to a local socket of each agent says it; nothing waits for one.

use crate::ids::NodeName;

/// CPU time that was spent on looking at a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// Where most of it was spent, as far as is known.
    pub cpu: u32,
    /// How much since the last time it was told, in microseconds.
    pub used_us: u64,
}

impl Looked {
    pub const BYTES: usize = 12;

    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.cpu.to_le_bytes());
        bytes[4..].copy_from_slice(&self.used_us.to_le_bytes());
        bytes
    }

    /// Nothing, if the bytes are of another length.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (cpu, used_us) = bytes.split_first_chunk()?;
        Some(Self {
            cpu: u32::from_le_bytes(*cpu),
            used_us: u64::from_le_bytes(used_us.try_into().ok()?),
        })
    }
}

/// The beginning of the names of all agents' sockets of a cluster, in the kernel's own space of names.
pub fn sockets_of(cluster_id: &str) -> String {
    format!("pcm-looks-{cluster_id}-")
}

/// The name of the socket of a node's agent.
pub fn socket_of(cluster_id: &str, node: &NodeName) -> String {
    format!("{}{node}", sockets_of(cluster_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_arrives_and_other_lengths_are_nothing() {
        let looked = Looked {
            cpu: 7,
            used_us: 1 << 40,
        };
        assert_eq!(Looked::decode(&looked.encode()), Some(looked));
        for length in [0, 3, 11, 13] {
            assert_eq!(Looked::decode(&vec![1; length]), None);
        }
    }
}
