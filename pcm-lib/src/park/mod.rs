//! Parking and restoring: what a rank does in a relaunch instead of moving its data. Images, and what is in them, are
//! told in `pcm-core/src/parked/README.md`. Never speaks of layouts but as it is told.

mod client;
mod error;
mod image;
mod opened;
mod restore;
mod sums;

pub(crate) use client::{Client, failed, request};
pub(crate) use error::{ParkError, RestoreError};
pub(crate) use image::{Image, Published, custom_parcels};
pub(crate) use opened::{Opened, Source};
#[cfg(test)]
pub(crate) use restore::Relaunched;
pub(crate) use restore::{check_registrations, restore};

#[cfg(test)]
mod tests;
