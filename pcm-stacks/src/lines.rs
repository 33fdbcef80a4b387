//! Functions and source lines of addresses in files.

use crate::unwind::Loaded;
use addr2line::Loader;
use pcm_proto::stack::StackFrame;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Debug information above this size is not read: the time for it is not there.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Most files that are held open.
const FILES_MAX: usize = 64;

/// What is known of files so far.
#[derive(Default)]
pub(crate) struct Lines {
    files: BTreeMap<PathBuf, Option<Loader>>,
}

impl Lines {
    /// The frames at an address, innermost first: functions that were inlined have one each.
    pub(crate) fn at(&mut self, file: &Loaded, address: u64) -> Vec<StackFrame> {
        let unnamed = StackFrame {
            module: file.name.clone(),
            ..StackFrame::default()
        };
        let Some(loader) = file.path.as_ref().and_then(|path| self.loader(path)) else {
            return vec![unnamed];
        };
        let mut found = Vec::new();
        if let Ok(mut frames) = loader.find_frames(address) {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.as_ref().and_then(|name| name.demangle().ok().map(plain));
                let place = frame.location.as_ref();
                found.push(StackFrame {
                    function: name,
                    file: place.and_then(|place| place.file).map(str::to_owned),
                    line: place.and_then(|place| place.line).filter(|line| *line > 0),
                    module: file.name.clone(),
                });
            }
        }
        found.retain(|frame| frame.function.is_some() || frame.file.is_some());
        if found.is_empty() {
            found.push(unnamed);
        }
        if let Some(outermost) = found.last_mut().filter(|frame| frame.function.is_none()) {
            let name = loader.find_symbol(address);
            outermost.function = name.map(|name| plain(addr2line::demangle_auto(name.into(), None)));
        }
        found
    }

    fn loader(&mut self, path: &PathBuf) -> Option<&Loader> {
        if !self.files.contains_key(path) && self.files.len() < FILES_MAX {
            let is_small = std::fs::metadata(path).is_ok_and(|data| data.len() <= FILE_BYTES_MAX);
            let loader = is_small.then(|| Loader::new(path).ok()).flatten();
            self.files.insert(path.clone(), loader);
        }
        self.files.get(path)?.as_ref()
    }
}

/// A name without the types of its parameters and without Rust's hash; of a procedure in a Fortran module, as debuggers
/// write it.
fn plain(name: std::borrow::Cow<'_, str>) -> String {
    let of_module = name.strip_prefix("__").and_then(|name| name.split_once("_MOD_"));
    if let Some((module, procedure)) = of_module {
        return format!("{module}::{procedure}");
    }
    let name = name.split('(').next().filter(|name| !name.is_empty()).unwrap_or(&name);
    match name.rsplit_once("::h") {
        Some((front, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            front.to_owned()
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_parameters_and_hashes() {
        assert_eq!(plain("grid::exchange(double*, int)".into()), "grid::exchange");
        assert_eq!(plain("__grid_MOD_exchange".into()), "grid::exchange");
        assert_eq!(plain("heat2d::step::h0123456789abcdef".into()), "heat2d::step");
        assert_eq!(
            plain("(anonymous namespace)::f(int)".into()),
            "(anonymous namespace)::f(int)"
        );
    }
}
