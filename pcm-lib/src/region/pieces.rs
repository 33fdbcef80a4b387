//! Registration of data in pieces: rows, records, owners of rows, and the costs of elements.

use super::custom::Data;
use super::owners::{Divide, Owners};
use super::registry::{not, not_an_array};
use super::rows::Like;
use super::{ArrayRegion, CustomRegion, Kind, Owner, Records, RegionError, Registry, Rows};
use pcm_core::partition::{PartitionError, Split, whole_costs};
use pcm_proto::ids::RegionId;
use std::cell::{Ref, RefCell};
use std::ops::Range;
use std::rc::Rc;

impl Registry {
    /// Registers rows of different lengths: entries of these sizes, divided as the first axis of an array, or as a list
    /// of owners says.
    pub fn rows(&mut self, name: &str, like: &str, sizes: Vec<usize>) -> Result<RegionId, RegionError> {
        self.check_name(name)?;
        if sizes.contains(&0) || sizes.is_empty() {
            return Err(RegionError::Empty { name: name.to_owned() });
        }
        let like = self.find(like)?;
        let (like, own) = match &self.region(like).kind {
            Kind::Array(array) => (Like::Array(like), vec![own_rows(name, array)?]),
            Kind::Custom(CustomRegion {
                data: Data::Owners(owners),
                ..
            }) => (Like::Owners(like, Rc::clone(owners)), owners.borrow().own()),
            _ => return Err(not_an_array(self.region(like))),
        };
        let rows = Rows::new(like, sizes, own);
        Ok(self.add(name, Kind::Custom(CustomRegion::of(Data::Rows(rows)))))
    }

    /// Registers records of one size, each of which belongs to the rank that `owner` names.
    pub fn records(&mut self, name: &str, size: usize, owner: Owner) -> Result<RegionId, RegionError> {
        self.check_name(name)?;
        if size == 0 {
            return Err(RegionError::Empty { name: name.to_owned() });
        }
        let records = Records::new(size, owner);
        Ok(self.add(name, Kind::Custom(CustomRegion::of(Data::Records(records)))))
    }

    /// Registers the owners of rows: a list of the program, or equal blocks. `divide` says the owners among other
    /// numbers of ranks.
    pub fn owners(
        &mut self,
        name: &str,
        rows: usize,
        list: Option<Vec<u32>>,
        divide: Option<Divide>,
    ) -> Result<RegionId, RegionError> {
        self.check_name(name)?;
        let home = self.home();
        let list = list.filter(|_| home.is_first);
        let owners = Owners::new(rows, list, (home.rank, home.size), divide);
        let owners = owners.map_err(|error| RegionError::Owners {
            name: name.to_owned(),
            error,
        })?;
        let data = Data::Owners(Rc::new(RefCell::new(owners)));
        Ok(self.add(name, Kind::Custom(CustomRegion::of(data))))
    }

    /// Rows of different lengths, by name.
    pub fn rows_named(&mut self, name: &str) -> Result<&mut Rows, RegionError> {
        let id = self.find(name)?;
        match &mut self.region_mut(id).kind {
            Kind::Custom(CustomRegion {
                data: Data::Rows(rows), ..
            }) => Ok(rows),
            other => Err(not(name, other, "rows of different lengths")),
        }
    }

    /// Records, by name.
    pub fn records_named(&mut self, name: &str) -> Result<&mut Records, RegionError> {
        let id = self.find(name)?;
        match &mut self.region_mut(id).kind {
            Kind::Custom(CustomRegion {
                data: Data::Records(records),
                ..
            }) => Ok(records),
            other => Err(not(name, other, "records")),
        }
    }

    /// A list of owners, by name; none if the region is of another kind.
    pub fn owners_named(&self, name: &str) -> Result<Option<Ref<'_, Owners>>, RegionError> {
        match &self.region(self.find(name)?).kind {
            Kind::Custom(CustomRegion {
                data: Data::Owners(owners),
                ..
            }) => Ok(Some(owners.borrow())),
            _ => Ok(None),
        }
    }

    /// Gives the elements along an axis, which is divided into intervals, costs: the next division is by them.
    pub fn set_costs(&mut self, name: &str, axis: usize, costs: &[f64]) -> Result<(), RegionError> {
        let refused = |error| RegionError::Partition {
            name: name.to_owned(),
            error,
        };
        let whole = whole_costs(costs).map_err(refused)?;
        let id = self.find(name)?;
        let axes = &self.array_named(name)?.partition().spec().axes;
        let Some(found) = axes.get(axis) else {
            return Err(RegionError::Axis {
                name: name.to_owned(),
                axis: axis as i64,
                axes: axes.len(),
            });
        };
        if matches!(found.split, Split::Whole | Split::Cyclic { .. }) {
            return Err(RegionError::Options {
                name: name.to_owned(),
                problem: "costs are for an axis that is divided in blocks",
            });
        }
        if found.extent != whole.len() as u64 {
            return Err(refused(PartitionError::CostsDoNotFit {
                axis,
                costs: whole.len() as u64,
                extent: found.extent,
            }));
        }
        let (array, _) = self.array_mut(id);
        array.set_costs(axis, whole);
        // What travels ahead for the division that there would have been does not count.
        let is_constant = array.form().is_constant;
        self.ahead_spoilt += u64::from(is_constant);
        Ok(())
    }
}

/// The rows of this rank, if only the first axis of the array is divided, into intervals.
fn own_rows(name: &str, array: &ArrayRegion) -> Result<Range<u64>, RegionError> {
    let axes = &array.partition().spec().axes;
    let is_alone = axes[1..].iter().all(|axis| axis.split == Split::Whole);
    let is_divided = !matches!(axes[0].split, Split::Whole | Split::Cyclic { .. });
    let own = array.partition().owned_interval(array.rank(), 0);
    match own.filter(|_| is_alone && is_divided) {
        Some((start, end)) => Ok(start..end),
        None => Err(RegionError::Options {
            name: name.to_owned(),
            problem: "give an array whose first axis is divided by blocks, and no other axis",
        }),
    }
}
