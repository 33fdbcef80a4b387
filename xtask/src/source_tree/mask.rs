//! Blanks comments and literals in Rust source, so that brackets and names can be counted. Must keep every byte's place
//! and every line end.

/// The same text with comments, and what is inside of quotes, as blanks.
pub(super) fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut masked = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let (from, to) = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => (at, line_comment(bytes, at)),
            b'/' if bytes.get(at + 1) == Some(&b'*') => (at, block_comment(bytes, at)),
            b'"' => (at + 1, string(bytes, at)),
            b'\'' => (at + 1, character(bytes, at)),
            b'r' if starts_word(bytes, at) => (at + 1, raw_string(bytes, at)),
            _ => (at, at + 1),
        };
        if to > at + 1 {
            // Quotes stay, as the sign that there is a literal.
            for (place, byte) in masked.iter_mut().enumerate().take(to).skip(from) {
                if !matches!(bytes[place], b'\n' | b'"' | b'\'') {
                    *byte = b' ';
                }
            }
        }
        at = to.max(at + 1);
    }
    // Only ASCII replaced whole characters.
    String::from_utf8_lossy(&masked).into_owned()
}

fn line_comment(bytes: &[u8], at: usize) -> usize {
    bytes[at..]
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(bytes.len(), |length| at + length)
}

fn block_comment(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0;
    let mut place = at;
    while place < bytes.len() {
        match (bytes[place], bytes.get(place + 1)) {
            (b'/', Some(b'*')) => (depth, place) = (depth + 1, place + 2),
            (b'*', Some(b'/')) => (depth, place) = (depth - 1, place + 2),
            _ => place += 1,
        }
        if depth == 0 {
            break;
        }
    }
    place.min(bytes.len())
}

fn string(bytes: &[u8], at: usize) -> usize {
    let mut place = at + 1;
    while place < bytes.len() && bytes[place] != b'"' {
        place += if bytes[place] == b'\\' { 2 } else { 1 };
    }
    (place + 1).min(bytes.len())
}

/// The end of a character literal, or of the quote alone where a lifetime begins.
fn character(bytes: &[u8], at: usize) -> usize {
    let Some(first) = bytes.get(at + 1) else {
        return at + 1;
    };
    let mut place = if *first == b'\\' { at + 3 } else { at + 2 };
    if *first == b'\\' {
        while place < bytes.len() && bytes[place] != b'\'' {
            place += 1;
        }
    } else {
        while place < bytes.len() && bytes[place] & 0xC0 == 0x80 {
            place += 1;
        }
    }
    if bytes.get(place) == Some(&b'\'') {
        place + 1
    } else {
        at + 1
    }
}

fn raw_string(bytes: &[u8], at: usize) -> usize {
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    let open = at + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return at + 1;
    }
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    bytes[open + 1..]
        .windows(end.len())
        .position(|window| window == end)
        .map_or(bytes.len(), |length| open + 1 + length + end.len())
}

fn starts_word(bytes: &[u8], at: usize) -> bool {
    let before = |place: usize| place.checked_sub(1).map(|place| bytes[place]);
    let is_word = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match before(at) {
        Some(b'b' | b'c') => !is_word(before(at - 1)),
        other => !is_word(other),
    }
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn comments_and_literals_are_blank_and_all_else_keeps_its_place() {
        let text = "a /* { /* { */ */ b // {\n\"\\\"{\" r#\"{\"# '{' '\\'' 'ä' &'a x br\"{\" r#if";
        let masked = mask(text);
        assert_eq!(masked.len(), text.len());
        assert!(!masked.contains('{'), "{masked}");
        assert_eq!(masked.find("&'a x"), text.find("&'a x"));
        assert_eq!(masked.find("r#if"), text.find("r#if"));
        assert_eq!(masked.lines().count(), 2);
    }
}
