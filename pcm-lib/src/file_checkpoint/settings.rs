//! What the environment says about checkpoints. Only reads.

use super::CheckpointError;
use pcm_checkpoint::Compression;
use pcm_core::checkpoint::When;
use pcm_proto::app::environment::{
    CHECKPOINT_COMPRESSION, CHECKPOINT_DIR, CHECKPOINT_EVERY, CHECKPOINT_FILES, CHECKPOINT_KEEP, CHECKPOINT_MEMORY,
    CHECKPOINT_NAME, CHECKPOINT_RATE, CLUSTER, JOB, LIFE, RESTARTS, RESTORE,
};
use std::{
    env,
    ffi::OsString,
    num::NonZeroU64,
    path::{Path, PathBuf},
    time::Duration,
};

/// Where checkpoints go if nobody says: below the working directory.
const DIRECTORY_DEFAULT: &str = "pcm-checkpoints";

/// Complete checkpoints of one run that are kept.
const KEEP_DEFAULT: usize = 2;

/// See the file head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// To restore from the first of these that is sound.
    pub(crate) restore: Vec<PathBuf>,
    pub(super) directory: PathBuf,
    pub(super) name: String,
    pub(crate) when: When,
    /// Failures of the job so far.
    pub(super) failures: u32,
    /// Whether what is due is written into files, too, where a daemon keeps it in memory.
    pub(crate) has_files: bool,
    pub(super) compression: Compression,
    pub(crate) keep: usize,
    /// Who writes: the job and which of its starts; none without a cluster.
    pub(super) owner: Option<Owner>,
    /// Bytes a second that all ranks together may write.
    pub(super) rate: Option<NonZeroU64>,
    /// Bytes that a rank may take for the copy that is written.
    pub(crate) memory_max: Option<u64>,
}

/// Whose drafts are whose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    job: String,
    start: String,
}

impl Owner {
    /// As a draft's name has it.
    pub(super) fn text(&self) -> String {
        format!("{}{}-", self.job, self.start)
    }

    /// Whether a draft is of an earlier start of this job, whose processes are all gone.
    pub(super) fn is_before(&self, owner: &str) -> bool {
        owner.starts_with(&self.job) && owner != self.text()
    }
}

impl Settings {
    /// Reads the environment.
    pub(crate) fn read() -> Result<Self, CheckpointError> {
        Self::of(|name| env::var_os(name).filter(|value| !value.is_empty()))
    }

    pub(super) fn of(value: impl Fn(&str) -> Option<OsString>) -> Result<Self, CheckpointError> {
        let text = |name| value(name).map(|value| value.to_string_lossy().into_owned());
        let restore = text(RESTORE).unwrap_or_default();
        Ok(Self {
            restore: restore
                .lines()
                .filter(|line| !line.is_empty())
                .map(PathBuf::from)
                .collect(),
            directory: value(CHECKPOINT_DIR).map_or_else(|| DIRECTORY_DEFAULT.into(), PathBuf::from),
            name: text(CHECKPOINT_NAME)
                .map(|name| plain(&name))
                .unwrap_or_else(program_name),
            when: text(CHECKPOINT_EVERY).map_or(Ok(When::OnDemand), |text| when(&text))?,
            // What the daemon wrote is a number.
            failures: text(RESTARTS).and_then(|text| text.parse().ok()).unwrap_or(0),
            has_files: text(CHECKPOINT_FILES).map_or(Ok(false), |text| files(&text))?,
            compression: text(CHECKPOINT_COMPRESSION).map_or(Ok(Compression::None), |text| compression(&text))?,
            keep: text(CHECKPOINT_KEEP).map_or(Ok(KEEP_DEFAULT), |text| keep(&text))?,
            owner: text(CLUSTER).zip(text(JOB)).map(|(cluster, job)| Owner {
                job: format!("{}.{}.", plain(&cluster), plain(&job)),
                start: format!("start{}", text(LIFE).map(|text| plain(&text)).unwrap_or_default()),
            }),
            rate: text(CHECKPOINT_RATE)
                .map(|text| megabytes(CHECKPOINT_RATE, &text, true))
                .transpose()?
                .and_then(NonZeroU64::new),
            memory_max: text(CHECKPOINT_MEMORY)
                .map(|text| megabytes(CHECKPOINT_MEMORY, &text, false))
                .transpose()?,
        })
    }
}

fn when(text: &str) -> Result<When, CheckpointError> {
    if text == "auto" {
        return Ok(When::Auto);
    }
    let seconds = text
        .parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match seconds.filter(|seconds| !seconds.is_zero()) {
        Some(seconds) => Ok(When::Every(seconds)),
        None => Err(CheckpointError::Setting {
            name: CHECKPOINT_EVERY,
            value: text.to_owned(),
            wanted: "a number of seconds above 0, or auto",
        }),
    }
}

fn files(text: &str) -> Result<bool, CheckpointError> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(CheckpointError::Setting {
            name: CHECKPOINT_FILES,
            value: text.to_owned(),
            wanted: "yes or no",
        }),
    }
}

fn compression(text: &str) -> Result<Compression, CheckpointError> {
    match text {
        "none" => Ok(Compression::None),
        "lz4" => Ok(Compression::Lz4),
        _ => Err(CheckpointError::Setting {
            name: CHECKPOINT_COMPRESSION,
            value: text.to_owned(),
            wanted: "none or lz4",
        }),
    }
}

fn keep(text: &str) -> Result<usize, CheckpointError> {
    text.parse()
        .ok()
        .filter(|keep| *keep > 0)
        .ok_or_else(|| CheckpointError::Setting {
            name: CHECKPOINT_KEEP,
            value: text.to_owned(),
            wanted: "a number above 0",
        })
}

fn megabytes(name: &'static str, text: &str, is_positive: bool) -> Result<u64, CheckpointError> {
    let bytes = text.parse::<f64>().ok().map(|megabytes| megabytes * 1e6);
    let least = if is_positive { 1.0 } else { 0.0 };
    let bytes = bytes.filter(|bytes| (least..1e18).contains(bytes));
    bytes.map(|bytes| bytes as u64).ok_or_else(|| CheckpointError::Setting {
        name,
        value: text.to_owned(),
        wanted: if is_positive {
            "a number of megabytes a second above 0"
        } else {
            "a number of megabytes, 0 or more"
        },
    })
}

fn program_name() -> String {
    let program = env::args_os().next().unwrap_or_default();
    let stem = Path::new(&program).file_stem().unwrap_or_default();
    plain(&stem.to_string_lossy())
}

/// A name that is a plain file name and begins with no dot.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = name
        .chars()
        .take(100)
        .map(|c| if is_plain(c) { c } else { '-' })
        .collect();
    match name.trim_start_matches('.') {
        "" => "checkpoint".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Result<Settings, CheckpointError> {
        Settings::of(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn without_variables_nothing_is_restored_and_checkpoints_come_on_demand() {
        let settings = settings(&[]).unwrap();
        assert_eq!(
            (settings.when, settings.restore.len(), settings.keep),
            (When::OnDemand, 0, 2)
        );
    }

    #[test]
    fn drafts_of_earlier_starts_of_the_job_are_known_by_their_owner() {
        let started = |job, life| {
            let settings = settings(&[(CLUSTER, "c1"), (JOB, job), (LIFE, life)]).unwrap();
            settings.owner.unwrap()
        };
        let (first, second) = (started("7", ""), started("7", "1"));
        assert!(second.is_before(&first.text()));
        assert!(!second.is_before(&second.text()));
        assert!(!second.is_before(&started("71", "").text()));
        assert!(!second.is_before(""));
        assert_eq!(settings(&[(JOB, "7")]).unwrap().owner, None);
    }

    #[test]
    fn every_variable_is_taken_or_refused_by_name() {
        let settings_are = settings(&[
            (RESTORE, "/a b\n/c"),
            (CHECKPOINT_EVERY, "0.5"),
            (CHECKPOINT_COMPRESSION, "lz4"),
            (CHECKPOINT_NAME, "../my run"),
            (CHECKPOINT_KEEP, "5"),
            (CHECKPOINT_RATE, "2.5"),
            (CHECKPOINT_MEMORY, "0"),
        ]);
        let settings_are = settings_are.unwrap();
        assert_eq!(settings_are.restore, [Path::new("/a b"), Path::new("/c")]);
        assert_eq!(settings_are.when, When::Every(Duration::from_millis(500)));
        assert_eq!(settings_are.compression, Compression::Lz4);
        assert_eq!((settings_are.name.as_str(), settings_are.keep), ("-my-run", 5));
        assert_eq!(settings_are.rate.map(NonZeroU64::get), Some(2_500_000));
        assert_eq!(settings_are.memory_max, Some(0));
        for (name, value) in [
            (CHECKPOINT_RATE, "0"),
            (CHECKPOINT_MEMORY, "-1"),
            (CHECKPOINT_EVERY, "0"),
            (CHECKPOINT_EVERY, "often"),
            (CHECKPOINT_KEEP, "0"),
            (CHECKPOINT_COMPRESSION, "gz"),
            (CHECKPOINT_FILES, "maybe"),
        ] {
            let refused = settings(&[(name, value)]).unwrap_err().to_string();
            assert!(refused.contains(name) && refused.contains(value), "{refused}");
        }
    }
}
