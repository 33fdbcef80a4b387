//! `checkpoints`: lists, shows and verifies checkpoints in files, exports arrays. Needs no cluster.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::output::{self, Align, Table, bytes};
use pcm_checkpoint::{Checkpoint, Contents, RegionRecord, export, is_checkpoint, is_unfinished};
use pcm_view::time;
use serde::Serialize;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "\
Example:
  pcmctl checkpoints results
  pcmctl checkpoints show results/heat-1200
  pcmctl checkpoints export results/heat-1200 --region t --out t.npy";

/// Most entries of a directory that are examined.
const ENTRIES_MAX: usize = 100_000;

#[derive(clap::Args)]
#[command(after_help = EXAMPLE, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// A directory with checkpoints, or one checkpoint [default: 'checkpoints' in the cluster's directory]
    #[arg(value_name = "DIR")]
    place: Option<PathBuf>,
    /// The same as DIR
    #[arg(long, conflicts_with = "place")]
    dir: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Show program, iteration, ranks and regions of a checkpoint
    #[command(after_help = EXAMPLE)]
    Show {
        /// The checkpoint's directory
        dir: PathBuf,
        /// Print its manifest
        #[arg(long)]
        json: bool,
    },
    /// Read every part and list those that are damaged, truncated or missing
    #[command(after_help = EXAMPLE)]
    Verify {
        /// The checkpoint's directory
        dir: PathBuf,
    },
    /// Write a region to a file: a whole array as .npy, other regions as raw bytes, rank after rank
    #[command(after_help = EXAMPLE)]
    Export {
        /// The checkpoint's directory
        dir: PathBuf,
        /// The region's name
        #[arg(long)]
        region: String,
        /// The file to write
        #[arg(long, value_name = "FILE.npy")]
        out: PathBuf,
        /// Include the cells beyond the ends of the array, where the application keeps boundary values
        #[arg(long)]
        margins: bool,
    },
}

#[derive(Serialize)]
struct Line {
    directory: PathBuf,
    application: String,
    iteration: u64,
    ranks: u32,
    created: String,
    bytes: u64,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    match args.action {
        None => {
            let default = || cluster.path().join("checkpoints");
            let (lines, unfinished) = match args.place.or(args.dir) {
                Some(directory) if is_checkpoint(&directory) => (vec![line(&open(&directory)?)], Vec::new()),
                Some(directory) => (list(&directory)?, unfinished(&directory)),
                // No job has written any yet.
                None if !default().exists() => (Vec::new(), Vec::new()),
                None => (list(&default())?, unfinished(&default())),
            };
            for directory in unfinished {
                output::tell(format_args!(
                    "{} is unfinished, no checkpoint: a job writes it now, or was interrupted; then remove it",
                    directory.display()
                ));
            }
            if args.json {
                output::print_json(&lines)?;
            } else {
                output::print(&table(&lines))?;
            }
        }
        Some(Action::Show { dir, json }) => {
            let checkpoint = open(&dir)?;
            if json {
                output::print_json(checkpoint.manifest())?;
            } else {
                output::print(&shown(&checkpoint))?;
            }
        }
        Some(Action::Verify { dir }) => verify(&open(&dir)?)?,
        Some(Action::Export {
            dir,
            region,
            out,
            margins,
        }) => take_out(&open(&dir)?, &region, &out, margins)?,
    }
    Ok(0)
}

fn open(directory: &Path) -> Result<Checkpoint, Failure> {
    Checkpoint::open(directory).map_err(|error| Failure::checkpoint(error.to_string()))
}

/// Names directories that cannot be opened on standard error and leaves them out.
fn list(directory: &Path) -> Result<Vec<Line>, Failure> {
    let entries = fs::read_dir(directory).map_err(|error| Failure::file("list", directory, &error))?;
    let mut lines = Vec::new();
    for entry in entries.take(ENTRIES_MAX).flatten() {
        let path = entry.path();
        let is_draft = entry.file_name().as_encoded_bytes().starts_with(b".");
        if is_draft || !is_checkpoint(&path) {
            continue;
        }
        match Checkpoint::open(&path) {
            Ok(checkpoint) => lines.push(line(&checkpoint)),
            Err(error) => output::tell(error),
        }
    }
    lines.sort_by(|a, b| (&a.created, a.iteration, &a.directory).cmp(&(&b.created, b.iteration, &b.directory)));
    Ok(lines)
}

/// What was begun there and is no checkpoint.
fn unfinished(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().take(ENTRIES_MAX);
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| is_unfinished(path));
    found.sort();
    found
}

/// The newest checkpoint in a directory, which may not be there yet.
pub(super) fn newest(directory: &Path) -> Result<Option<PathBuf>, Failure> {
    if !directory.exists() {
        return Ok(None);
    }
    Ok(list(directory)?.pop().map(|line| line.directory))
}

fn line(checkpoint: &Checkpoint) -> Line {
    let manifest = checkpoint.manifest();
    Line {
        directory: checkpoint.directory().to_owned(),
        application: manifest.application.name.clone(),
        iteration: manifest.iteration,
        ranks: manifest.ranks,
        created: time::rfc3339(manifest.created_unix_s.saturating_mul(1_000_000)),
        bytes: manifest.data_bytes(),
    }
}

fn table(lines: &[Line]) -> String {
    let mut table = Table::new(&[
        ("APPLICATION", Align::Left),
        ("ITERATION", Align::Right),
        ("RANKS", Align::Right),
        ("BYTES", Align::Right),
        ("CREATED", Align::Left),
        ("DIRECTORY", Align::Left),
    ]);
    for line in lines {
        table.row(vec![
            line.application.clone(),
            line.iteration.to_string(),
            line.ranks.to_string(),
            bytes(line.bytes),
            line.created.clone(),
            line.directory.display().to_string(),
        ]);
    }
    table.render()
}

fn shown(checkpoint: &Checkpoint) -> String {
    let manifest = checkpoint.manifest();
    let application = &manifest.application;
    let head = line(checkpoint);
    let mut text = format!(
        "{}: {} {}\nin {}\niteration {} of {} ranks, {}, made {}, format version {}\n\n",
        application.name,
        application.program,
        application.arguments.join(" "),
        application.directory,
        head.iteration,
        head.ranks,
        bytes(head.bytes),
        head.created,
        manifest.version,
    );
    let mut table = Table::new(&[
        ("REGION", Align::Left),
        ("BYTES", Align::Right),
        ("PARTS", Align::Right),
        ("REGISTRATION", Align::Left),
    ]);
    for region in &manifest.regions {
        let sum = region.parts.iter().map(|part| part.data_bytes).sum();
        table.row(vec![
            region.name.clone(),
            bytes(sum),
            region.parts.len().to_string(),
            region.registration.clone(),
        ]);
    }
    text.push_str(&table.render());
    text
}

fn verify(checkpoint: &Checkpoint) -> Result<(), Failure> {
    let damages = checkpoint.verify();
    let Some(first) = damages.first() else {
        let parts = checkpoint.manifest().parts().count();
        let sum = bytes(checkpoint.manifest().data_bytes());
        return output::print(&format!("sound: {parts} parts, {sum}\n"));
    };
    for damage in &damages {
        output::print(&format!("{damage}\n"))?;
    }
    let others = match damages.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    Err(Failure::checkpoint(format!("{first}{others}; use another checkpoint")))
}

fn take_out(checkpoint: &Checkpoint, name: &str, out: &Path, margins: bool) -> Result<(), Failure> {
    let regions = &checkpoint.manifest().regions;
    let region = checkpoint.manifest().region(name).ok_or_else(|| {
        let known: Vec<&str> = regions.iter().map(|region| region.name.as_str()).collect();
        Failure::usage(format!(
            "the checkpoint has no region {name:?}; it has {}",
            known.join(", ")
        ))
    })?;
    let file = File::create(out).map_err(|error| Failure::file("write", out, &error))?;
    let outcome = match &region.contents {
        Contents::Array(array) => export(checkpoint, region, array, margins, &file)
            .map(|_| ())
            .map_err(|error| Failure::checkpoint(format!("{name:?} cannot be exported: {error}"))),
        Contents::Scratch => Err(Failure::usage(format!(
            "{name:?} is scratch: its contents are not in a checkpoint"
        ))),
        Contents::Value | Contents::PerRank | Contents::Custom => raw(checkpoint, region, &file, out),
    };
    if outcome.is_err() {
        // What is there is not what was asked for.
        let _ = fs::remove_file(out);
    }
    outcome
}

fn raw(checkpoint: &Checkpoint, region: &RegionRecord, mut file: &File, out: &Path) -> Result<(), Failure> {
    for part in &region.parts {
        let bytes = checkpoint.part(region, part).and_then(|mut part| part.read_all());
        let bytes = bytes.map_err(|damage| Failure::checkpoint(damage.to_string()))?;
        file.write_all(&bytes)
            .map_err(|error| Failure::file("write", out, &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../pcm-checkpoint/tests/golden")
    }

    #[test]
    fn complete_checkpoints_of_a_directory_are_listed_and_others_are_not() {
        let lines = list(&golden()).unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].iteration, lines[0].ranks), (42, 3));
        assert_eq!(lines[0].created, "2023-11-14T22:13:20.000000Z");
        let empty = tempfile::tempdir().unwrap();
        fs::create_dir(empty.path().join("no-checkpoint")).unwrap();
        assert!(list(empty.path()).unwrap().is_empty());
        let refused = list(&empty.path().join("not-there")).err().unwrap();
        assert!(refused.message.contains("not-there"), "{refused}");
    }

    #[test]
    fn what_was_begun_and_not_completed_is_named_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (draft, cut) = (
            folder.path().join(".heat-12.partial-1-77"),
            folder.path().join("heat-8"),
        );
        for directory in [
            &draft,
            &cut,
            &folder.path().join("results"),
            &folder.path().join(".git"),
        ] {
            fs::create_dir(directory).unwrap();
        }
        fs::copy(golden().join("v1/manifest.json"), cut.join("manifest.json")).unwrap();
        assert_eq!(unfinished(folder.path()), [draft, cut]);
        assert!(list(folder.path()).unwrap().is_empty());
        assert!(unfinished(&golden()).is_empty());
    }

    #[test]
    fn a_region_is_exported_or_the_names_there_are_are_said() {
        let out = tempfile::tempdir().unwrap();
        let file = out.path().join("t.npy");
        let checkpoint = open(&golden().join("v1")).unwrap();
        take_out(&checkpoint, "ring", &file, false).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().len(), 128 + 22);
        take_out(&checkpoint, "mesh", &file, false).unwrap();
        assert_eq!(fs::read(&file).unwrap(), [0xa1, 0xa2, 0xa2]);
        let refused = take_out(&checkpoint, "rnig", &file, false).unwrap_err();
        assert!(refused.message.contains("ring"), "{refused}");
        assert!(take_out(&checkpoint, "next", &file, false).is_err());
        assert!(!file.exists(), "an output that was not made was left");
    }

    #[test]
    fn a_checkpoint_is_shown_with_its_regions_and_how_it_was_run() {
        let text = shown(&open(&golden().join("v1")).unwrap());
        for word in [
            "sample --rows 7",
            "iteration 42 of 3 ranks",
            "temperature / K",
            "array ring",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}
