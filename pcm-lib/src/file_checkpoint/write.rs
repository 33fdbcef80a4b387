//! Writing a checkpoint: rank 0 opens and publishes it, every rank writes its own parts. Collective; either all ranks
//! have made it or none.
#![allow(unsafe_code, reason = "reads the application's arrays")]

use super::{CheckpointError, Settings, agree};
use crate::{
    mpi::Communicator,
    region::{ArrayRegion, CustomRegion, ElementType, Kind, Registry},
};
use pcm_checkpoint::{
    Application, ArrayRecord, BLOCK_BYTES, Compression, Content, Contents, Draft, FORMAT, Manifest, PartRecord,
    RegionRecord, VERSION, WriteError, dtype_of_size, part_file, write_part,
};
use std::{
    env,
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// After a restart the same iterations come again; so many checkpoints of one iteration get names of their own.
const SAME_NAME_MAX: u32 = 1000;

/// Writes all registered data, as it is at the top of this iteration. Returns where it is.
pub(crate) fn write(
    registry: &mut Registry,
    job: &Communicator,
    settings: &Settings,
    iteration: u64,
) -> Result<PathBuf, CheckpointError> {
    let failed = |problem| CheckpointError::Write { problem };
    let (rank, size) = (job.rank()?, job.size()?);
    let mut draft = (rank == 0).then(|| open(settings, iteration));
    let opened = draft.as_ref().map(|draft| match draft {
        Ok(draft) => Ok(bytes_of(draft.directory())),
        Err(error) => Err(error.to_string()),
    });
    let directory: Vec<u8> = agree::announce(job, opened)?.map_err(failed)?;
    let directory = PathBuf::from(OsString::from_vec(directory));
    let written = parts(registry, rank, size, &directory, settings.compression);
    let all = agree::collect(job, written)?;
    let published = all.map(|all| match (all, draft.take()) {
        (Ok(all), Some(Ok(draft))) => {
            let manifest = manifest(registry, settings, iteration, all);
            draft
                .publish(&manifest)
                .map(|path| bytes_of(&path))
                .map_err(|error| error.to_string())
        }
        (Err(problem), _) => Err(problem),
        (_, _) => Err("rank 0 has lost what it opened".to_owned()),
    });
    let path: Vec<u8> = agree::announce(job, published)?.map_err(failed)?;
    Ok(PathBuf::from(OsString::from_vec(path)))
}

fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn open(settings: &Settings, iteration: u64) -> Result<Draft, WriteError> {
    let directory = env::current_dir().unwrap_or_default().join(&settings.directory);
    let name = format!("{}-{iteration:08}", settings.name);
    let mut opened = Draft::begin(&directory.join(&name));
    for again in 2..SAME_NAME_MAX {
        match opened {
            Err(WriteError::Exists { .. }) => opened = Draft::begin(&directory.join(format!("{name}-{again}"))),
            other => return other,
        }
    }
    opened
}

/// Writes what this rank has; returns the records by region.
fn parts(
    registry: &mut Registry,
    rank: u32,
    size: u32,
    directory: &Path,
    compression: Compression,
) -> Result<Vec<(u32, PartRecord)>, String> {
    let mut records = Vec::new();
    for (id, region) in registry.regions_mut() {
        let name = region.name.clone();
        let file = |is_array| part_file(id.0, &name, rank, is_array, compression);
        let raw = |bytes: &[u8]| write_part(directory, file(false), rank, Content::Raw, bytes, compression);
        let written = match &mut region.kind {
            Kind::Array(array) if array.form().is_scratch => continue,
            Kind::Array(array) => array_part(array, directory, file(true), compression),
            Kind::Value(value) if rank == 0 => raw(value.bytes()),
            Kind::Value(_) => continue,
            Kind::PerRank(per_rank) => raw(per_rank.value.bytes()),
            Kind::Custom(custom) => raw(&packed(&name, custom, rank, size)?),
        };
        records.push((id.0, written.map_err(|error| error.to_string())?));
    }
    Ok(records)
}

fn array_part(
    array: &ArrayRegion,
    directory: &Path,
    file: String,
    compression: Compression,
) -> Result<PartRecord, WriteError> {
    // SAFETY: the application is inside a call of the library.
    let bytes = unsafe { array.storage().bytes() };
    let dtype = dtype(array.form().element);
    let partition = array.partition();
    let content = Content::Array {
        dtype: &dtype,
        partition,
    };
    write_part(directory, file, array.rank(), content, bytes, compression)
}

/// What the rank would hand to the process that takes its place.
fn packed(name: &str, custom: &mut CustomRegion, rank: u32, size: u32) -> Result<Vec<u8>, String> {
    let targets = custom.hooks.targets(rank, size, size);
    if targets.is_some_and(|targets| targets != [rank]) {
        return Err(format!(
            "custom region {name:?} gives a rank's data to other ranks even if their number stays; such regions cannot \
             be written to files"
        ));
    }
    let mut bytes = Vec::new();
    let outcome = custom.hooks.pack(rank, size, &mut bytes);
    outcome.map_err(|error| format!("the pack hook of {name:?} failed: {error}"))?;
    Ok(bytes)
}

fn manifest(registry: &Registry, settings: &Settings, iteration: u64, all: Vec<Vec<(u32, PartRecord)>>) -> Manifest {
    let ranks = all.len() as u32;
    let records: Vec<(u32, PartRecord)> = all.into_iter().flatten().collect();
    let regions = registry
        .regions()
        .zip(registry.descriptions())
        .map(|((id, region), description)| {
            let contents = match &region.kind {
                Kind::Array(array) if array.form().is_scratch => Contents::Scratch,
                Kind::Array(array) => {
                    let record = ArrayRecord::new(dtype(array.form().element), array.partition());
                    Contents::Array(Box::new(record))
                }
                Kind::Value(_) => Contents::Value,
                Kind::PerRank(_) => Contents::PerRank,
                Kind::Custom(_) => Contents::Custom,
            };
            let parts = records.iter().filter(|(region, _)| *region == id.0);
            RegionRecord {
                name: description.name,
                registration: description.text,
                contents,
                parts: parts.map(|(_, part)| part.clone()).collect(),
            }
        });
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        application: application(settings),
        iteration,
        created_unix_s: since_1970.as_secs(),
        ranks,
        compression: settings.compression,
        block_bytes: BLOCK_BYTES,
        regions: regions.collect(),
    }
}

fn application(settings: &Settings) -> Application {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    Application {
        name: settings.name.clone(),
        program: env::current_exe().map(text).unwrap_or_default(),
        arguments: env::args_os()
            .skip(1)
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        directory: env::current_dir().map(text).unwrap_or_default(),
    }
}

/// The NumPy type of an element.
pub(super) fn dtype(element: ElementType) -> String {
    let order = if cfg!(target_endian = "little") { '<' } else { '>' };
    match element {
        ElementType::Int8 => "|i1".to_owned(),
        ElementType::Uint8 => "|u1".to_owned(),
        ElementType::Int16 => format!("{order}i2"),
        ElementType::Int32 => format!("{order}i4"),
        ElementType::Int64 => format!("{order}i8"),
        ElementType::Uint16 => format!("{order}u2"),
        ElementType::Uint32 => format!("{order}u4"),
        ElementType::Uint64 => format!("{order}u8"),
        ElementType::Float => format!("{order}f4"),
        ElementType::Double => format!("{order}f8"),
        ElementType::ComplexFloat => format!("{order}c8"),
        ElementType::ComplexDouble => format!("{order}c16"),
        ElementType::Bytes(size) => dtype_of_size(size),
    }
}
