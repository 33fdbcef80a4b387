//! The regions of this process by name and number, and the rules of their registration. Regions are numbered in the
//! order of registration, which must be the same on every rank.

use super::{
    ArrayForm, ArrayRegion, CustomHooks, CustomRegion, PerRankHooks, PerRankRegion, RegionError, Value,
    array::{check_axes, shared_extent},
    home::Home,
    known::{self, KnownValues},
    limits::{NAME_LENGTH_MAX, REGIONS_MAX},
    memory::{Capacity, MemoryError, SharedMemory, Storage},
};
use pcm_proto::ids::RegionId;
use pcm_proto::rank_counts::RankCounts;
use pcm_proto::registered::{Registered, SHARED_EXTENTS_MAX};
use std::collections::BTreeSet;

/// A registered region.
#[derive(Debug)]
pub struct Region {
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// What a region is.
#[derive(Debug)]
pub enum Kind {
    /// A distributed array.
    Array(Box<ArrayRegion>),
    /// A replicated value.
    Value(Value),
    /// A value of each rank's own.
    PerRank(PerRankRegion),
    /// Data that only the application understands, rows or records.
    Custom(CustomRegion),
}

impl Kind {
    /// What to call it.
    pub fn noun(&self) -> &'static str {
        match self {
            Self::Array(_) => "an array",
            Self::Value(_) => "a value",
            Self::PerRank(_) => "a per-rank value",
            Self::Custom(custom) => custom.noun(),
        }
    }
}

/// All that this process registered. What is hidden in its documentation is for tests of this crate.
#[derive(Debug)]
pub struct Registry {
    home: Home,
    regions: Vec<Region>,
    is_started: bool,
    capacity: Capacity,
    /// How often constant arrays changed places or got costs.
    pub(super) ahead_spoilt: u64,
    /// Values of the job that this process joins.
    known: KnownValues,
    /// Numbers of ranks on which the program can run.
    counts: RankCounts,
}

impl Registry {
    /// An empty registry.
    #[doc(hidden)]
    pub fn new(home: Home) -> Self {
        Self {
            home,
            regions: Vec::new(),
            is_started: false,
            capacity: Capacity::shared_by(home.ranks_here),
            ahead_spoilt: 0,
            known: KnownValues::default(),
            counts: RankCounts::default(),
        }
    }

    /// A registry of a process that joins a job with these values.
    pub(crate) fn with_known(self, known: KnownValues) -> Self {
        Self { known, ..self }
    }

    /// Where this process stands.
    #[doc(hidden)]
    pub fn home(&self) -> Home {
        self.home
    }

    /// Says where it stands from now on.
    pub(crate) fn home_set(&mut self, rank: u32, size: u32) {
        (self.home.rank, self.home.size) = (rank, size);
    }

    /// Ends the registrations.
    #[doc(hidden)]
    pub fn start(&mut self) -> Result<(), RegionError> {
        if self.is_started {
            return Err(RegionError::StartTwice);
        }
        // Whoever has a process join has asked before.
        if self.home.is_first && !self.counts.allow(self.home.size) {
            let (size, counts) = (self.home.size, self.counts.clone());
            return Err(RegionError::Ranks { size, counts });
        }
        self.is_started = true;
        Ok(())
    }

    /// Says on which numbers of ranks the program can run. A start on another number is an error, and no change leads
    /// to one.
    pub fn possible_ranks(&mut self, is_possible: impl FnMut(u32) -> bool) -> Result<(), RegionError> {
        if self.is_started {
            let name = "possible ranks".to_owned();
            return Err(RegionError::AfterStart { name });
        }
        self.counts = RankCounts::of(is_possible).map_err(|error| RegionError::RankCounts { error })?;
        Ok(())
    }

    /// The program goes on with the data that it has, and knows of each change before.
    #[doc(hidden)]
    pub fn goes_on(&mut self) {
        for (_, region) in self.regions_mut() {
            if let Kind::Custom(custom) = &mut region.kind {
                custom.goes_on();
            }
        }
    }

    /// Numbers of ranks on which the program can run.
    pub(crate) fn possible(&self) -> &RankCounts {
        &self.counts
    }

    /// What others have to know of it.
    pub(crate) fn said(&self) -> Registered {
        let extents = self.regions.iter().filter_map(|region| match &region.kind {
            Kind::Array(array) => shared_extent(&array.form().spec),
            _ => None,
        });
        let extents: BTreeSet<u64> = extents.collect();
        Registered {
            values: known::written(self),
            counts: self.counts.clone(),
            shared_extents: extents.into_iter().rev().take(SHARED_EXTENTS_MAX).collect(),
            has_begun: true,
            has_custom: self
                .regions
                .iter()
                .any(|region| matches!(&region.kind, Kind::Custom(custom) if !custom.is_divisible())),
        }
    }

    /// Fails where `call` needs a started program.
    pub(crate) fn check_started(&self, call: &'static str) -> Result<(), RegionError> {
        if self.is_started {
            Ok(())
        } else {
            Err(RegionError::BeforeStart { call })
        }
    }

    /// Registers an array and allocates this rank's part, zeroed.
    #[doc(hidden)]
    pub fn array(&mut self, name: &str, form: ArrayForm) -> Result<RegionId, RegionError> {
        self.array_held(name, form, None)
    }

    /// The same; `program` makes and holds its memory, if it is given.
    pub(crate) fn array_held(
        &mut self,
        name: &str,
        form: ArrayForm,
        program: Option<SharedMemory>,
    ) -> Result<RegionId, RegionError> {
        self.check_name(name)?;
        check_axes(name, &form.spec)?;
        if form.is_scratch && form.is_constant {
            return Err(RegionError::Options {
                name: name.to_owned(),
                problem: "scratch and constant contradict each other: scratch has no contents to keep",
            });
        }
        let array = ArrayRegion::new(name, form, program, &self.home, &mut self.capacity)?;
        Ok(self.add(name, Kind::Array(Box::new(array))))
    }

    /// Registers a replicated value. In a process that joins a job it has the value from then on with which the job
    /// began.
    #[doc(hidden)]
    pub fn value(&mut self, name: &str, mut value: Value) -> Result<RegionId, RegionError> {
        self.check_name(name)?;
        self.check_memory(name, &value)?;
        if let Some(known) = self.known.get(name).filter(|known| known.len() == value.length()) {
            value.bytes_mut().copy_from_slice(known);
        }
        Ok(self.add(name, Kind::Value(value)))
    }

    /// Registers a per-rank value.
    pub fn per_rank(&mut self, name: &str, value: Value, hooks: PerRankHooks) -> Result<RegionId, RegionError> {
        self.check_name(name)?;
        self.check_memory(name, &value)?;
        Ok(self.add(name, Kind::PerRank(PerRankRegion { value, hooks })))
    }

    /// Registers a custom region.
    pub fn custom(&mut self, name: &str, hooks: Box<dyn CustomHooks>) -> Result<RegionId, RegionError> {
        self.check_name(name)?;
        Ok(self.add(name, Kind::Custom(CustomRegion::new(hooks))))
    }

    /// Lets two arrays that are alike change places: each gets the other's contents. Pointers into them stay good
    /// but mean the other array.
    pub fn swap(&mut self, one: &str, other: &str) -> Result<(), RegionError> {
        let [first, second] = [self.find(one)?, self.find(other)?];
        if first == second {
            return Ok(());
        }
        let places = [first, second].map(|id| id.0 as usize);
        let Ok([a, b]) = self.regions.get_disjoint_mut(places) else {
            return Ok(());
        };
        match (&mut a.kind, &mut b.kind) {
            (Kind::Array(a), Kind::Array(b)) if a.is_like(b) => {
                self.ahead_spoilt += u64::from(a.form().is_constant);
                a.swap_storage(b);
            }
            (Kind::Array(_), Kind::Array(_)) => {
                return Err(RegionError::SwapDiffers {
                    one: one.to_owned(),
                    other: other.to_owned(),
                });
            }
            (Kind::Array(_), _) => return Err(not_an_array(b)),
            _ => return Err(not_an_array(a)),
        }
        Ok(())
    }

    /// The number of a region.
    #[doc(hidden)]
    pub fn find(&self, name: &str) -> Result<RegionId, RegionError> {
        match self.regions.iter().position(|region| region.name == name) {
            Some(place) => Ok(RegionId(place as u32)),
            None => Err(RegionError::Unknown {
                name: shortened(name),
                known: self.regions.iter().map(|region| region.name.clone()).collect(),
            }),
        }
    }

    /// A region by number.
    ///
    /// # Panics
    /// If this registry did not give the number.
    pub(crate) fn region(&self, id: RegionId) -> &Region {
        &self.regions[id.0 as usize]
    }

    /// An array by name.
    #[doc(hidden)]
    pub fn array_named(&self, name: &str) -> Result<&ArrayRegion, RegionError> {
        let region = self.region(self.find(name)?);
        match &region.kind {
            Kind::Array(array) => Ok(array),
            _ => Err(not_an_array(region)),
        }
    }

    /// An array by number.
    ///
    /// # Panics
    /// If the region is no array of this registry.
    pub(crate) fn array_by_id(&self, id: RegionId) -> &ArrayRegion {
        match &self.region(id).kind {
            Kind::Array(array) => array,
            other => panic!("region {id} is {}", other.noun()),
        }
    }

    /// The bytes of a replicated or per-rank value.
    pub fn value_bytes(&self, name: &str) -> Result<&[u8], RegionError> {
        let region = self.region(self.find(name)?);
        match &region.kind {
            Kind::Value(value) => Ok(value.bytes()),
            Kind::PerRank(per_rank) => Ok(per_rank.value.bytes()),
            Kind::Array(_) | Kind::Custom(_) => Err(not_a_value(region)),
        }
    }

    /// Writes a replicated or per-rank value, which must have this length.
    pub fn value_write(&mut self, name: &str, bytes: &[u8]) -> Result<(), RegionError> {
        let length = self.value_bytes(name)?.len();
        let region = self.find(name)?;
        let region = self.region_mut(region);
        if length != bytes.len() {
            return Err(RegionError::Kind {
                name: region.name.clone(),
                is: format!("{} of {length} bytes", region.kind.noun()),
                wanted: format!("one of {} bytes", bytes.len()),
            });
        }
        match &mut region.kind {
            Kind::Value(value) => value.bytes_mut().copy_from_slice(bytes),
            Kind::PerRank(per_rank) => per_rank.value.bytes_mut().copy_from_slice(bytes),
            Kind::Array(_) | Kind::Custom(_) => return Err(not_a_value(region)),
        }
        Ok(())
    }

    /// All regions, in order.
    #[doc(hidden)]
    pub fn regions(&self) -> impl Iterator<Item = (RegionId, &Region)> {
        (0..).map(RegionId).zip(&self.regions)
    }

    /// All regions, in order, to be changed.
    pub(crate) fn regions_mut(&mut self) -> impl Iterator<Item = (RegionId, &mut Region)> {
        (0..).map(RegionId).zip(&mut self.regions)
    }

    /// A region by number, to be changed.
    pub(crate) fn region_mut(&mut self, id: RegionId) -> &mut Region {
        &mut self.regions[id.0 as usize]
    }

    /// An array and the account of memory, for whoever resizes it.
    ///
    /// # Panics
    /// If the region is no array of this registry.
    pub(crate) fn array_mut(&mut self, id: RegionId) -> (&mut ArrayRegion, &mut Capacity) {
        match &mut self.regions[id.0 as usize].kind {
            Kind::Array(array) => (array, &mut self.capacity),
            other => panic!("region {id} is {}", other.noun()),
        }
    }

    /// Says whether so many bytes could be taken beside everything else, for a moment.
    pub(crate) fn check_room(&mut self, bytes: u64) -> Result<(), MemoryError> {
        self.capacity.renew();
        self.capacity.promise(bytes)?;
        self.capacity.renew();
        Ok(())
    }

    /// Begins a new account of memory, see [`Capacity::renew`].
    pub(crate) fn capacity_renew(&mut self) {
        self.capacity.renew();
    }

    /// So many bytes of what a move will ask for are taken already, see [`Capacity::has_taken`].
    pub(crate) fn capacity_has_taken(&mut self, bytes: u64) {
        self.capacity.has_taken(bytes);
    }

    /// Messages of a move that was called off may still use the memory of rows and records.
    pub(crate) fn leave(&mut self) {
        for region in &mut self.regions {
            if let Kind::Custom(custom) = &mut region.kind {
                custom.leave();
            }
        }
    }

    /// Gives back all memory that was opened for a move beside the data as it is.
    pub(crate) fn settle(&mut self) {
        for region in &mut self.regions {
            match &mut region.kind {
                Kind::Array(array) => array.storage_mut().settle(),
                Kind::Custom(custom) => custom.settle(),
                Kind::Value(_) | Kind::PerRank(_) => {}
            }
        }
    }

    /// Bytes of arrays, values, rows and records whose contents count. What a custom region has is not known.
    pub(crate) fn registered_bytes(&self) -> u64 {
        let bytes = self.regions.iter().map(|region| match &region.kind {
            Kind::Array(array) if array.form().is_scratch => 0,
            Kind::Array(array) => array.storage().length(),
            Kind::Value(value) => value.length(),
            Kind::PerRank(per_rank) => per_rank.value.length(),
            Kind::Custom(custom) => custom.bytes(),
        });
        bytes.map(|bytes| bytes as u64).sum()
    }

    /// Bytes of constant arrays.
    pub(crate) fn constant_bytes(&self) -> u64 {
        let constant = self.regions.iter().filter_map(|region| match &region.kind {
            Kind::Array(array) if array.form().is_constant => Some(array.storage().length() as u64),
            _ => None,
        });
        constant.sum()
    }

    /// Whether there are constant arrays, with contents here or not.
    pub(crate) fn has_constant(&self) -> bool {
        let is_constant = |region: &Region| matches!(&region.kind, Kind::Array(array) if array.form().is_constant);
        self.regions.iter().any(is_constant)
    }

    /// How often constant arrays have changed places or got costs.
    pub(crate) fn ahead_spoilt(&self) -> u64 {
        self.ahead_spoilt
    }

    /// The storages of all arrays, in order: what must be saved of this process beside its values.
    #[doc(hidden)]
    pub fn storages(&self) -> impl Iterator<Item = (RegionId, &Storage)> {
        self.regions().filter_map(|(id, region)| match &region.kind {
            Kind::Array(array) => Some((id, array.storage())),
            _ => None,
        })
    }

    pub(super) fn add(&mut self, name: &str, kind: Kind) -> RegionId {
        self.regions.push(Region {
            name: name.to_owned(),
            kind,
        });
        RegionId(self.regions.len() as u32 - 1)
    }

    pub(super) fn check_name(&self, name: &str) -> Result<(), RegionError> {
        if name.is_empty() || name.len() > NAME_LENGTH_MAX || name.chars().any(char::is_control) {
            return Err(RegionError::Name { name: shortened(name) });
        }
        if self.is_started {
            return Err(RegionError::AfterStart { name: name.to_owned() });
        }
        if let Some(first) = self.regions.iter().find(|region| region.name == name) {
            return Err(RegionError::Twice {
                name: name.to_owned(),
                first: first.kind.noun(),
            });
        }
        if self.regions.len() >= REGIONS_MAX {
            return Err(RegionError::TooMany { name: name.to_owned() });
        }
        Ok(())
    }

    fn check_memory(&self, name: &str, value: &Value) -> Result<(), RegionError> {
        if value.length() == 0 {
            return Err(RegionError::Empty { name: name.to_owned() });
        }
        let Some(own) = value.lies_at() else {
            return Ok(());
        };
        let taken = self.regions.iter().find(|region| {
            let range = match &region.kind {
                Kind::Value(value) => value.lies_at(),
                Kind::PerRank(per_rank) => per_rank.value.lies_at(),
                Kind::Array(array) => {
                    let start = array.storage().pointer().as_ptr().addr();
                    Some(start..start + array.storage().length())
                }
                Kind::Custom(_) => None,
            };
            range.is_some_and(|range| range.start < own.end && own.start < range.end)
        });
        match taken {
            Some(other) => Err(RegionError::Overlaps {
                name: name.to_owned(),
                other: other.name.clone(),
            }),
            None => Ok(()),
        }
    }
}

fn not_a_value(region: &Region) -> RegionError {
    not(&region.name, &region.kind, "a value")
}

pub(super) fn not_an_array(region: &Region) -> RegionError {
    not(&region.name, &region.kind, "an array")
}

pub(super) fn not(name: &str, is: &Kind, wanted: &str) -> RegionError {
    RegionError::Kind {
        name: name.to_owned(),
        is: is.noun().to_owned(),
        wanted: wanted.to_owned(),
    }
}

/// As much of a name as belongs into an error.
fn shortened(name: &str) -> String {
    name.chars().take(NAME_LENGTH_MAX).collect()
}

#[cfg(test)]
mod tests;
