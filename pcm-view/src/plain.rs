//! Text of others on a terminal: names, words of ranks and manifests say what they say and do nothing. Pure.

use std::borrow::Cow;
use std::fmt::Write;

/// Our own colours, and the end of each; they may stand in what is printed.
const COLOURS: [&str; 4] = ["\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"];

/// The text with every character that acts on a terminal or turns its order around written as `\u001b`, as JSON has it.
/// Line ends, tabs and our own colours stay.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut left = text;
    while let Some(at) = left.find(acts) {
        let (before, from) = left.split_at(at);
        shown += before;
        if let Some(colour) = COLOURS.iter().find(|colour| from.starts_with(**colour)) {
            shown += colour;
            left = &from[colour.len()..];
            continue;
        }
        let mut chars = from.chars();
        if let Some(acting) = chars.next() {
            // Writing into a string cannot fail.
            _ = write!(shown, "\\u{:04x}", u32::from(acting));
        }
        left = chars.as_str();
    }
    shown += left;
    Cow::Owned(shown)
}

fn acts(c: char) -> bool {
    let turns_around = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns_around || (c.is_control() && !matches!(c, '\n' | '\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_acts_on_a_terminal_is_left_but_our_own_colours() {
        assert_eq!(plain("ring: ä 3\tok\n"), "ring: ä 3\tok\n");
        assert_eq!(plain("\x1b[31mred\x1b[0m"), "\x1b[31mred\x1b[0m");
        assert_eq!(plain("a\x1b]0;title\x07b"), "a\\u001b]0;title\\u0007b");
        assert_eq!(plain("\x1b[2J\r\u{9b}1m\u{7f}"), "\\u001b[2J\\u000d\\u009b1m\\u007f");
        assert_eq!(plain("a\u{202e}cod.exe"), "a\\u202ecod.exe");
    }
}
