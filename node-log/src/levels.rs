//! Levels as they are typed: `info,pcm_daemon::serve=debug`. A part without a level of its own has the general one.

use tracing_subscriber::filter::{LevelFilter, Targets};

/// Names the variable with the levels a process begins with.
const VARIABLE: &str = "PCM_LOG";

/// Levels where nobody says anything.
const USUAL: &str = "info";

/// The word that takes back what was said at run time.
const WORD_BACK: &str = "default";

/// Longest text of levels: what is added again and again comes to an end.
const TEXT_MAX: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels(String);

/// Why a text is no levels; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{:?} names no levels ({}): write LEVEL or PART=LEVEL, more of them with commas, as pcm_daemon::serve=debug; \
     levels are off, error, warn, info, debug, trace",
    .given,
    .problem
)]
pub struct BadLevels {
    given: String,
    problem: String,
}

impl Levels {
    /// The levels this process begins with; what makes no sense in the environment is passed over.
    pub fn at_start() -> Self {
        let said = std::env::var(VARIABLE).unwrap_or_default();
        Self(USUAL.to_owned()).with(&said).unwrap_or(Self(USUAL.to_owned()))
    }

    /// These levels and, above them, those in `text`; the word `default` goes back to the ones of the start.
    pub fn with(&self, text: &str) -> Result<Self, BadLevels> {
        let text = text.trim();
        if text == WORD_BACK {
            return Ok(Self::at_start());
        }
        let bad = |problem: String| BadLevels {
            given: text.chars().take(80).collect(),
            problem,
        };
        let mut all: Vec<(&str, &str)> = self.0.split(',').map(divided).collect();
        for piece in text.split(',').map(str::trim).filter(|piece| !piece.is_empty()) {
            let (part, level) = divided(piece);
            if !["off", "error", "warn", "info", "debug", "trace"].contains(&level) {
                return Err(bad(format!("{level:?} is no level")));
            }
            if !part.chars().all(|c| c.is_ascii_alphanumeric() || "_:-".contains(c)) {
                return Err(bad(format!("{part:?} is no part")));
            }
            all.retain(|(known, _)| *known != part);
            all.push((part, level));
        }
        let pieces = all.into_iter().map(|(part, level)| match part {
            "" => level.to_owned(),
            part => format!("{part}={level}"),
        });
        let whole = pieces.collect::<Vec<_>>().join(",");
        if whole.len() > TEXT_MAX {
            return Err(bad(format!(
                "with what was said before it is longer than {TEXT_MAX} letters"
            )));
        }
        Ok(Self(whole))
    }

    /// As who writes asks for them. Of two parts of which one is the beginning of the other the longer one counts.
    pub(crate) fn targets(&self) -> Targets {
        let pieces = self.0.split(',').map(divided);
        pieces.fold(Targets::new(), |targets, (part, level)| {
            let level = level.parse().unwrap_or(LevelFilter::INFO);
            match part {
                "" => targets.with_default(level),
                part => targets.with_target(part, level),
            }
        })
    }

    /// As they can be typed.
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// Part and level of one piece; the general level has no part.
fn divided(piece: &str) -> (&str, &str) {
    piece.split_once('=').unwrap_or(("", piece))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> Levels {
        Levels(USUAL.to_owned())
    }

    #[test]
    fn what_is_said_later_stands_above_what_was_said_before() {
        let levels = info().with("pcm_daemon=debug, ios_agent=trace").unwrap();
        assert_eq!(levels.text(), "info,pcm_daemon=debug,ios_agent=trace");
        let levels = levels.with("pcm_daemon=warn").unwrap();
        assert_eq!(levels.text(), "info,ios_agent=trace,pcm_daemon=warn");
        let levels = levels.with("error").unwrap();
        assert_eq!(levels.text(), "ios_agent=trace,pcm_daemon=warn,error");
        assert_eq!(levels.with("default").unwrap(), Levels::at_start());
    }

    #[test]
    fn nonsense_is_refused_with_what_to_write_instead() {
        for text in [
            "loud",
            "pcm_daemon=",
            "pcm_daemon=5x",
            "=debug=",
            "a b=info",
            "a[b]=info",
        ] {
            let error = info().with(text).unwrap_err().to_string();
            assert!(error.contains("write LEVEL"), "{text}: {error}");
        }
        let long: Vec<String> = (0..100).map(|n| format!("part_{n}=debug")).collect();
        assert!(info().with(&long.join(",")).is_err());
    }
}
