//! The format as others see it: golden files, restoring on any number of ranks, damage, interrupted writes.

#![allow(clippy::unwrap_used, reason = "a test")]

mod sample;

use pcm_checkpoint::{
    ArrayRecord, Checkpoint, Compression, Content, Contents, Damage, Draft, Fault, Pace, Progress, ReadError,
    RegionRecord, WriteError, array_fill, export, is_checkpoint, remove_drafts, write_part_paced,
};
use pcm_core::{
    partition::{ArraySpec, Partition},
    redistribution::HaloFill,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

#[test]
fn drafts_whose_owners_are_gone_are_removed_and_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let drafts = ["", "one-", "two-"].map(|owner| Draft::begin_for(&folder.path().join("c-1"), owner).unwrap());
    fs::create_dir(folder.path().join(".one-7")).unwrap();
    remove_drafts(folder.path(), |owner| owner == "one-");
    let stay = drafts.each_ref().map(|draft| draft.directory().is_dir());
    assert_eq!(stay, [true, false, true]);
    assert!(folder.path().join(".one-7").is_dir());
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn array<'a>(checkpoint: &'a Checkpoint, name: &str) -> (&'a RegionRecord, &'a ArrayRecord) {
    let region = checkpoint.manifest().region(name).unwrap();
    match &region.contents {
        Contents::Array(array) => (region, array),
        other => panic!("{other:?}"),
    }
}

fn filled(checkpoint: &Checkpoint, name: &str, spec: &ArraySpec, ranks: u32, rank: u32) -> Vec<u8> {
    let (region, record) = array(checkpoint, name);
    let after = Partition::new(spec, ranks).unwrap();
    let mut storage = vec![0xee; after.local_bytes(rank) as usize];
    let mut told = 0;
    array_fill(
        checkpoint,
        region,
        record,
        (&after, rank),
        HaloFill::Filled,
        &mut storage,
        &mut |bytes| told += bytes,
    )
    .unwrap();
    assert!(told <= storage.len() as u64 && (told > 0 || ranks > 1), "{told}");
    storage
}

fn exported(checkpoint: &Checkpoint, name: &str, margins: bool) -> (Vec<u64>, Vec<u8>) {
    let (region, record) = array(checkpoint, name);
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("out.npy");
    let shape = export(checkpoint, region, record, margins, &fs::File::create(&path).unwrap()).unwrap();
    (shape, fs::read(path).unwrap())
}

const KINDS: [(&str, Compression); 2] = [("v1", Compression::None), ("v1-lz4", Compression::Lz4)];

#[test]
fn golden_checkpoints_of_all_versions_are_read() {
    for (name, _) in KINDS {
        let checkpoint = Checkpoint::open(&golden(name)).unwrap();
        assert!(checkpoint.verify().is_empty());
        let manifest = checkpoint.manifest();
        assert_eq!((manifest.iteration, manifest.ranks), (42, 3));
        let seed = manifest.region("seed").unwrap();
        let bytes = |rank: usize| checkpoint.part(seed, &seed.parts[rank]).unwrap().read_all().unwrap();
        assert_eq!((bytes(0), bytes(2)), (vec![0; 3], vec![2; 3]));
        for ranks in 1..=8 {
            for rank in 0..ranks {
                check_share(&checkpoint, ranks, rank);
            }
        }
    }
}

fn check_share(checkpoint: &Checkpoint, ranks: u32, rank: u32) {
    let share = |name, spec: ArraySpec, cell: fn(&[i64]) -> Vec<u8>| {
        let found = filled(checkpoint, name, &spec, ranks, rank);
        let partition = Partition::new(&spec, ranks).unwrap();
        // An empty part owns nothing that a halo could be beside.
        if partition.elements(rank) > 0 {
            assert_eq!(
                found,
                sample::storage(&spec, ranks, rank, cell),
                "{name}: {rank} of {ranks}"
            );
        }
    };
    share("temperature / K", sample::grid(), sample::grid_bytes);
    share("dealt", sample::dealt(), sample::dealt_bytes);
    share("ring", sample::ring(), sample::ring_bytes);
}

#[test]
fn this_version_writes_the_golden_bytes() {
    let out = tempfile::tempdir().unwrap();
    for (name, compression) in KINDS {
        let written = sample::write(&out.path().join(name), compression).unwrap();
        let names = |directory: &Path| -> Vec<String> {
            let entries = fs::read_dir(directory).unwrap();
            let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&written), names(&golden(name)));
        for file in names(&written) {
            let [ours, golden] = [&written, &golden(name)].map(|directory| fs::read(directory.join(&file)).unwrap());
            assert!(ours == golden, "{name}/{file} differs from the golden one");
        }
    }
}

#[test]
fn an_exported_array_is_in_global_order_without_halos() {
    for (name, _) in KINDS {
        let checkpoint = Checkpoint::open(&golden(name)).unwrap();
        let (shape, bytes) = exported(&checkpoint, "temperature / K", false);
        let cells: Vec<u8> = (0..7)
            .flat_map(|row| (0..5).flat_map(move |column| sample::grid_bytes(&[row, column])))
            .collect();
        assert_eq!((shape, &bytes[128..]), (vec![7, 5], &cells[..]));
        let (shape, bytes) = exported(&checkpoint, "temperature / K", true);
        let cells: Vec<u8> = (-1..8)
            .flat_map(|row| (-2..7).flat_map(move |column| sample::grid_bytes(&[row, column])))
            .collect();
        assert_eq!((shape, &bytes[128..]), (vec![9, 9], &cells[..]));
        let (shape, bytes) = exported(&checkpoint, "dealt", true);
        let cells: Vec<u8> = (0..23).flat_map(|index| sample::dealt_bytes(&[index])).collect();
        assert_eq!((shape, &bytes[128..]), (vec![23], &cells[..]));
        let (shape, bytes) = exported(&checkpoint, "ring", true);
        let cells: Vec<u8> = (0..11).flat_map(|index| sample::ring_bytes(&[index])).collect();
        assert_eq!((shape, &bytes[128..]), (vec![11], &cells[..]));
    }
}

#[test]
fn damaged_truncated_and_missing_parts_are_named_and_never_handed_out() {
    for (_, compression) in KINDS {
        let out = tempfile::tempdir().unwrap();
        let written = sample::write(&out.path().join("c"), compression).unwrap();
        let checkpoint = Checkpoint::open(&written).unwrap();
        let file = |rank: usize| written.join(&checkpoint.manifest().region("dealt").unwrap().parts[rank].file);
        let mut bytes = fs::read(file(0)).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(file(0), &bytes).unwrap();
        fs::write(file(1), &fs::read(file(1)).unwrap()[..40]).unwrap();
        fs::remove_file(file(2)).unwrap();
        let damages = checkpoint.verify();
        assert!(
            matches!(
                [&damages[0].fault, &damages[1].fault, &damages[2].fault],
                [Fault::Block { .. }, Fault::Length { found: 40, .. }, Fault::Missing]
            ),
            "{damages:?}"
        );
        for (rank, damage) in (0..).zip(&damages) {
            assert!((damage.rank, &*damage.region) == (rank, "dealt"), "{damage}");
        }
        let (region, record) = array(&checkpoint, "dealt");
        let after = Partition::new(&sample::dealt(), 1).unwrap();
        let mut storage = vec![0; after.local_bytes(0) as usize];
        let refused = array_fill(
            &checkpoint,
            region,
            record,
            (&after, 0),
            HaloFill::Filled,
            &mut storage,
            &mut |_| {},
        );
        assert!(refused.unwrap_err().to_string().contains("is damaged"));
    }
}

#[test]
fn a_manifest_or_seal_that_was_changed_is_refused() {
    let out = tempfile::tempdir().unwrap();
    let written = sample::write(&out.path().join("c"), Compression::None).unwrap();
    let manifest = written.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"iteration\": 42", "\"iteration\": 43")).unwrap();
    assert!(matches!(Checkpoint::open(&written), Err(ReadError::Manifest { .. })));
    fs::write(&manifest, text).unwrap();
    assert!(Checkpoint::open(&written).is_ok());
    let seal = fs::read_to_string(written.join("SEAL")).unwrap();
    fs::write(written.join("SEAL"), seal.replacen('1', "2", 1)).unwrap();
    assert!(matches!(
        Checkpoint::open(&written),
        Err(ReadError::Version { found: 2, .. })
    ));
    fs::remove_file(written.join("SEAL")).unwrap();
    assert!(!is_checkpoint(&written));
    let refused = Checkpoint::open(&written).unwrap_err();
    assert!(refused.to_string().contains("no SEAL"), "{refused}");
    let refused = Checkpoint::open(&out.path().join("nothing")).unwrap_err();
    assert!(refused.to_string().contains("there is no directory"), "{refused}");
}

#[test]
fn a_manifest_never_leads_out_of_its_directory() {
    let checkpoint = Checkpoint::open(&golden("v1")).unwrap();
    for name in ["../x", "/etc/passwd", "", ".hidden", "a/b"] {
        let mut manifest = checkpoint.manifest().clone();
        manifest.regions[0].parts[0].file = name.to_owned();
        assert!(
            manifest.fault().is_some_and(|fault| fault.contains("plain file name")),
            "{name}"
        );
    }
}

#[test]
fn an_unfinished_checkpoint_is_not_there_and_leaves_nothing() {
    let out = tempfile::tempdir().unwrap();
    let target = out.path().join("c");
    let draft = Draft::begin(&target).unwrap();
    fs::write(draft.directory().join("x"), "x").unwrap();
    assert!(!target.exists());
    drop(draft);
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
}

#[test]
fn what_exists_is_not_overwritten_and_a_missing_part_is_named() {
    let out = tempfile::tempdir().unwrap();
    let target = out.path().join("c");
    sample::write(&target, Compression::None).unwrap();
    assert!(matches!(Draft::begin(&target), Err(WriteError::Exists { .. })));
    let manifest = Checkpoint::open(&target).unwrap().manifest().clone();
    let draft = Draft::begin(&out.path().join("d")).unwrap();
    let refused = draft.publish(&manifest).unwrap_err().to_string();
    assert!(
        refused.contains("rank 0") && refused.contains("is missing"),
        "{refused}"
    );
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 1, "the draft was left");
}

/// A checkpoint of one array of so many elements on one rank.
fn of_one_array(folder: &Path, data: &[u8], compression: Compression, pace: &Pace) -> Checkpoint {
    let spec = ArraySpec::new(8, [pcm_core::partition::AxisSpec::block(data.len() as u64 / 8)]);
    let partition = Partition::new(&spec, 1).unwrap();
    let draft = Draft::begin(&folder.join(format!("{compression:?}-{}", data.len()))).unwrap();
    let content = Content::Array {
        dtype: "<u8",
        partition: &partition,
    };
    let file = "p.npy".to_owned();
    let part = write_part_paced(draft.directory(), file, 0, content, &data, compression, pace).unwrap();
    let mut manifest = Checkpoint::open(&golden("v1")).unwrap().manifest().clone();
    manifest.ranks = 1;
    manifest.compression = compression;
    manifest.regions = vec![RegionRecord {
        name: "p".into(),
        registration: String::new(),
        contents: Contents::Array(Box::new(ArrayRecord::new("<u8", &partition))),
        parts: vec![part],
    }];
    Checkpoint::open(&draft.publish(&manifest).unwrap()).unwrap()
}

fn squares(count: u64) -> Vec<u8> {
    (0..count).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect()
}

/// Reads a stretch of the only part.
fn stretch(checkpoint: &Checkpoint, offset: usize, length: usize) -> Result<Vec<u8>, Damage> {
    let region = &checkpoint.manifest().regions[0];
    let mut bytes = vec![0; length];
    let mut reader = checkpoint.part(region, &region.parts[0])?;
    reader.read(offset as u64, &mut bytes).map(|()| bytes)
}

#[test]
fn parts_of_many_blocks_are_checked_block_by_block() {
    let out = tempfile::tempdir().unwrap();
    let data = squares(500_000);
    for compression in [Compression::None, Compression::Lz4] {
        let checkpoint = of_one_array(out.path(), &data, compression, &Pace::new(None, Progress::default()));
        assert_eq!(checkpoint.manifest().regions[0].parts[0].crc32.len(), 4);
        for (offset, length) in [
            (0, data.len()),
            (1_048_448, 1_048_576),
            (1_000_000, 100_000),
            (3_999_999, 1),
        ] {
            let bytes = stretch(&checkpoint, offset, length).unwrap();
            assert!(
                bytes == data[offset..offset + length],
                "{compression:?} {offset} {length}"
            );
        }
    }
}

#[test]
fn what_others_may_write_is_never_opened_as_ones_own_however_fast_it_takes_the_others_place() {
    let out = tempfile::tempdir().unwrap();
    let theirs = sample::write(&out.path().join("theirs"), Compression::None).unwrap();
    let pace = Pace::new(None, Progress::default());
    let ours = of_one_array(out.path(), &squares(1), Compression::None, &pace);
    for (directory, mode) in [(&*theirs, 0o664), (ours.directory(), 0o644)] {
        for file in ["manifest.json", "SEAL"] {
            fs::set_permissions(directory.join(file), Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    }
    assert!(Checkpoint::open(&theirs).is_ok() && Checkpoint::open_own(ours.directory()).is_ok());
    let refused = Checkpoint::open_own(&theirs).unwrap_err().to_string();
    assert!(
        refused.contains("SEAL") && refused.contains("other users may write"),
        "{refused}"
    );
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                renameat_with(CWD, ours.directory(), CWD, &theirs, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let opened = (0..5_000).filter_map(|_| Checkpoint::open_own(ours.directory()).ok());
        let wrong = opened
            .filter(|checkpoint| checkpoint.manifest() != ours.manifest())
            .count();
        is_over.store(true, Relaxed);
        assert_eq!(wrong, 0);
    });
}

/// File systems with and, mostly, without direct transfers.
fn places() -> [tempfile::TempDir; 3] {
    let here = env!("CARGO_TARGET_TMPDIR");
    [
        tempfile::tempdir_in(here),
        tempfile::tempdir(),
        tempfile::tempdir_in("/dev/shm"),
    ]
    .map(Result::unwrap)
}

#[test]
fn large_parts_are_the_same_bytes_whoever_writes_and_reads_them_past_the_page_cache() {
    // With and without an end that is no whole sector.
    for count in [1_500_001, 2 * 1024 * 1024 - 16] {
        let data = squares(count);
        for place in places() {
            let progress = Progress::default();
            let pace = Pace::new(None, progress.clone()).polite(5);
            if count % 2 == 0 {
                progress.hurry();
            }
            let checkpoint = of_one_array(place.path(), &data, Compression::None, &pace);
            let file = fs::read(checkpoint.directory().join("p.npy")).unwrap();
            assert!(file[128..] == data, "{:?}", place.path());
            assert_eq!(progress.written(), file.len() as u64);
            assert!(checkpoint.verify().is_empty());
            for (offset, length) in [
                (0, data.len()),
                (77_777, 9_000_001),
                (data.len() - 8_388_608, 8_388_608),
            ] {
                let bytes = stretch(&checkpoint, offset, length).unwrap();
                assert!(bytes == data[offset..offset + length], "{offset} {length}");
            }
        }
    }
}

#[test]
fn damage_in_the_middle_of_much_that_is_read_is_named() {
    let data = squares(2_000_000);
    for place in places() {
        let checkpoint = of_one_array(
            place.path(),
            &data,
            Compression::None,
            &Pace::new(None, Progress::default()),
        );
        let path = checkpoint.directory().join("p.npy");
        let mut file = fs::read(&path).unwrap();
        file[9_500_000] ^= 1;
        fs::write(&path, &file).unwrap();
        let damage = stretch(&checkpoint, 5, data.len() - 5).unwrap_err();
        assert!(matches!(damage.fault, Fault::Block { offset: 9_437_184 }), "{damage:?}");
    }
}

#[test]
fn a_writer_that_nobody_hurries_ends_when_it_is_called_off() {
    let place = tempfile::tempdir().unwrap();
    let data = squares(2_000_000);
    let progress = Progress::default();
    // A byte a second: the second block is due in days.
    let pace = Pace::new(std::num::NonZeroU64::new(1), progress.clone()).polite(5);
    let spec = ArraySpec::new(8, [pcm_core::partition::AxisSpec::block(2_000_000)]);
    let partition = Partition::new(&spec, 1).unwrap();
    let content = Content::Array {
        dtype: "<u8",
        partition: &partition,
    };
    std::thread::scope(|scope| {
        let write = || {
            let (file, data) = ("p.npy".to_owned(), &data[..]);
            write_part_paced(place.path(), file, 0, content, &data, Compression::None, &pace)
        };
        let writer = scope.spawn(write);
        while progress.written() == 0 {
            std::thread::yield_now();
        }
        progress.call_off();
        let refused = writer.join().unwrap().unwrap_err().to_string();
        assert!(refused.contains("aborted"), "{refused}");
    });
}
