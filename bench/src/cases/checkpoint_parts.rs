//! Bench `checkpoint-parts`: the format of checkpoints against bare files, on one thread: writing a part against
//! writing and syncing the same bytes (what `dd conv=fsync` does), restoring on another number of ranks against reading
//! the same files.

use super::bench::{Bench, Context};
use pcm_bench::{Failure, OnPath, Ratio, Report, Samples};
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
    path::Path,
    time::Instant,
};

pub(super) const BENCH: Bench = Bench {
    name: "checkpoint-parts",
    about: "parts of a checkpoint against bare files: writing and syncing, restoring on as many, fewer and more ranks",
    run,
};

const OLD: u32 = 4;
const NEW: [u32; 3] = [4, 3, 6];

/// What goes wrong with the files of this bench.
type Problem = Box<dyn Error>;

fn run(context: &Context) -> Result<Report, Failure> {
    let place = std::env::temp_dir().join(format!("pcm-bench-parts-{}", std::process::id()));
    fs::create_dir_all(&place).on("create", &place)?;
    let mib: u64 = if context.quick { 64 } else { 256 };
    let measured = measure(mib << 20, context.rounds(), &place);
    fs::remove_dir_all(&place).on("remove", &place)?;
    measured.map_err(|problem| Failure::bench(BENCH.name, problem.to_string()))
}

fn measure(bytes: u64, rounds: usize, place: &Path) -> Result<Report, Problem> {
    let spec = ArraySpec::new(
        8,
        [AxisSpec::block(bytes / 8 / 1024).with_halo(1), AxisSpec::whole(1024)],
    );
    let partition = Partition::new(&spec, OLD)?;
    let parts: Vec<Vec<u8>> = (0..OLD).map(|rank| noise(partition.local_bytes(rank), rank)).collect();
    let mut report = Report::default();
    let (bare_files, checkpoint) = (place.join("bare"), place.join("checkpoint"));
    let mut bare = Samples::new(format!("write {OLD} parts, bare files"), "s");
    let mut ours = Samples::new(format!("write {OLD} parts, checkpoint"), "s");
    let mut packed = Samples::new(format!("write {OLD} parts, checkpoint by lz4 of noise"), "s");
    for _ in 0..rounds {
        // The same names each round, so that only one of each is on the disk.
        let again = |path: &Path| {
            if path.exists() {
                fs::remove_dir_all(path)
            } else {
                Ok(())
            }
        };
        again(&bare_files)?;
        bare.push(seconds(|| write_bare(&parts, &bare_files))?);
        for (samples, compression) in [(&mut packed, Compression::Lz4), (&mut ours, Compression::None)] {
            again(&checkpoint)?;
            samples.push(seconds(|| write_ours(&parts, &partition, &checkpoint, compression))?);
        }
    }
    report
        .ratios
        .push(Ratio::new("checkpoint / bare files, writing", ours.paired_ratio(&bare)));
    report.series.extend([bare, ours, packed]);
    for ranks in NEW {
        let mut reads = Samples::new(format!("read the files of {OLD} parts, for {ranks} ranks"), "s");
        let mut restores = Samples::new(format!("restore {OLD} parts on {ranks} ranks"), "s");
        for _ in 0..rounds {
            reads.push(seconds(|| read_bare(&bare_files))?);
            restores.push(seconds(|| restore(&checkpoint, &spec, ranks))?);
        }
        let name = format!("restore on {ranks} ranks / reading the files");
        report.ratios.push(Ratio::new(name, restores.paired_ratio(&reads)));
        report.series.extend([reads, restores]);
    }
    let gigabytes = parts.iter().map(Vec::len).sum::<usize>() as f64 / 1e9;
    report.remarks = vec![format!(
        "{gigabytes:.2} GB, writes synced; restores from the page cache, all ranks one after the other"
    )];
    Ok(report)
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

fn seconds(act: impl FnOnce() -> Result<(), Problem>) -> Result<f64, Problem> {
    let begun = Instant::now();
    act()?;
    Ok(begun.elapsed().as_secs_f64())
}

fn write_bare(parts: &[Vec<u8>], directory: &Path) -> Result<(), Problem> {
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
) -> Result<(), Problem> {
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

fn read_bare(directory: &Path) -> Result<(), Problem> {
    for rank in 0..OLD {
        let mut file = File::open(directory.join(rank.to_string()))?;
        let mut bytes = vec![0; file.metadata()?.len() as usize];
        file.read_exact(&mut bytes)?;
    }
    Ok(())
}

fn restore(directory: &Path, spec: &ArraySpec, ranks: u32) -> Result<(), Problem> {
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
