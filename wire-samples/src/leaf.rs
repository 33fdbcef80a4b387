//! Values without parts. Each follows from the name of its field and uses the whole width of its type, so that fields
//! that are swapped or get another type change the bytes of a sample.

/// Lengths of byte strings that are tried after that of the name: keys and addresses have these.
const BYTES_TRIED: [usize; 2] = [16, 32];

/// A value that is tried where the type refuses the one of full width.
const SMALL: u64 = 1;

/// An unsigned number of so many bits whose highest bit is set; `None` when nothing is left to try.
pub(crate) fn unsigned(name: &str, bits: u32, refused: usize) -> Option<u64> {
    let top = 1_u64 << (bits - 1);
    match refused {
        0 => Some(top | hash(name) & (top - 1)),
        1 => Some(SMALL),
        _ => None,
    }
}

/// A negative number of so many bits.
pub(crate) fn signed(name: &str, bits: u32, refused: usize) -> Option<i64> {
    let half = 1_u64 << (bits - 2);
    match refused {
        0 => Some(-((half | hash(name) & (half - 1)).cast_signed())),
        1 => Some(SMALL.cast_signed()),
        _ => None,
    }
}

pub(crate) fn float(name: &str) -> f64 {
    (hash(name) % 100_000) as f64 + 0.5
}

pub(crate) fn boolean(name: &str) -> bool {
    hash(name) % 2 == 1
}

/// The name itself, then these texts in order.
pub(crate) fn text(name: &str, texts: &[&str], refused: usize) -> Option<String> {
    match refused {
        0 => Some(name.to_owned()),
        _ => texts.get(refused - 1).map(|text| (*text).to_owned()),
    }
}

/// The bytes of the name, then byte strings of other lengths.
pub(crate) fn bytes(name: &str, refused: usize) -> Option<Vec<u8>> {
    match refused {
        0 => Some(name.as_bytes().to_vec()),
        _ => BYTES_TRIED
            .get(refused - 1)
            .map(|length| name.bytes().cycle().take(*length).collect()),
    }
}

/// Spreads names over the numbers; what it is called after stays the same for all time, as golden files need.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0, |sum: u64, byte| {
        (sum ^ u64::from(byte))
            .wrapping_add(1)
            .wrapping_mul(0xd134_2543_de82_ef95)
            .rotate_left(23)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_other_names_and_widths_have_other_values() {
        assert_ne!(unsigned("from", 32, 0), unsigned("to", 32, 0));
        assert!(unsigned("from", 32, 0) > Some(u64::from(u32::MAX) / 2));
        assert!(unsigned("from", 64, 0) > Some(u64::MAX / 2));
        assert!(signed("from", 32, 0) < Some(i64::from(i16::MIN)));
        assert_ne!(float("from"), float("to"));
    }
}
