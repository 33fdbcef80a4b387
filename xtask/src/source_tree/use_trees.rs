//! Takes a `use` declaration apart.

use super::tokens::Token;

/// One name that a `use` brings in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    /// `None` for `*`.
    pub(super) alias: Option<String>,
    pub(super) path: Vec<String>,
}

/// The imports between the word `use` and its semicolon.
pub(super) fn imports(tokens: &[Token], masked: &str) -> Vec<Import> {
    let mut found = Vec::new();
    let mut words = tokens.iter().map(|token| token.text(masked)).peekable();
    branch(&mut words, &[], &mut found);
    found
}

fn branch<'a>(
    words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    prefix: &[String],
    found: &mut Vec<Import>,
) {
    let mut path = prefix.to_vec();
    let mut alias = None;
    let mut is_open = false;
    while let Some(word) = words.peek().copied() {
        match word {
            "," | "}" => break,
            ":" => {}
            "{" => {
                while matches!(words.peek(), Some(&"{" | &",")) {
                    words.next();
                    if words.peek() != Some(&"}") {
                        branch(words, &path, found);
                    }
                }
                is_open = true;
            }
            "*" => {
                found.push(Import {
                    alias: None,
                    path: path.clone(),
                });
                is_open = true;
            }
            "as" => {
                words.next();
                alias = words.peek().map(ToString::to_string);
            }
            name => path.push(name.into()),
        }
        words.next();
    }
    if is_open || path.is_empty() {
        return;
    }
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    found.push(Import {
        alias: alias.or_else(|| path.last().cloned()),
        path,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source_tree::tokens::tokens;

    #[test]
    fn branches_aliases_and_stars_are_told_apart() {
        let text = "super::{a::{self, B as C}, d::*, e,}";
        let found: Vec<String> = imports(&tokens(text), text)
            .iter()
            .map(|one| format!("{}={}", one.alias.as_deref().unwrap_or("*"), one.path.join("::")))
            .collect();
        assert_eq!(found, ["a=super::a", "C=super::a::B", "*=super::d", "e=super::e"]);
    }
}
