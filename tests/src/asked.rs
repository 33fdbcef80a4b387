//! Numbers in variables, by which a person asks for other seeds, more rounds or longer runs of tests.

use std::env;

/// The number in a variable.
///
/// # Panics
/// When something else is in it: a test must not run as usual where a typing mistake asked for something.
pub fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}
