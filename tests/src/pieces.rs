//! The pieces of code on a page of docs.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A piece of code.
pub struct Piece {
    pub language: String,
    pub code: String,
    /// The file it is from, as `From [PATH](…):` before it says.
    pub from: Option<String>,
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub fn all_pieces(guide: &str) -> Vec<Piece> {
    let text = fs::read_to_string(root().join("docs").join(guide)).expect("a page of docs");
    let parts: Vec<&str> = text.split("```").collect();
    assert_eq!(parts.len() % 2, 1, "{guide}: a fence is not closed");
    let piece = |pair: &[&str]| {
        let (language, code) = pair[1].split_once('\n').expect("a line with the language");
        let line = pair[0].trim_end().lines().last().unwrap_or_default();
        let from = line.strip_prefix("From [").and_then(|rest| rest.split(']').next());
        Piece {
            language: language.to_owned(),
            code: code.to_owned(),
            from: from.map(str::to_owned),
        }
    };
    parts.windows(2).step_by(2).map(piece).collect()
}

/// The pieces of one language that are not from an example.
pub fn pieces(guide: &str, language: &str) -> Vec<String> {
    let own = all_pieces(guide).into_iter();
    let own = own.filter(|piece| piece.from.is_none() && piece.language == language);
    own.map(|piece| piece.code).collect()
}

/// Whether each piece that is said to be from a file is literally there; how many are.
pub fn literal_pieces(guide: &str) -> usize {
    let mut count = 0;
    for Piece { code, from, .. } in all_pieces(guide) {
        if let Some(path) = from {
            let source = fs::read_to_string(root().join(&path)).expect("the file that a piece is from");
            assert!(source.contains(&code), "{path} has no\n{code}");
            count += 1;
        }
    }
    count
}
