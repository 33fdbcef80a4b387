//! Finds the functions of a file.

use super::{
    file::SourceFile,
    tokens::{Token, after_group},
};

/// A function with a body, or a signature of a trait.
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_public: bool,
    /// Byte of the word `fn`.
    pub(crate) start: usize,
    /// From the line of `fn` to the line of its last bracket.
    pub(crate) lines: usize,
    parameters: &'a [Token],
    masked: &'a str,
}

/// Each function of a file, in order; those inside of others too.
pub(crate) fn functions(file: &SourceFile) -> Vec<Function<'_>> {
    let (tokens, masked) = (file.tokens.as_slice(), file.masked.as_str());
    let text = |place: usize| tokens.get(place).map_or("", |token: &Token| token.text(masked));
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        if text(at) != "fn" || !tokens.get(at + 1).is_some_and(|token| token.is_name) {
            continue;
        }
        let mut open = at + 2;
        let mut angles = 0_i32;
        while open < tokens.len() && (angles > 0 || text(open) != "(") {
            match text(open) {
                "<" => angles += 1,
                ">" if text(open - 1) != "-" => angles -= 1,
                _ => {}
            }
            open += 1;
        }
        let close = after_group(tokens, masked, open);
        let mut end = close;
        while end < tokens.len() && text(end) != ";" {
            let is_body = text(end) == "{";
            if matches!(text(end), "(" | "[" | "{") {
                end = after_group(tokens, masked, end);
            } else {
                end += 1;
            }
            if is_body {
                break;
            }
        }
        let last = tokens[end.clamp(1, tokens.len()) - 1];
        found.push(Function {
            name: text(at + 1),
            is_public: is_public(tokens, masked, at),
            start: tokens[at].start,
            lines: file.line_of(last.start) + 1 - file.line_of(tokens[at].start),
            parameters: tokens.get(open + 1..close.saturating_sub(1)).unwrap_or_default(),
            masked,
        });
    }
    found
}

fn is_public(tokens: &[Token], masked: &str, at: usize) -> bool {
    tokens[..at]
        .iter()
        .rev()
        .map(|token| token.text(masked))
        .take_while(|text| {
            matches!(
                *text,
                "pub" | "(" | ")" | "crate" | "super" | "in" | "self" | "async" | "const" | "unsafe" | "extern" | "\""
            )
        })
        .any(|text| text == "pub")
}

impl Function<'_> {
    /// The most members that a tuple among the types of the parameters has.
    pub(crate) fn longest_tuple(&self) -> usize {
        (0..self.parameters.len())
            .filter(|place| self.text(*place) == "(" && self.begins_tuple(*place))
            .map(|place| self.members(place))
            .max()
            .unwrap_or(0)
    }

    fn text(&self, place: usize) -> &str {
        self.parameters[place].text(self.masked)
    }

    /// `Fn(A, B)` and `fn(A, B)` are no tuples.
    fn begins_tuple(&self, open: usize) -> bool {
        match open.checked_sub(1) {
            Some(before) => !self.parameters[before].is_name || matches!(self.text(before), "mut" | "const" | "dyn"),
            None => true,
        }
    }

    fn members(&self, open: usize) -> usize {
        let end = after_group(self.parameters, self.masked, open);
        let (mut depth, mut commas) = (0_i32, 0);
        for place in open + 1..end - 1 {
            match self.text(place) {
                "(" | "[" | "{" | "<" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                ">" if self.text(place - 1) != "-" => depth -= 1,
                // A comma at the end begins no member.
                "," if depth == 0 && place + 2 < end => commas += 1,
                _ => {}
            }
        }
        commas + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_with_length_and_tuples() {
        let text = "pub(crate) fn a<F: Fn(u8) -> u8>(x: [u8; 2], f: F) -> [u8; 3]\nwhere\n    F: Copy,\n{\n    g()\n}\n\
                    fn b(c: fn(u8, u8, u8), d: &mut (u8, Vec<(u8, u8)>)) {}\n\
                    pub fn e(x: &[(u8, Vec<u8>, [u8; 2])]);\n";
        let file = SourceFile::new("a.rs", text);
        let found: Vec<_> = functions(&file)
            .iter()
            .map(|one| (one.name, one.is_public, one.lines, one.longest_tuple()))
            .collect();
        assert_eq!(found, [("a", true, 6, 0), ("b", false, 1, 2), ("e", true, 1, 3)]);
    }
}
