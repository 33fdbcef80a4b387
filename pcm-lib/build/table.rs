//! Reads `interpose/table.txt`, whose head says what its lines mean.

use super::prototype::Prototype;

/// One function of the table.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The section it stands in.
    pub(crate) class: String,
    pub(crate) prototype: Prototype,
    /// The module whose function of this name is called in place of MPI's.
    pub(crate) module: Option<String>,
    /// Whether that function is all there is, without a wrapper.
    pub(crate) by_hand: bool,
}

/// The whole table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// In the order of the file.
    pub(crate) entries: Vec<Entry>,
    /// Names left alone on purpose.
    pub(crate) exceptions: Vec<String>,
}

/// The section whose functions are not counted.
pub(crate) const LOCAL: &str = "local";

/// Reads the text of the table; an error names its line.
pub(crate) fn parse(text: &str) -> Result<Table, String> {
    let mut table = Table::default();
    let mut class = String::new();
    for (index, line) in text.lines().enumerate() {
        let bad = || format!("interpose/table.txt:{}: not understood: {line}", index + 1);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            class = name.to_owned();
        } else if let Some(exception) = line.strip_prefix("except ") {
            let (name, _reason) = exception.split_once(' ').ok_or_else(bad)?;
            table.exceptions.push(name.to_owned());
        } else {
            let (text, mark) = line.split_once(';').ok_or_else(bad)?;
            let prototype = Prototype::parse(text).ok_or_else(bad)?;
            let mark = mark.trim();
            let by_hand = mark.strip_prefix("by hand ");
            let module = by_hand.or_else(|| mark.strip_prefix("through "));
            if !mark.is_empty() && module.is_none() {
                return Err(bad());
            }
            if class.is_empty() || table.entries.iter().any(|entry| entry.prototype.name == prototype.name) {
                return Err(bad());
            }
            table.entries.push(Entry {
                class: class.clone(),
                prototype,
                module: module.map(str::to_owned),
                by_hand: by_hand.is_some(),
            });
        }
    }
    Ok(table)
}

impl Table {
    /// Names of the classes in the order of the file.
    pub(crate) fn classes(&self) -> Vec<&str> {
        let mut classes: Vec<&str> = self.entries.iter().map(|entry| entry.class.as_str()).collect();
        classes.dedup();
        classes.retain(|class| *class != LOCAL);
        classes
    }
}
