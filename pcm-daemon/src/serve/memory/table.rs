//! The memory files that the node names by their numbers. Never changes what is in one, but by the blocks it is given.

use super::background::drop_beside;
use super::memory_file::Memory;
use pcm_core::node::memory::{MemoryFile, MemoryId};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

#[derive(Debug)]
enum Entry {
    Here(Arc<Memory>),
    /// It is being filled in the background.
    Away(File),
    /// It could not be made.
    Missing(String),
}

/// See the file head.
#[derive(Debug, Default)]
pub(super) struct MemoryTable {
    entries: BTreeMap<MemoryId, Entry>,
    /// Counts what was received.
    count: u64,
}

impl MemoryTable {
    /// Takes memory in, and gives it a number.
    pub(super) fn receive(&mut self, memory: Memory) -> MemoryFile {
        self.count += 1;
        let (id, bytes) = (MemoryId(self.count), memory.bytes());
        self.entries.insert(id, Entry::Here(Arc::new(memory)));
        MemoryFile { id, bytes }
    }

    /// Makes memory under a number that the node chose.
    pub(super) fn make(&mut self, MemoryFile { id, bytes }: MemoryFile, has_holes: bool) {
        let made = if has_holes {
            Memory::with_holes(bytes)
        } else {
            Memory::new(bytes)
        };
        let entry = match made {
            Ok(memory) => Entry::Here(Arc::new(memory)),
            Err(error) => Entry::Missing(error.to_string()),
        };
        self.entries.insert(id, entry);
    }

    /// Memory that is here, to be read.
    pub(super) fn read(&self, id: MemoryId) -> io::Result<Arc<Memory>> {
        match self.entries.get(&id) {
            Some(Entry::Here(memory)) => Ok(Arc::clone(memory)),
            Some(Entry::Away(_)) => Err(io::Error::other("it is being filled")),
            Some(Entry::Missing(why)) => Err(io::Error::other(why.clone())),
            None => Err(io::Error::other("it is not held any more")),
        }
    }

    /// Another descriptor of its file.
    pub(super) fn file(&self, id: MemoryId) -> io::Result<File> {
        match self.entries.get(&id) {
            Some(Entry::Away(file)) => file.try_clone(),
            _ => self.read(id)?.file().try_clone(),
        }
    }

    /// Writes a block.
    pub(super) fn write(&self, id: MemoryId, at: u64, bytes: &[u8]) -> io::Result<()> {
        match self.entries.get(&id) {
            Some(Entry::Away(file)) => file.write_all_at(bytes, at),
            _ => self.read(id)?.file().write_all_at(bytes, at),
        }
    }

    /// Memory to be filled in the background, until it is given back.
    pub(super) fn lend_out(&mut self, id: MemoryId) -> io::Result<Memory> {
        let file = self.file(id)?;
        let Some(Entry::Here(memory)) = self.entries.remove(&id) else {
            self.entries.insert(id, Entry::Away(file));
            return Err(io::Error::other("it is being filled"));
        };
        match Arc::try_unwrap(memory) {
            Ok(memory) => {
                self.entries.insert(id, Entry::Away(file));
                Ok(memory)
            }
            Err(shared) => {
                self.entries.insert(id, Entry::Here(shared));
                Err(io::Error::other("it is being read"))
            }
        }
    }

    /// Memory comes back; false if it does not, or was released meanwhile.
    pub(super) fn give_back(&mut self, id: MemoryId, memory: Option<Memory>) -> bool {
        match (self.entries.get_mut(&id), memory) {
            (Some(entry @ Entry::Away(_)), Some(memory)) => {
                *entry = Entry::Here(Arc::new(memory));
                true
            }
            (_, memory) => {
                drop_beside(memory.into_iter().collect());
                false
            }
        }
    }

    /// Lets go of memory.
    pub(super) fn release(&mut self, ids: &[MemoryId]) {
        drop_beside(ids.iter().filter_map(|id| self.entries.remove(id)).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(table: &mut MemoryTable) -> MemoryId {
        table.receive(Memory::new(5000).unwrap()).id
    }

    #[test]
    fn memory_that_is_read_is_not_given_away_to_be_filled() {
        let mut table = MemoryTable::default();
        let id = held(&mut table);
        let read = table.read(id).unwrap();
        assert!(table.lend_out(id).is_err() && table.read(id).is_ok());
        drop(read);
        let away = table.lend_out(id).unwrap();
        assert!(table.read(id).is_err() && table.lend_out(id).is_err());
        assert!(table.file(id).is_ok(), "ranks read the blocks that are here meanwhile");
        assert!(table.give_back(id, Some(away)) && table.read(id).is_ok());
    }

    #[test]
    fn what_comes_back_after_its_release_is_dropped() {
        let mut table = MemoryTable::default();
        let id = held(&mut table);
        let away = table.lend_out(id).unwrap();
        table.release(&[id]);
        assert!(!table.give_back(id, Some(away)));
        assert!(table.read(id).is_err());
    }

    #[test]
    fn what_could_not_be_made_says_why_when_it_is_used() {
        let mut table = MemoryTable::default();
        let memory = MemoryFile {
            id: MemoryId::ordered(1),
            bytes: u64::MAX,
        };
        table.make(memory, true);
        let write = table.write(memory.id, 0, b"block").unwrap_err();
        assert_eq!(write.to_string(), table.read(memory.id).unwrap_err().to_string());
        assert!(!write.to_string().contains("not held"), "{write}");
    }
}
