//! The names that MPI libraries give to shared memory in `/dev/shm`. Those of a world follow from the world's name, so
//! that what a killed process leaves can be told from what belongs to any other job on the machine.

use pcm_proto::fnv::fnv1a_32;

/// How MPICH begins the names of a world's shared memory.
pub const OF_WORLDS: &str = "mpich_shm_";

/// How MPI libraries and what they are built on begin the names of files that they unlink themselves in good time:
/// MPICH, UCX, libfabric, Intel MPI. The last closes such a file as soon as it is mapped.
const TRANSIENT: [&str; 5] = ["mpich_shar_tmp", "ucx_shm_posix_", "fi_shm", "fi_sm2_", "Intel_MPI_"];

/// Whether a file of this name would be unlinked by the library that made it.
pub fn is_transient(name: &str) -> bool {
    TRANSIENT.iter().any(|prefix| name.starts_with(prefix)) || is_of_endpoint(name)
}

/// Whether libfabric's shm names its endpoints so: process, user and a small number, or a second one after a clash,
/// with colons between.
fn is_of_endpoint(name: &str) -> bool {
    let parts: Vec<&str> = name.split(':').collect();
    let is_number = |part: &&str| (1..=10).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    (3..=4).contains(&parts.len()) && parts.iter().all(is_number)
}

/// Whether an MPI library names its files so.
pub fn is_of_mpi(name: &str) -> bool {
    name.starts_with(OF_WORLDS) || is_transient(name)
}

/// The beginning of the names of all shared memory files of the world `kvsname`; a number of its own per clique of
/// processes that share memory follows.
///
/// MPICH (since 4.3; `posix_init`) names the file `mpich_shm_HASH_CLIQUE` with the 32-bit FNV-1a hash of the world's
/// name in hexadecimal.
pub fn segment_prefix(kvsname: &str) -> String {
    format!("{OF_WORLDS}{:x}_", fnv1a_32(kvsname.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_what_mpich_was_seen_to_use() {
        assert_eq!(segment_prefix("mpm_vm_9761_0"), "mpich_shm_b05a6fc4_");
    }

    #[test]
    fn files_are_known_by_how_libraries_name_them() {
        for (name, is) in [
            ("9091:0:0", true),
            ("4194304:1000:1", true),
            ("9091:0:0:1793645", true),
            ("9091:0", false),
            ("9091:0:x", false),
            ("9091::0", false),
            ("a9091:0:0", false),
            ("fi_sm2_0", true),
            ("Intel_MPI_fgTBRT", true),
            ("results", false),
        ] {
            assert_eq!(is_transient(name), is, "{name}");
        }
    }
}
