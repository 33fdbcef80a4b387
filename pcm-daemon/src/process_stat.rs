//! The text of `/proc/PID/stat`.

use std::str::SplitAsciiWhitespace;

/// The fields after the name, the state first. The name in brackets may hold anything, brackets too; the fields come
/// after the last one.
pub(crate) fn fields_after_name(stat: &str) -> Option<SplitAsciiWhitespace<'_>> {
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace())
}
