//! One source file: its text, its masked text and which of its lines are tests.

use super::{
    mask::mask,
    test_parts::test_parts,
    tokens::{Token, tokens},
};
use std::ops::Range;

/// A file of the repository.
pub(crate) struct SourceFile {
    /// Below the repository's root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Without comments and literals; empty for what is not Rust.
    pub(crate) masked: String,
    /// Whether all of it is compiled for tests alone.
    pub(crate) is_test: bool,
    pub(super) tokens: Vec<Token>,
    test_parts: Vec<Range<usize>>,
    line_starts: Vec<usize>,
}

impl SourceFile {
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let masked = if path.ends_with(".rs") {
            mask(&text)
        } else {
            String::new()
        };
        let tokens = tokens(&masked);
        let line_starts = [0]
            .into_iter()
            .chain(text.match_indices('\n').map(|(place, _)| place + 1))
            .collect();
        Self {
            test_parts: test_parts(&tokens, &masked),
            path,
            text,
            masked,
            is_test: false,
            tokens,
            line_starts,
        }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The number of the line that holds this byte, from 1.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset)
    }

    /// Whether this byte is compiled for tests alone.
    pub(crate) fn is_test_at(&self, offset: usize) -> bool {
        self.is_test || self.test_parts.iter().any(|part| part.contains(&offset))
    }

    pub(crate) fn lines_total(&self) -> usize {
        self.text.lines().count()
    }

    pub(crate) fn lines_without_tests(&self) -> usize {
        if self.is_test {
            return 0;
        }
        let of_tests: usize = self
            .test_parts
            .iter()
            .map(|part| self.line_of(part.end - 1) + 1 - self.line_of(part.start))
            .sum();
        self.lines_total() - of_tests
    }
}

#[cfg(test)]
mod tests {
    use super::SourceFile;

    #[test]
    fn the_lines_of_tests_are_told_from_the_others() {
        let file = SourceFile::new(
            "a.rs",
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n",
        );
        assert_eq!((file.lines_total(), file.lines_without_tests()), (6, 2));
        assert!(file.is_test_at(file.text.find("fn b").unwrap()));
        assert!(!file.is_test_at(file.text.find("fn c").unwrap()));
        assert_eq!(file.line_of(file.text.find("fn c").unwrap()), 6);
    }
}
