//! Values as a log has room for them.

use std::fmt;

/// Letters that are shown: the kind of a message and its first fields, before data and environments.
const SHOWN_MAX: usize = 120;

/// The beginning of what `Debug` says of a value; costs nothing where it is not written.
#[derive(Debug)]
pub struct Shortened<'a, T>(pub &'a T);

impl<T: fmt::Debug> fmt::Display for Shortened<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = format!("{:?}", self.0);
        match whole.char_indices().nth(SHOWN_MAX) {
            Some((end, _)) => write!(f, "{}…", &whole[..end]),
            None => f.write_str(&whole),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_between_two_letters() {
        assert_eq!(Shortened(&Some(1)).to_string(), "Some(1)");
        let long = Shortened(&"ä".repeat(1000)).to_string();
        assert_eq!(long.chars().count(), SHOWN_MAX + 1);
    }
}
