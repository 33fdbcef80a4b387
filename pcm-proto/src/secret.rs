//! A text that must not be seen: it travels, and is never printed.

use serde::{Deserialize, Serialize};
use std::fmt;

/// See the file head. What needs the text asks for it by [`Secret::reveal`], which is easy to search for.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text; never to be printed or written where others can read.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_travels_as_its_text_and_prints_without_it() {
        let secret = Secret::new("c0ffee");
        let text = serde_json::to_string(&secret).unwrap();
        assert_eq!(text, "\"c0ffee\"");
        assert_eq!(serde_json::from_str::<Secret>(&text).unwrap().reveal(), "c0ffee");
        assert!(!format!("{secret:?} {secret:#?}").contains("c0ffee"));
    }
}
