//! One line of `doctor`: what was looked at, how it is, what was found, what to do.

use crate::output::{self, Colour};
use serde::Serialize;

/// Width of the lines; longer texts go on below.
const COLUMNS: usize = 80;

/// Where the text begins: behind the verdict and the name.
const INDENT: usize = 27;

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// As it should be.
    Ok,
    /// It works, but slower or only in part.
    Warning,
    /// Jobs cannot run so.
    Broken,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What was looked at.
    pub(crate) name: &'static str,
    /// How it is.
    pub(crate) verdict: Verdict,
    /// What was found, with numbers.
    pub(crate) found: String,
    /// What to do; empty where nothing has to be done.
    pub(crate) advice: String,
}

impl Finding {
    /// Nothing to do.
    pub(crate) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Verdict::Ok,
            found: found.into(),
            advice: String::new(),
        }
    }

    /// Worth a change.
    pub(crate) fn warning(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Verdict::Warning,
            found: found.into(),
            advice: advice.into(),
        }
    }

    /// Must be changed.
    pub(crate) fn broken(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Verdict::Broken,
            found: found.into(),
            advice: advice.into(),
        }
    }

    /// The finding as lines for people.
    pub(crate) fn render(&self) -> String {
        let (word, colour) = match self.verdict {
            Verdict::Ok => ("ok", Colour::Green),
            Verdict::Warning => ("warning", Colour::Yellow),
            Verdict::Broken => ("broken", Colour::Red),
        };
        let verdict = format!("{}{}", output::paint(word, colour), " ".repeat(9 - word.len()));
        let mut text = self.found.clone();
        if !self.advice.is_empty() {
            text.push_str(" → ");
            text.push_str(&self.advice);
        }
        let lines = wrap(&text, COLUMNS - INDENT);
        format!(
            "{verdict}{:<18}{}\n",
            self.name,
            lines.join(&format!("\n{}", " ".repeat(INDENT)))
        )
    }
}

/// Cuts at blanks; a word longer than the width stands alone.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_findings_go_on_below_their_text() {
        let finding = Finding::warning("shared memory", "word ".repeat(20), "do this");
        let text = finding.render();
        assert!(text.lines().count() > 1);
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(
            text.lines().skip(1).all(|line| line.starts_with(&" ".repeat(INDENT))),
            "{text}"
        );
    }

    #[test]
    fn the_worst_verdict_is_the_greatest() {
        assert!(Verdict::Broken > Verdict::Warning && Verdict::Warning > Verdict::Ok);
    }
}
