//! What is registered, as far as the manifest of a checkpoint needs it: taken while the program is held, so that its
//! files can be written while it runs on. Holds no data.

use super::Settings;
use crate::{
    region::{ElementType, Kind, Registry},
    start,
};
use pcm_checkpoint::{
    Application, ArrayRecord, BLOCK_BYTES, Compression, Contents, FORMAT, Manifest, PartRecord, RanksOfProgram,
    RegionRecord, VERSION, dtype_of_size,
};
use pcm_proto::app::environment::PROGRAMS;
use pcm_proto::rank_counts::RankCounts;
use std::{
    env,
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

/// A region as the manifest has it, without its parts.
#[derive(Debug)]
pub(super) struct Outlined {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) contents: Contents,
    registration: String,
}

/// See the file head.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(super) regions: Vec<Outlined>,
    application: Application,
    iteration: u64,
    compression: Compression,
    possible_ranks: RankCounts,
}

impl Outline {
    /// Of what is registered now, at the top of this iteration.
    pub(crate) fn new(registry: &Registry, settings: &Settings, iteration: u64) -> Self {
        let regions = registry.regions().zip(registry.descriptions());
        let regions = regions.map(|((id, region), description)| Outlined {
            id: id.0,
            contents: contents(&region.kind),
            name: description.name,
            registration: description.text,
        });
        Self {
            regions: regions.collect(),
            application: application(settings),
            iteration,
            compression: settings.compression,
            possible_ranks: registry.possible().clone(),
        }
    }

    /// The manifest, with the parts that each rank wrote.
    pub(super) fn manifest(self, all: Vec<Vec<(u32, PartRecord)>>) -> Manifest {
        let ranks = all.len() as u32;
        let records: Vec<(u32, PartRecord)> = all.into_iter().flatten().collect();
        let regions = self.regions.into_iter().map(|region| {
            let parts = records.iter().filter(|(known, _)| *known == region.id);
            RegionRecord {
                name: region.name,
                registration: region.registration,
                contents: region.contents,
                parts: parts.map(|(_, part)| part.clone()).collect(),
            }
        });
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            application: self.application,
            iteration: self.iteration,
            created_unix_s: since_1970.as_secs(),
            ranks,
            possible_ranks: self.possible_ranks,
            compression: self.compression,
            block_bytes: BLOCK_BYTES,
            regions: regions.collect(),
        }
    }
}

fn contents(kind: &Kind) -> Contents {
    match kind {
        Kind::Array(array) if array.form().is_scratch => Contents::Scratch,
        Kind::Array(array) => {
            let record = ArrayRecord::new(dtype(array.form().element), array.partition());
            Contents::Array(Box::new(record))
        }
        Kind::Value(_) => Contents::Value,
        Kind::PerRank(_) => Contents::PerRank,
        Kind::Custom(_) => Contents::Custom,
    }
}

fn application(settings: &Settings) -> Application {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    Application {
        name: settings.name.clone(),
        program: program_as_started().map(text).unwrap_or_default(),
        arguments: env::args_os()
            .skip(1)
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        directory: start::directory().map(text).unwrap_or_default(),
        programs: env::var(PROGRAMS)
            .map(|text| RanksOfProgram::in_text(&text))
            .unwrap_or_default(),
    }
}

/// The program's file by the path it was started by, which may be a link: an interpreter finds its packages by it.
fn program_as_started() -> io::Result<PathBuf> {
    let file = as_on_disk(env::current_exe()?);
    let typed = env::args_os().next().unwrap_or_default();
    let folders = match typed.as_encoded_bytes().contains(&b'/') {
        true => vec![start::directory()?],
        false => env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect(),
    };
    let paths = folders.into_iter().map(|folder| folder.join(&typed));
    let mut same = paths.filter(|path| path.canonicalize().is_ok_and(|found| found == file));
    same.next().map_or(Ok(file.clone()), std::path::absolute)
}

/// The kernel marks the path of a program that was built again since its start.
fn as_on_disk(file: PathBuf) -> PathBuf {
    let text = file.as_os_str().as_encoded_bytes();
    let unmarked = text
        .strip_suffix(b" (deleted)")
        .map(|text| PathBuf::from(OsStr::from_bytes(text)));
    unmarked.filter(|_| !file.exists()).unwrap_or(file)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_program_that_was_built_again_is_named_without_the_mark_of_the_kernel() {
        let folder = tempfile::tempdir().expect("a folder");
        let [plain, marked] = ["prog", "prog (deleted)"].map(|name| folder.path().join(name));
        assert_eq!(as_on_disk(marked.clone()), plain);
        assert_eq!(as_on_disk(plain.clone()), plain);
        fs::write(&marked, "").expect("a program of that name");
        assert_eq!(as_on_disk(marked.clone()), marked);
    }
}
