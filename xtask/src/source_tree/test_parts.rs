//! Finds the items that are compiled for tests alone.

use super::tokens::{Token, after_group};
use std::ops::Range;

const ITEMS: [&str; 13] = [
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "macro_rules",
    "mod",
    "pub",
    "static",
    "struct",
    "unsafe",
    "use",
];

/// The bytes of each item with `#[cfg(test)]` or `#[cfg(all(test, ..))]`, its attributes included.
pub(super) fn test_parts(tokens: &[Token], masked: &str) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let text = |place: usize| tokens.get(place).map_or("", |token: &Token| token.text(masked));
    let mut at = 0;
    while at < tokens.len() {
        let is_attribute = text(at) == "#" && text(at + 1) == "[" && text(at + 2) == "cfg" && text(at + 3) == "(";
        let is_test = text(at + 4) == "test" || (text(at + 4) == "all" && text(at + 6) == "test");
        if is_attribute && is_test {
            let end = item_end(tokens, masked, at);
            parts.push(tokens[at].start..tokens[end - 1].end);
            at = end;
        } else {
            at += 1;
        }
    }
    parts
}

fn item_end(tokens: &[Token], masked: &str, attribute: usize) -> usize {
    let text = |place: usize| tokens.get(place).map_or("", |token: &Token| token.text(masked));
    let mut at = attribute;
    while text(at) == "#" {
        at = after_group(tokens, masked, at + 1);
    }
    let is_item = ITEMS.contains(&text(at));
    while at < tokens.len() {
        match text(at) {
            "{" => {
                let end = after_group(tokens, masked, at);
                return if matches!(text(end), ";" | ",") { end + 1 } else { end };
            }
            "(" | "[" => at = after_group(tokens, masked, at),
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            // The end of the struct or block around a last field.
            "}" => return at,
            _ => at += 1,
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use crate::source_tree::file::SourceFile;

    #[test]
    fn a_part_ends_with_its_item_whatever_the_item_is() {
        let text = "#[cfg(test)]\nuse a::{b, c};\nfn kept_1() {}\n#[cfg(test)]\n#[path = \"x.rs\"]\nmod x;\n\
                    struct S {\n    #[cfg(test)]\n    seen: Vec<u8>,\n    kept_2: u8,\n}\n\
                    #[cfg(all(test, unix))]\nfn f<A, B>(a: [u8; 2]) {}\nfn kept_3() {}\n";
        let file = SourceFile::new("a.rs", text);
        for kept in ["kept_1", "kept_2", "kept_3"] {
            assert!(!file.is_test_at(text.find(kept).unwrap()), "{kept}");
        }
        for test in ["use a", "mod x", "seen", "fn f"] {
            assert!(file.is_test_at(text.find(test).unwrap()), "{test}");
        }
    }
}
