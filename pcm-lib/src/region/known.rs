//! Values of a running job that a process which joins it knows while it registers: it may need them to say how long its
//! arrays are. They are as they were when the job began; `pcm_start` brings the present ones.

use super::{Kind, Registry};
use pcm_proto::{app::environment, registered::VALUES_BYTES_MAX};
use std::{collections::BTreeMap, env, fmt::Write};

/// A value of more bytes says nothing about the sizes of others.
const VALUE_BYTES_MAX: usize = 1024;

/// See the file head.
#[derive(Debug, Default)]
pub(crate) struct KnownValues(BTreeMap<String, Vec<u8>>);

impl KnownValues {
    /// What the daemon said in the environment.
    pub(crate) fn told() -> Self {
        env::var(environment::VALUES).map_or_else(|_| Self::default(), |text| Self::read(&text))
    }

    fn read(text: &str) -> Self {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            Some((String::from_utf8(bytes_of(name)?).ok()?, bytes_of(value)?))
        };
        Self(text.split(',').filter_map(pair).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }
}

/// The registered values as the daemon is told them; those that do not fit are left out.
pub(crate) fn written(registry: &Registry) -> String {
    let mut text = String::new();
    for (_, region) in registry.regions() {
        let Kind::Value(value) = &region.kind else { continue };
        let (name, bytes) = (region.name.as_bytes(), value.bytes());
        let length = 2 * (name.len() + bytes.len()) + 2;
        if bytes.len() > VALUE_BYTES_MAX || text.len() + length > VALUES_BYTES_MAX {
            continue;
        }
        if !text.is_empty() {
            text.push(',');
        }
        digits(name, &mut text);
        text.push('=');
        digits(bytes, &mut text);
    }
    text
}

fn digits(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        // Writing to a string cannot fail.
        _ = write!(text, "{byte:02x}");
    }
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::{Home, Value};

    #[test]
    fn a_process_that_joins_registers_a_value_and_has_it() {
        let home = Home {
            rank: 0,
            size: 2,
            ranks_here: 1,
            is_first: true,
        };
        let mut first = Registry::new(home);
        let odd = "extent, =\"ü\"";
        first.value(odd, Value::owned(7_u64.to_ne_bytes())).unwrap();
        first.value("long", Value::owned(vec![1; VALUE_BYTES_MAX + 1])).unwrap();
        first.value("flag", Value::owned([1])).unwrap();
        let text = written(&first);
        let mut joining = Registry::new(home).with_known(KnownValues::read(&text));
        for (name, initial, after) in [
            (odd, vec![0; 8], 7_u64.to_ne_bytes().to_vec()),
            // What is of another length is another thing.
            ("flag", vec![0; 2], vec![0; 2]),
            ("long", vec![0; VALUE_BYTES_MAX + 1], vec![0; VALUE_BYTES_MAX + 1]),
            ("new", vec![5], vec![5]),
        ] {
            joining.value(name, Value::owned(initial)).unwrap();
            assert_eq!(joining.value_bytes(name).unwrap(), after, "{name}");
        }
    }

    #[test]
    fn what_is_no_text_of_values_says_nothing() {
        for text in ["", "=", "6=1", "zz=00", "61", "61=0", ",,"] {
            let known = KnownValues::read(text);
            assert!(known.get("a").is_none_or(<[u8]>::is_empty), "{text:?}");
        }
    }
}
