//! The manifest of a checkpoint: what it is of, and where what lies in which file. Owns the rules that a manifest
//! keeps; never opens a part.

use crate::block::{BLOCK_BYTES, Compression};
use pcm_core::partition::{Partition, Stripe};
use pcm_proto::rank_counts::RankCounts;
use serde::{Deserialize, Serialize};

/// What the manifest calls the format.
pub const FORMAT: &str = "pcm-checkpoint";

/// Version of the format; a reader reads this and all before.
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: String,
    /// [`VERSION`] of the writer.
    pub version: u32,
    /// Of what program.
    pub application: Application,
    /// The iteration that begins when the checkpoint is restored.
    pub iteration: u64,
    /// When it was made: seconds since 1970.
    pub created_unix_s: u64,
    /// Number of ranks that made it.
    pub ranks: u32,
    /// Numbers of ranks on which the program can run; a program that did not say so runs on any.
    #[serde(default, skip_serializing_if = "RankCounts::is_any")]
    pub possible_ranks: RankCounts,
    /// How part files are stored.
    pub compression: Compression,
    /// Bytes of a block before compression; the last of a file may be shorter.
    pub block_bytes: u64,
    /// The regions in the order of registration.
    pub regions: Vec<RegionRecord>,
}

/// The program that made a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Application {
    /// The job's name, or the program's.
    pub name: String,
    /// The program's file, where that is known.
    pub program: String,
    /// Its arguments, without its own name.
    pub arguments: Vec<String>,
    /// Its working directory.
    pub directory: String,
    /// The programs of a job of several, by rank from 0 on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<RanksOfProgram>,
}

/// What some ranks of a job of several programs run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanksOfProgram {
    pub ranks: u32,
    /// As it was typed.
    pub program: String,
    /// Its arguments, without its own name.
    pub arguments: Vec<String>,
}

impl RanksOfProgram {
    /// Programs as a variable of the environment carries them.
    #[must_use]
    pub fn text_of(programs: &[Self]) -> String {
        serde_json::to_string(programs).unwrap_or_default()
    }

    /// The programs in such a text; none in any other.
    #[must_use]
    pub fn in_text(text: &str) -> Vec<Self> {
        serde_json::from_str(text).unwrap_or_default()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionRecord {
    pub name: String,
    /// Its registration as a text that must be the same for a program that restores it.
    pub registration: String,
    /// What it is.
    pub contents: Contents,
    /// Its parts by rank: all ranks but for a value (rank 0 alone) and scratch (none).
    pub parts: Vec<PartRecord>,
}

/// What a region is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    /// A distributed array; parts are `.npy` files of a rank's local storage, halo included.
    Array(Box<ArrayRecord>),
    /// An array whose contents mean nothing between two iterations.
    Scratch,
    /// The same bytes on every rank.
    Value,
    /// Each rank's own bytes.
    PerRank,
    /// What the application packed for the rank that goes on with it.
    Custom,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArrayRecord {
    /// The NumPy type of its elements.
    pub dtype: String,
    pub extents: Vec<u64>,
    /// By axis: cells of the application's own beyond each end of the array, stored by the ranks at the ends.
    pub margins: Vec<u64>,
    /// How it was divided.
    pub partition: Partition,
}

/// One rank's part of a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRecord {
    pub rank: u32,
    /// Its file in the checkpoint's directory.
    pub file: String,
    /// Where data begins in the file before compression: the length of the `.npy` header, or 0.
    pub data_offset: u64,
    /// Bytes of data.
    pub data_bytes: u64,
    /// Elements along each axis of what is stored; empty for raw parts.
    pub shape: Vec<u64>,
    /// By axis, which global indices the rank owns and where they are in what is stored; empty for raw parts.
    pub owned: Vec<Vec<StripeRecord>>,
    /// CRC-32 of each block as it is stored.
    pub crc32: Vec<u32>,
    /// Bytes of each block as it is stored; empty if not compressed.
    pub stored: Vec<u64>,
}

/// `count` intervals of `length` global indices, `stride` apart, the first at `start`; in what is stored the first lies
/// at index `local`, the next `local_stride` further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StripeRecord {
    start: u64,
    local: u64,
    length: u64,
    count: u64,
    stride: u64,
    local_stride: u64,
}

impl From<Stripe> for StripeRecord {
    fn from(stripe: Stripe) -> Self {
        let Stripe {
            start,
            local,
            length,
            count,
            stride,
            local_stride,
        } = stripe;
        Self {
            start,
            local,
            length,
            count,
            stride,
            local_stride,
        }
    }
}

impl PartRecord {
    /// Bytes of the file before compression.
    pub fn plain_bytes(&self) -> u64 {
        self.data_offset.saturating_add(self.data_bytes)
    }

    /// Bytes of the file as it is stored.
    pub fn file_bytes(&self) -> u64 {
        if self.stored.is_empty() {
            self.plain_bytes()
        } else {
            self.stored.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
        }
    }
}

impl ArrayRecord {
    /// The record of an array that is divided so.
    pub fn new(dtype: impl Into<String>, partition: &Partition) -> Self {
        use pcm_core::partition::Edge;
        let axes = &partition.spec().axes;
        let margin = |edge, halo| if edge == Edge::Carried { halo } else { 0 };
        Self {
            dtype: dtype.into(),
            extents: axes.iter().map(|axis| axis.extent).collect(),
            margins: axes.iter().map(|axis| margin(axis.edge, axis.halo)).collect(),
            partition: partition.clone(),
        }
    }
}

/// Byte order, kind, size: the text stands as it is in the header of a file that others read.
fn is_dtype(text: &str) -> bool {
    let mut chars = text.chars();
    let has_order = chars.next().is_some_and(|order| matches!(order, '<' | '>' | '=' | '|'));
    let has_kind = chars
        .next()
        .is_some_and(|kind| matches!(kind, 'b' | 'i' | 'u' | 'f' | 'c' | 'V'));
    let size = chars.as_str();
    has_order && has_kind && (1..=10).contains(&size.len()) && size.bytes().all(|digit| digit.is_ascii_digit())
}

impl Manifest {
    /// The region of this name.
    pub fn region(&self, name: &str) -> Option<&RegionRecord> {
        self.regions.iter().find(|region| region.name == name)
    }

    /// Every part, with its region.
    pub fn parts(&self) -> impl Iterator<Item = (&RegionRecord, &PartRecord)> {
        self.regions
            .iter()
            .flat_map(|region| region.parts.iter().map(move |part| (region, part)))
    }

    /// Bytes of all data.
    pub fn data_bytes(&self) -> u64 {
        self.parts()
            .fold(0, |sum, (_, part)| sum.saturating_add(part.data_bytes))
    }

    /// What is wrong with it, if anything: everybody who reads parts relies on these rules.
    pub fn fault(&self) -> Option<String> {
        if self.format != FORMAT {
            return Some(format!("its format is {:?}, not {FORMAT:?}", self.format));
        }
        if self.ranks == 0 {
            return Some("it has no ranks".to_owned());
        }
        if !self.possible_ranks.is_sound() {
            return Some("possible_ranks are no numbers of ranks".to_owned());
        }
        if self.block_bytes == 0 || self.block_bytes > BLOCK_BYTES * 64 {
            return Some(format!("blocks of {} bytes", self.block_bytes));
        }
        let region_fault = |region: &RegionRecord| {
            let fault = self.region_fault(region)?;
            Some(format!("region {:?}: {fault}", region.name))
        };
        self.regions.iter().find_map(region_fault)
    }

    fn region_fault(&self, region: &RegionRecord) -> Option<String> {
        let wanted = match region.contents {
            Contents::Array(_) | Contents::PerRank | Contents::Custom => self.ranks,
            Contents::Value => 1,
            Contents::Scratch => 0,
        };
        if !region.parts.iter().map(|part| part.rank).eq(0..wanted) {
            return Some(format!(
                "its parts are not those of ranks 0 to {}",
                i64::from(wanted) - 1
            ));
        }
        if let Contents::Array(array) = &region.contents
            && !is_dtype(&array.dtype)
        {
            return Some(format!("{:?} is no type of NumPy's", array.dtype));
        }
        if let Contents::Array(array) = &region.contents
            && **array != ArrayRecord::new(array.dtype.as_str(), &array.partition)
        {
            return Some("its extents and margins are not those of its division".to_owned());
        }
        if let Contents::Array(array) = &region.contents
            && array.partition.positions() != self.ranks
        {
            let parts = array.partition.positions();
            return Some(format!(
                "it is divided among {parts} ranks, the checkpoint has {}",
                self.ranks
            ));
        }
        region.parts.iter().find_map(|part| {
            let fault = self.part_fault(&region.contents, part)?;
            Some(format!("part {}: {fault}", part.rank))
        })
    }

    fn part_fault(&self, contents: &Contents, part: &PartRecord) -> Option<String> {
        // A manifest from elsewhere must not make a reader open what lies outside of the checkpoint.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if part.file.is_empty() || part.file.starts_with('.') || !part.file.chars().all(is_plain) {
            return Some(format!("{:?} is not a plain file name", part.file));
        }
        let blocks = part.plain_bytes().div_ceil(self.block_bytes);
        let stored = if self.compression == Compression::None {
            0
        } else {
            blocks
        };
        if part.crc32.len() as u64 != blocks || part.stored.len() as u64 != stored {
            return Some(format!(
                "{} bytes are {blocks} blocks, it has {} checksums and {} lengths",
                part.plain_bytes(),
                part.crc32.len(),
                part.stored.len()
            ));
        }
        // A block that compression made this much longer was not made by a compressor.
        if part.stored.iter().any(|bytes| *bytes > 2 * self.block_bytes + 1024) {
            return Some("a stored block is longer than it can be".to_owned());
        }
        if let Contents::Array(array) = contents {
            let bytes = array.partition.local_bytes(part.rank);
            if part.data_bytes != bytes {
                return Some(format!("it has {} bytes instead of {bytes}", part.data_bytes));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        assemble::export,
        checkpoint::Checkpoint,
        seal::{MANIFEST, SEAL, Seal},
    };
    use pcm_proto::random::Random;
    use serde_json::{Value, json};
    use std::{fs, path::Path};

    #[test]
    fn a_type_is_byte_order_kind_and_size_and_nothing_that_ends_the_header_it_stands_in() {
        for good in ["<f8", ">i4", "=u2", "|b1", "<c16", "|V6", "|V4294967295"] {
            assert!(is_dtype(good), "{good}");
        }
        for bad in [
            "",
            "<",
            "<f",
            "f8",
            "<f8 ",
            " <f8",
            "<O8",
            "<U4",
            "<f-8",
            "<f\u{664}",
            "<f12345678901",
            "<f8', 'x': '",
            "<f8\n",
        ] {
            assert!(!is_dtype(bad), "{bad:?}");
        }
    }

    /// What a writer that means ill puts in the place of anything.
    fn odd(sound: &Value, random: &mut Random) -> Value {
        if random.one_in(2) {
            return leaf(sound, random);
        }
        let odd = [
            json!(0),
            json!(1),
            json!(3),
            json!(random.below(64)),
            json!(random.number()),
            json!(u32::MAX),
            json!(u64::MAX),
            json!(1_u64 << 62),
            json!(-1),
            json!(1e300),
            json!(null),
            json!([]),
            json!([1, u64::MAX]),
            json!({}),
            json!(""),
            json!("../x"),
            json!("Cyclic"),
            json!("lz4"),
            json!("<f8', }"),
        ];
        random.pick(&odd).unwrap_or_default()
    }

    /// What stands elsewhere in it.
    fn leaf(value: &Value, random: &mut Random) -> Value {
        match value {
            Value::Array(items) if !items.is_empty() => leaf(&items[random.index(items.len())], random),
            Value::Object(fields) => match fields.values().nth(random.index(fields.len())) {
                Some(inner) => leaf(inner, random),
                None => value.clone(),
            },
            _ => value.clone(),
        }
    }

    /// Replaces, leaves out or doubles something in it.
    fn spoil(value: &mut Value, sound: &Value, random: &mut Random) {
        let inner = match value {
            Value::Array(items) if !items.is_empty() => {
                let at = random.index(items.len());
                match random.below(12) {
                    0 => {
                        items.remove(at);
                        return;
                    }
                    1 => return items.push(items[at].clone()),
                    _ => items.get_mut(at),
                }
            }
            Value::Object(fields) => {
                let at = random.index(fields.len());
                fields.values_mut().nth(at)
            }
            _ => None,
        };
        match inner {
            Some(inner) if !random.one_in(12) => spoil(inner, sound, random),
            _ => *value = odd(sound, random),
        }
    }

    fn keeps_its_rules(manifest: &Manifest) {
        assert!(manifest.ranks > 0 && manifest.block_bytes > 0);
        for (region, part) in manifest.parts() {
            assert!(!part.file.contains('/') && !part.file.starts_with('.'));
            assert!(part.rank < manifest.ranks, "{}", region.name);
            assert!(part.crc32.len() as u64 * manifest.block_bytes >= part.plain_bytes());
        }
    }

    #[test]
    fn whatever_a_manifest_claims_is_refused_or_leads_to_damage_and_never_to_a_panic() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let mut random = Random::new(22);
        for name in ["v1", "v1-lz4"] {
            let home = tempfile::tempdir().unwrap();
            for entry in fs::read_dir(golden.join(name)).unwrap().flatten() {
                fs::copy(entry.path(), home.path().join(entry.file_name())).unwrap();
            }
            let sound: Value = serde_json::from_slice(&fs::read(home.path().join(MANIFEST)).unwrap()).unwrap();
            let mut opened = 0;
            for _ in 0..150 {
                let mut spoilt = sound.clone();
                for _ in 0..=random.below(2) {
                    spoil(&mut spoilt, &sound, &mut random);
                }
                let text = serde_json::to_vec(&spoilt).unwrap();
                fs::write(home.path().join(SEAL), Seal::of(&text).text()).unwrap();
                fs::write(home.path().join(MANIFEST), text).unwrap();
                let Ok(checkpoint) = Checkpoint::open(home.path()) else {
                    continue;
                };
                opened += 1;
                keeps_its_rules(checkpoint.manifest());
                checkpoint.verify();
                for region in &checkpoint.manifest().regions {
                    if let Contents::Array(array) = &region.contents {
                        let out = tempfile::tempfile().unwrap();
                        _ = export(&checkpoint, region, array, true, &out);
                    }
                }
            }
            assert!(opened > 8, "{name}: {opened}");
        }
    }
}
