//! The table by which Python 3.11 and newer find the line of an instruction. Entries follow each other in the order of
//! the instructions: the first byte has bit 7 set, the kind in bits 3 to 6, and in bits 0 to 2 the number of code units
//! less one; the bytes behind it have bit 7 clear. Pure.

/// Kinds with the line's distance in themselves: 10, 11 and 12 stand for 0, 1 and 2.
const ONE_LINE: u8 = 10;
const ONE_LINE_LAST: u8 = 12;
/// A line without columns.
const NO_COLUMNS: u8 = 13;
/// A line, its end and columns.
const LONG: u8 = 14;
/// No line at all.
const NONE: u8 = 15;

/// The line of a code unit; units before the first one belong to the function's own line.
pub(super) fn line(table: &[u8], first: i32, unit: i64) -> Option<u32> {
    let mut line = i64::from(first);
    let mut entries = Entries { rest: table };
    let mut begin = 0;
    while begin <= unit {
        let entry = entries.next()?;
        line += entry.distance;
        begin += entry.units;
        if begin > unit && !entry.has_line {
            return None;
        }
    }
    u32::try_from(line).ok().filter(|line| *line > 0)
}

struct Entry {
    units: i64,
    /// Lines after those of the entry before.
    distance: i64,
    has_line: bool,
}

struct Entries<'a> {
    rest: &'a [u8],
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let (head, rest) = self.rest.split_first().filter(|(head, _)| **head & 0x80 != 0)?;
        let count = rest.iter().take_while(|byte| **byte & 0x80 == 0).count();
        let (own, rest) = rest.split_at(count);
        self.rest = rest;
        let kind = head >> 3 & 0xf;
        Some(Entry {
            units: i64::from(head & 7) + 1,
            distance: match kind {
                ONE_LINE..=ONE_LINE_LAST => i64::from(kind - ONE_LINE),
                NO_COLUMNS | LONG => signed(own)?,
                _ => 0,
            },
            has_line: kind != NONE,
        })
    }
}

/// A number in groups of six bits, the lowest first. Bit 6 says that more follow, and the lowest bit of all is the
/// sign.
fn signed(bytes: &[u8]) -> Option<i64> {
    let mut value = 0_u64;
    // Six groups hold more than any line number.
    for (position, byte) in bytes.iter().take(6).enumerate() {
        value |= u64::from(byte & 0x3f) << (6 * position);
        if byte & 0x40 == 0 {
            let size = i64::try_from(value >> 1).ok()?;
            return Some(if value & 1 == 0 { size } else { -size });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: u8, units: u8, rest: &[u8]) -> Vec<u8> {
        [&[0x80 | kind << 3 | (units - 1)], rest].concat()
    }

    #[test]
    fn each_kind_of_entry_is_decoded() {
        let table = [
            entry(NONE, 1, &[]),
            entry(ONE_LINE + 1, 2, &[4, 9]),
            entry(3, 1, &[0x22]),
            entry(LONG, 8, &[0x40 | 6, 3, 1, 2, 3]),
            entry(NO_COLUMNS, 1, &[(40 << 1 | 1) & 0x3f | 0x40, (40 << 1 | 1) >> 6]),
            entry(ONE_LINE, 1, &[1, 2]),
        ]
        .concat();
        let lines: Vec<_> = (-1..=14).map(|unit| line(&table, 10, unit)).collect();
        let eight = [Some(110); 8];
        let begin = [Some(10), None, Some(11), Some(11), Some(11)];
        let end = [Some(70), Some(70), None];
        // 99 lines on: 198 is 6 and 3 times 64.
        assert_eq!(lines, [&begin[..], &eight, &end].concat());
    }

    #[test]
    fn garbage_has_no_line() {
        assert_eq!(line(&[], 3, 0), None);
        assert_eq!(line(&[0x12, 0x80], 3, 0), None);
        assert_eq!(line(&entry(LONG, 1, &[0x7f; 64]), 3, 0), None);
        assert_eq!(line(&entry(NO_COLUMNS, 1, &[]), 3, 0), None);
        assert_eq!(line(&entry(NO_COLUMNS, 1, &[0x3f]), 3, 0), None, "a line below zero");
        assert_eq!(line(&entry(ONE_LINE, 1, &[]), i32::MIN, 0), None);
        assert_eq!(line(&entry(ONE_LINE, 1, &[]), 3, i64::MAX), None);
        for seed in 0..2000_u64 {
            let bytes: Vec<u8> = (0..64)
                .map(|at| (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (at % 57)) as u8)
                .collect();
            for unit in [-1, 0, 5, 200] {
                line(&bytes, 1, unit);
            }
        }
    }
}
