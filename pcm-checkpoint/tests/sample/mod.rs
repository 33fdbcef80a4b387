//! A checkpoint with one region of each kind, on three ranks; every byte follows from its place.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "not every user of the sample asks everything of it"
)]

use pcm_checkpoint::{
    Application, ArrayRecord, Compression, Content, Contents, Draft, FORMAT, Manifest, PartRecord, RegionRecord,
    VERSION, WriteError, part_file, write_part,
};
use pcm_core::partition::{ArraySpec, AxisSpec, Partition};
use pcm_proto::rank_counts::RankCounts;
use std::path::{Path, PathBuf};

pub const RANKS: u32 = 3;

/// Rows in blocks with a halo, and a margin of boundary values on both axes.
pub fn grid() -> ArraySpec {
    ArraySpec::new(8, [AxisSpec::block(7).with_halo(1), AxisSpec::whole(5).with_halo(2)])
}

/// Dealt out in turn.
pub fn dealt() -> ArraySpec {
    ArraySpec::new(4, [AxisSpec::cyclic(23, 2)])
}

pub fn ring() -> ArraySpec {
    ArraySpec::new(2, [AxisSpec::block(11).with_halo(2).periodic()])
}

/// The value of a cell of the grid; indices from -margin.
pub fn grid_cell(row: i64, column: i64) -> f64 {
    (row * 100 + column) as f64 + 0.25
}

/// Local storage of one rank, `cell` giving the bytes of a global index, which may lie in a margin.
pub fn storage(spec: &ArraySpec, positions: u32, rank: u32, cell: impl Fn(&[i64]) -> Vec<u8>) -> Vec<u8> {
    let partition = Partition::new(spec, positions).expect("valid");
    let extents = partition.local_extents(rank);
    let mut bytes = Vec::new();
    for number in 0..extents.iter().product::<u64>() {
        let mut rest = number;
        let mut index = vec![0_i64; extents.len()];
        for axis in (0..extents.len()).rev() {
            let local = rest % extents[axis];
            rest /= extents[axis];
            index[axis] = global(&partition, rank, axis, local);
        }
        bytes.extend(cell(&index));
    }
    bytes
}

fn global(partition: &Partition, rank: u32, axis: usize, local: u64) -> i64 {
    let halo = partition.spec().axes[axis].halo;
    match partition.owned_interval(rank, axis) {
        Some((start, _)) => start as i64 + local as i64 - halo as i64,
        None => {
            let stripes = partition.owned_stripes(rank, axis);
            let found = stripes.iter().find_map(|s| {
                let within = local.checked_sub(s.local)?;
                let (turn, rest) = if s.count > 1 {
                    (within / s.local_stride, within % s.local_stride)
                } else {
                    (0, within)
                };
                (turn < s.count && rest < s.length).then(|| (s.start + turn * s.stride + rest) as i64)
            });
            found.expect("cyclic axes have no halo")
        }
    }
}

pub fn grid_bytes(index: &[i64]) -> Vec<u8> {
    grid_cell(index[0], index[1]).to_le_bytes().to_vec()
}

pub fn dealt_bytes(index: &[i64]) -> Vec<u8> {
    (index[0] as i32 * 7 - 3).to_le_bytes().to_vec()
}

pub fn ring_bytes(index: &[i64]) -> Vec<u8> {
    (index[0].rem_euclid(11) as u16 + 1000).to_le_bytes().to_vec()
}

pub fn write(target: &Path, compression: Compression) -> Result<PathBuf, WriteError> {
    let draft = Draft::begin(target)?;
    let regions = regions(draft.directory(), compression)?;
    draft.publish(&Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        application: Application {
            name: "sample".to_owned(),
            program: "/opt/sample/bin/sample".to_owned(),
            arguments: vec!["--rows".to_owned(), "7".to_owned()],
            directory: "/home/somebody/run 1".to_owned(),
            programs: Vec::new(),
        },
        iteration: 42,
        created_unix_s: 1_700_000_000,
        ranks: RANKS,
        possible_ranks: RankCounts::default(),
        compression,
        block_bytes: pcm_checkpoint::BLOCK_BYTES,
        regions,
    })
}

fn regions(directory: &Path, compression: Compression) -> Result<Vec<RegionRecord>, WriteError> {
    let array = |number: u32, name: &str, dtype: &str, spec: ArraySpec, cell: fn(&[i64]) -> Vec<u8>| {
        let partition = Partition::new(&spec, RANKS).expect("valid");
        let content = Content::Array {
            dtype,
            partition: &partition,
        };
        let part = |rank| {
            let file = part_file(number, name, rank, true, compression);
            write_part(
                directory,
                file,
                rank,
                content,
                &storage(&spec, RANKS, rank, cell),
                compression,
            )
        };
        Ok(RegionRecord {
            name: name.to_owned(),
            registration: format!("array {name}"),
            contents: Contents::Array(Box::new(ArrayRecord::new(dtype, &partition))),
            parts: (0..RANKS).map(part).collect::<Result<_, WriteError>>()?,
        })
    };
    let raw = |number: u32, name: &str, contents: Contents, ranks: u32, bytes: fn(u32) -> Vec<u8>| {
        let part = |rank| {
            let file = part_file(number, name, rank, false, compression);
            write_part(directory, file, rank, Content::Raw, &bytes(rank), compression)
        };
        let parts: Result<Vec<PartRecord>, WriteError> = (0..ranks).map(part).collect();
        Ok(RegionRecord {
            name: name.to_owned(),
            registration: format!("{contents:?} {name}"),
            contents,
            parts: parts?,
        })
    };
    Ok(vec![
        array(0, "temperature / K", "<f8", grid(), grid_bytes)?,
        array(1, "dealt", "<i4", dealt(), dealt_bytes)?,
        array(2, "ring", "<u2", ring(), ring_bytes)?,
        RegionRecord {
            name: "next".to_owned(),
            registration: "array of double, scratch".to_owned(),
            contents: Contents::Scratch,
            parts: Vec::new(),
        },
        raw(4, "iteration", Contents::Value, 1, |_| 42_u64.to_le_bytes().to_vec())?,
        raw(5, "seed", Contents::PerRank, RANKS, |rank| vec![rank as u8; 3])?,
        raw(6, "mesh", Contents::Custom, RANKS, |rank| {
            vec![0xa0 + rank as u8; rank as usize]
        })?,
    ])
}
