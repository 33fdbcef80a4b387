//! The first line of a journal: the version of the records after it. Never reads a record.

use std::fmt;

/// Version of the records of a journal, and of everything they hold. The test below fails when their bytes change and
/// this does not, and says what to do.
pub(super) const JOURNAL_VERSION: u16 = 13;

const WORDS: &str = "PCM journal ";

/// Longest first line: the words and five digits.
const HEAD_BYTES_MAX: usize = WORDS.len() + 6;

/// Why the records of a journal cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadError {
    /// It does not begin with a version.
    Missing,
    /// Its records are of this version.
    Version(u16),
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(
                f,
                "does not begin with its version: an older pcm-daemon wrote it, or it is damaged; this one reads \
                 version {JOURNAL_VERSION}."
            )?,
            Self::Version(theirs) => write!(
                f,
                "has version {theirs}, this pcm-daemon reads version {JOURNAL_VERSION}."
            )?,
        }
        write!(
            f,
            " The node cannot be taken over: its ranks end now, and jobs with a checkpoint go on from it on other \
             nodes. Install one release on every node, then restart the cluster with `pcmctl down` and `pcmctl up`"
        )
    }
}

impl std::error::Error for HeadError {}

/// What a journal begins with.
pub(super) fn head() -> String {
    format!("{WORDS}{JOURNAL_VERSION}\n")
}

/// Bytes of the first line, if records of this version follow it.
pub(super) fn head_length(content: &[u8]) -> Result<usize, HeadError> {
    let beginning = &content[..content.len().min(HEAD_BYTES_MAX)];
    let line = beginning
        .split_inclusive(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let version = str::from_utf8(line).ok().and_then(|line| {
        let number = line.strip_prefix(WORDS)?.strip_suffix('\n')?;
        number.parse().ok()
    });
    match version.ok_or(HeadError::Missing)? {
        JOURNAL_VERSION => Ok(line.len()),
        theirs => Err(HeadError::Version(theirs)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_core::node::record::Record;
    use std::path::Path;
    use wire_samples::{Golden, Version, Wire};

    #[test]
    fn golden_samples_of_every_record_are_those_of_this_version() {
        // Names of methods are checked when they are read.
        let mut golden = Golden::trying(&["merge-p2p-sync"]);
        golden.add(
            "journal:",
            &Wire::<Record> {
                encode: |record| rmp_serde::to_vec(record).expect("a sample can be written"),
                decode: |bytes| pcm_proto::frame::decode(bytes).expect("what was written can be read"),
            },
        );
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/journal.txt");
        let version = Version {
            constant: "JOURNAL_VERSION",
            source: "pcm-daemon/src/serve/journal_head.rs",
            number: JOURNAL_VERSION,
            command: "PCM_GOLDEN=write cargo test -p pcm-daemon --lib golden",
        };
        golden.check(&file, &version);
    }

    #[test]
    fn a_head_of_this_version_is_read_and_others_say_both_versions_and_what_to_do() {
        let content = [head().as_bytes(), b"\x05\0\0\0records"].concat();
        assert_eq!(head_length(&content), Ok(head().len()));
        for text in [
            "",
            "PCM",
            "PCM journal \n",
            "PCM journal x\n",
            "PCM journal 1",
            "\x05\0\0\0records\n",
        ] {
            assert_eq!(head_length(text.as_bytes()), Err(HeadError::Missing), "{text}");
        }
        let newer = head_length(b"PCM journal 65535\nrecords").unwrap_err();
        assert_eq!(newer, HeadError::Version(65535));
        let text = newer.to_string();
        let words = [
            "version 65535",
            &format!("version {JOURNAL_VERSION}"),
            "`pcmctl down`",
            "`pcmctl up`",
        ];
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}
