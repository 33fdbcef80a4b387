//! The names that MPICH gives to the shared memory of a world. They follow from the world's name, so that what a
//! killed process leaves in `/dev/shm` can be told from what belongs to any other job on the machine.

use pcm_proto::fnv::fnv1a_32;

/// The beginning of the names of all shared memory files of the world `kvsname`; a number of its own per clique of
/// processes that share memory follows.
///
/// MPICH (since 4.3; `posix_init`) names the file `mpich_shm_HASH_CLIQUE` with the 32-bit FNV-1a hash of the world's
/// name in hexadecimal.
pub fn segment_prefix(kvsname: &str) -> String {
    format!("mpich_shm_{:x}_", fnv1a_32(kvsname.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_what_mpich_was_seen_to_use() {
        assert_eq!(segment_prefix("mpm_vm_9761_0"), "mpich_shm_b05a6fc4_");
    }
}
