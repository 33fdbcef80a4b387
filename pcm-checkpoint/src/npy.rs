//! The header of NumPy's `.npy` files, version 1.0. Pure.

/// Headers end at a multiple of this, so that data is aligned when a file is mapped.
const ALIGNMENT: usize = 64;

/// The NumPy type of elements that have no better one: opaque bytes.
pub fn dtype_of_size(size: u32) -> String {
    format!("|V{size}")
}

/// The header of a row-major array.
pub(crate) fn npy_header(dtype: &str, shape: &[u64]) -> Vec<u8> {
    let mut dimensions: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    if shape.len() > 1 {
        dimensions.truncate(dimensions.len() - 2);
    } else {
        dimensions.truncate(dimensions.trim_end().len());
    }
    let mut text = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({dimensions}), }}");
    let fixed = 6 + 2 + 2;
    let padded = (fixed + text.len() + 1).next_multiple_of(ALIGNMENT);
    text.extend(std::iter::repeat_n(' ', padded - fixed - text.len() - 1));
    text.push('\n');
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    // Three extents of at most 20 digits and a short type fit.
    let length = u16::try_from(text.len()).expect("the header of an array of at most three axes is short");
    header.extend(length.to_le_bytes());
    header.extend(text.bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_the_one_numpy_writes() {
        let header = npy_header("<f8", &[3, 4]);
        assert_eq!(header.len(), 128);
        assert_eq!(&header[..10], b"\x93NUMPY\x01\x00\x76\x00");
        let text = std::str::from_utf8(&header[10..]).unwrap();
        let wanted = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }";
        assert_eq!(text.trim_end(), wanted);
        assert!(text.ends_with(" \n"));
        let one = npy_header(&dtype_of_size(6), &[5]);
        assert!(String::from_utf8_lossy(&one).contains("'descr': '|V6', 'fortran_order': False, 'shape': (5,), }"));
    }
}
