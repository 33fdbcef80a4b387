//! Checkpoint files against the bare system: writing a part against writing and syncing the same bytes (what `dd
//! conv=fsync` does), restoring on another number of ranks against reading the same files. In turn, on one thread.
//! `cargo bench -p pcm-checkpoint --bench files [-- MEBIBYTES [DIRECTORY]]`

use pcm_checkpoint::{
    Application, ArrayRecord, BLOCK_BYTES, Checkpoint, Compression, Content, Contents, Draft, FORMAT, Manifest,
    RegionRecord, VERSION, array_fill, part_file, write_part,
};
use pcm_core::{
    partition::{ArraySpec, AxisSpec, Partition},
    redistribution::HaloFill,
};
use std::{
    error::Error,
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    time::Instant,
};

const OLD: u32 = 4;
const NEW: [u32; 3] = [4, 3, 6];
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let mebibytes: u64 = words.first().map_or(Ok(256), |word| word.parse())?;
    let below = words.get(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let place = below.join(format!("pcm-bench-files-{}", std::process::id()));
    fs::create_dir_all(&place)?;
    let outcome = measure(mebibytes << 20, &place);
    fs::remove_dir_all(&place)?;
    outcome
}

fn measure(bytes: u64, place: &Path) -> Result<(), Box<dyn Error>> {
    let rows = bytes / 8 / 1024;
    let spec = ArraySpec::new(8, [AxisSpec::block(rows).with_halo(1), AxisSpec::whole(1024)]);
    let partition = Partition::new(&spec, OLD)?;
    let parts: Vec<Vec<u8>> = (0..OLD).map(|rank| noise(partition.local_bytes(rank), rank)).collect();
    let gigabytes = parts.iter().map(Vec::len).sum::<usize>() as f64 / 1e9;
    let (mut bare, mut ours, mut packed) = (Vec::new(), Vec::new(), Vec::new());
    let path = |name: &str, round: usize| place.join(format!("{name}-{round}"));
    for round in 0..ROUNDS {
        bare.push(seconds(|| write_bare(&parts, &path("bare", round)))?);
        ours.push(seconds(|| {
            write_ours(&parts, &partition, &path("ours", round), Compression::None)
        })?);
        packed.push(seconds(|| {
            write_ours(&parts, &partition, &path("lz4", round), Compression::Lz4)
        })?);
        if round > 0 {
            ["bare", "ours", "lz4"]
                .iter()
                .try_for_each(|name| fs::remove_dir_all(path(name, round - 1)))?;
        }
    }
    let (bare, ours, packed) = (median(bare), median(ours), median(packed));
    println!("write {gigabytes:.2} GB in {OLD} parts, synced; median of {ROUNDS}, GB/s and ratio to bare");
    for (name, time) in [("bare", bare), ("checkpoint", ours), ("checkpoint lz4, noise", packed)] {
        println!("  {name:24} {:6.2}  {:5.2}", gigabytes / time, bare / time);
    }
    let (bare, ours) = (path("bare", ROUNDS - 1), path("ours", ROUNDS - 1));
    println!("restore, files in the page cache; seconds for all ranks one after the other, ratio to reading the files");
    for ranks in NEW {
        let (mut reads, mut restores) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            reads.push(seconds(|| read_bare(&bare))?);
            restores.push(seconds(|| restore(&ours, &spec, ranks))?);
        }
        let (reads, restores) = (median(reads), median(restores));
        println!(
            "  {OLD} → {ranks}: read {reads:.3}  restore {restores:.3}  {:5.2}",
            restores / reads
        );
    }
    Ok(())
}

fn noise(bytes: u64, seed: u32) -> Vec<u8> {
    let mut state = u64::from(seed) + 1;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 29).to_ne_bytes()
    };
    std::iter::repeat_with(next)
        .take(bytes as usize / 8)
        .flatten()
        .collect()
}

fn seconds(act: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let begun = Instant::now();
    act()?;
    Ok(begun.elapsed().as_secs_f64())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn write_bare(parts: &[Vec<u8>], directory: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir(directory)?;
    for (rank, part) in parts.iter().enumerate() {
        let mut file = File::create_new(directory.join(rank.to_string()))?;
        part.chunks(BLOCK_BYTES as usize)
            .try_for_each(|block| file.write_all(block))?;
        file.sync_all()?;
    }
    Ok(())
}

fn write_ours(
    parts: &[Vec<u8>],
    partition: &Partition,
    target: &Path,
    compression: Compression,
) -> Result<(), Box<dyn Error>> {
    let draft = Draft::begin(target)?;
    let content = Content::Array {
        dtype: "<f8",
        partition,
    };
    let mut records = Vec::new();
    for (rank, part) in (0..).zip(parts) {
        let file = part_file(0, "t", rank, true, compression);
        records.push(write_part(draft.directory(), file, rank, content, part, compression)?);
    }
    draft.publish(&Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        application: Application::default(),
        iteration: 0,
        created_unix_s: 0,
        ranks: OLD,
        compression,
        block_bytes: BLOCK_BYTES,
        regions: vec![RegionRecord {
            name: "t".to_owned(),
            registration: String::new(),
            contents: Contents::Array(Box::new(ArrayRecord::new("<f8", partition))),
            parts: records,
        }],
    })?;
    Ok(())
}

fn read_bare(directory: &Path) -> Result<(), Box<dyn Error>> {
    for rank in 0..OLD {
        let mut file = File::open(directory.join(rank.to_string()))?;
        let mut bytes = vec![0; file.metadata()?.len() as usize];
        file.read_exact(&mut bytes)?;
    }
    Ok(())
}

fn restore(directory: &Path, spec: &ArraySpec, ranks: u32) -> Result<(), Box<dyn Error>> {
    let checkpoint = Checkpoint::open(directory)?;
    let region = &checkpoint.manifest().regions[0];
    let Contents::Array(array) = &region.contents else {
        return Err("the region is an array".into());
    };
    let after = Partition::new(spec, ranks)?;
    for rank in 0..ranks {
        let mut storage = vec![0; after.local_bytes(rank) as usize];
        array_fill(
            &checkpoint,
            region,
            array,
            (&after, rank),
            HaloFill::Filled,
            &mut storage,
            &mut |_| {},
        )?;
    }
    Ok(())
}
