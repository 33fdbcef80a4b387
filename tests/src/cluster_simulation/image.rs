//! Memory files with data of ranks: an image is the iteration that it begins with and elements by index.

use pcm_proto::checkpoint::PartTally;
use pcm_proto::ids::Bytes;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Elements by index, each with the number of iterations that it has seen.
pub(super) type Data = BTreeMap<u32, u64>;

/// A memory file that ranks, daemons and keepers share.
pub(super) type File = Rc<RefCell<Vec<u8>>>;

const HEAD: usize = 13;
const ELEMENT: usize = 12;

/// What stands in the first byte.
const BEING_WRITTEN: u8 = 0;
const WHOLE: u8 = 1;
const SUMMED: u8 = 2;

pub(super) fn file(bytes: Vec<u8>) -> File {
    Rc::new(RefCell::new(bytes))
}

pub(super) fn length(elements: usize) -> usize {
    HEAD + ELEMENT * elements
}

pub(super) fn encode(iteration: u64, data: &Data) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length(data.len()));
    bytes.push(WHOLE);
    bytes.extend(iteration.to_le_bytes());
    bytes.extend((data.len() as u32).to_le_bytes());
    for (index, value) in data {
        bytes.extend(index.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes
}

/// A copy into this image has begun.
pub(super) fn spoil(bytes: &mut [u8]) {
    if let Some(first) = bytes.first_mut() {
        *first = BEING_WRITTEN;
    }
}

/// Takes and writes the checksums.
pub(super) fn sum(bytes: &mut [u8]) -> Option<PartTally> {
    let tally = tally(bytes)?;
    bytes[0] = SUMMED;
    Some(tally)
}

pub(super) fn is_summed(bytes: &[u8]) -> bool {
    bytes.first() == Some(&SUMMED)
}

pub(super) fn decode(bytes: &[u8]) -> Option<(u64, Data)> {
    let head = bytes.get(..HEAD).filter(|head| head[0] != BEING_WRITTEN)?;
    let iteration = u64::from_le_bytes(head[1..9].try_into().ok()?);
    let count = u32::from_le_bytes(head[9..13].try_into().ok()?) as usize;
    let rest = bytes.get(HEAD..length(count))?;
    let mut data = Data::new();
    for element in rest.chunks(ELEMENT) {
        let index = u32::from_le_bytes(element[..4].try_into().ok()?);
        data.insert(index, u64::from_le_bytes(element[4..].try_into().ok()?));
    }
    (bytes.len() == length(count) && data.len() == count).then_some((iteration, data))
}

/// What an image is, whether or not its checksums are written.
pub(super) fn tally(bytes: &[u8]) -> Option<PartTally> {
    let (iteration, data) = decode(bytes)?;
    let sum = data.iter().map(|(index, value)| digest(*index, *value));
    Some(PartTally {
        bytes: Bytes(8 * data.len() as u64),
        checksum: sum.fold(iteration, u64::wrapping_add),
    })
}

/// What the checksum of one element is.
pub(super) fn digest(index: u32, value: u64) -> u64 {
    (u64::from(index) << 32 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
