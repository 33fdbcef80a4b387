//! What processes published, and lookups that wait for what is not there yet. One node keeps it for all.

use crate::{
    bindings::numbers::{PMIX_ERR_DUPLICATE_KEY, PMIX_ERR_NOT_FOUND, PMIX_ERR_TIMEOUT, PMIX_SUCCESS},
    names::{Process, Published, Status, Value},
};
use std::{collections::BTreeMap, time::Duration};

/// Most values at a time. A job that connects its worlds has two per meeting; this is far above real use.
pub(super) const VALUES_MAX: usize = 65_536;

#[derive(Debug)]
struct Entry {
    publisher: Process,
    value: Value,
    is_read_once: bool,
}

/// A lookup that waits, by whatever names it to its asker.
#[derive(Debug)]
struct Waiting<A> {
    asker: A,
    keys: Vec<String>,
    due: Option<Duration>,
}

/// What an asker gets.
pub(super) type Outcome = Result<Vec<Published>, Status>;

#[derive(Debug)]
pub(super) struct Directory<A> {
    entries: BTreeMap<String, Entry>,
    waiting: Vec<Waiting<A>>,
}

impl<A> Directory<A> {
    pub(super) fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            waiting: Vec::new(),
        }
    }

    /// Takes all values or none; the lookups that waited for them.
    pub(super) fn publish(
        &mut self,
        publisher: &Process,
        values: Vec<(String, Value)>,
        is_read_once: bool,
    ) -> (Status, Vec<(A, Outcome)>) {
        let is_double = values.iter().any(|(key, _)| self.entries.contains_key(key));
        if is_double || self.entries.len() + values.len() > VALUES_MAX {
            return (Status(PMIX_ERR_DUPLICATE_KEY), Vec::new());
        }
        for (key, value) in values {
            let publisher = publisher.clone();
            let entry = Entry {
                publisher,
                value,
                is_read_once,
            };
            self.entries.insert(key, entry);
        }
        let mut served = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.keys.iter().all(|key| self.entries.contains_key(key)) {
                let found = self.read(&waiting.keys);
                served.push((waiting.asker, Ok(found)));
            } else {
                self.waiting.push(waiting);
            }
        }
        (Status(PMIX_SUCCESS), served)
    }

    /// What is there; nothing yet where the asker waits.
    pub(super) fn look_up(
        &mut self,
        asker: A,
        keys: Vec<String>,
        waits: bool,
        due: Option<Duration>,
    ) -> Option<(A, Outcome)> {
        let there = keys.iter().filter(|key| self.entries.contains_key(*key)).count();
        if waits && there < keys.len() {
            self.waiting.push(Waiting { asker, keys, due });
            return None;
        }
        let found = self.read(&keys);
        let outcome = if found.is_empty() {
            Err(Status(PMIX_ERR_NOT_FOUND))
        } else {
            Ok(found)
        };
        Some((asker, outcome))
    }

    pub(super) fn unpublish(&mut self, publisher: &Process, keys: &[String]) {
        let is_meant = |key: &String| keys.is_empty() || keys.contains(key);
        self.entries
            .retain(|key, entry| !(entry.publisher == *publisher && is_meant(key)));
    }

    /// Drops what the processes of a namespace published.
    pub(super) fn forget(&mut self, namespace: &str) {
        self.entries.retain(|_, entry| entry.publisher.namespace != namespace);
    }

    /// Askers whose time is over.
    pub(super) fn overdue(&mut self, now: Duration) -> Vec<(A, Outcome)> {
        let is_over = |waiting: &mut Waiting<A>| waiting.due.is_some_and(|due| due <= now);
        let over = self.waiting.extract_if(.., is_over);
        over.map(|waiting| (waiting.asker, Err(Status(PMIX_ERR_TIMEOUT))))
            .collect()
    }

    /// Drops askers that will hear no answer.
    pub(super) fn drop_askers(&mut self, is_gone: impl Fn(&A) -> bool) {
        self.waiting.retain(|waiting| !is_gone(&waiting.asker));
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.waiting.iter().filter_map(|waiting| waiting.due).min()
    }

    fn read(&mut self, keys: &[String]) -> Vec<Published> {
        let mut found = Vec::new();
        for key in keys {
            let Some(entry) = self.entries.get(key) else {
                continue;
            };
            found.push(Published {
                publisher: entry.publisher.clone(),
                key: key.clone(),
                value: entry.value.clone(),
            });
            if entry.is_read_once {
                self.entries.remove(key);
            }
        }
        found
    }
}
