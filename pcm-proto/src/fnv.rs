//! The hash FNV-1a: for names that all processes must turn into the same number. Nobody is kept from making two inputs
//! collide.

/// The hash of nothing.
pub const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;
const BASIS_32: u32 = 0x811c_9dc5;
const PRIME_32: u32 = 0x0100_0193;

/// The hash of one more byte; or of a larger number, where spreading its bytes is not worth the time.
pub const fn step(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(PRIME)
}

pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(BASIS, |hash, byte| step(hash, byte.into()))
}

/// In 32 bits.
pub fn fnv1a_32(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes
        .into_iter()
        .fold(BASIS_32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME_32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashes_are_those_that_its_authors_publish() {
        assert_eq!((fnv1a(*b""), fnv1a(*b"foobar")), (BASIS, 0x8594_4171_f739_67e8));
        assert_eq!((fnv1a_32(*b""), fnv1a_32(*b"foobar")), (BASIS_32, 0xbf9c_f968));
    }
}
