//! Names and signs of masked source. Must never judge what they mean.

/// A name, or one sign.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) is_name: bool,
}

impl Token {
    pub(super) fn text(self, masked: &str) -> &str {
        &masked[self.start..self.end]
    }
}

/// Each token in order.
pub(super) fn tokens(masked: &str) -> Vec<Token> {
    let bytes = masked.as_bytes();
    let mut found = Vec::with_capacity(bytes.len() / 4);
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let is_name = is_word(bytes[at]);
        at += 1;
        if is_name {
            while at < bytes.len() && is_word(bytes[at]) {
                at += 1;
            }
        } else if bytes[start] & 0x80 != 0 || bytes[start].is_ascii_whitespace() {
            continue;
        }
        found.push(Token {
            start,
            end: at,
            is_name,
        });
    }
    found
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Each name of a text, in order and as often as it is there.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_')
        .filter(|name| !name.is_empty())
}

/// The place in `tokens` after the bracket that closes the one at `open`.
pub(super) fn after_group(tokens: &[Token], masked: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().skip(open) {
        match token.text(masked) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return place + 1;
        }
    }
    tokens.len()
}
