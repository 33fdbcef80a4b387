//! A process's part in a relaunch: its data is described while it stands, parked when that is ordered, and taken up by
//! the process that was started in its place.

use super::{error::SessionError, part::Part};
use crate::{
    park::{Client, Image, ParkError, Published, RestoreError, failed, restore},
    region::Registry,
    role::Planned,
};
use pcm_core::reconfiguration::{
    limits::Limits,
    rank::{RankEffect, RankSide},
};
use pcm_proto::{
    app::AppToDaemon,
    ids::Rank,
    reconfiguration::{Attempt, Tally},
};
use std::{
    os::fd::AsFd,
    sync::atomic::Ordering::{Relaxed, Release},
};

impl Part {
    /// Shows the keeper where the data is, should this process not come back from MPI.
    pub(super) fn publish(&mut self, registry: &mut Registry, iteration: u64) {
        self.unpublish();
        let published = Published::new(registry, iteration);
        let (table, stretches) = published.as_ref().map_or((0, 0), Published::table);
        let progress = &self.started.recorder.page().head.progress;
        progress.stretches.store(stretches, Relaxed);
        progress.table.store(table, Release);
        self.published = published;
    }

    /// The application goes on, and its data changes.
    pub(super) fn unpublish(&mut self) {
        if self.published.take().is_some() {
            self.started.recorder.page().head.progress.table.store(0, Release);
        }
    }

    /// Hands the data over to the daemon.
    pub(super) fn park(&mut self, registry: &mut Registry) -> Result<Tally, ParkError> {
        let Some((attempt, size_after)) = self.called.map(|(attempt, _)| attempt).zip(self.parks_for) else {
            return Ok(Tally::default());
        };
        let image = Image::new(registry, self.iteration, Some(size_after))?;
        let (file, bytes, tally) = image.write(registry)?;
        let parked = AppToDaemon::Parked { attempt, bytes };
        let sent = self.started.channel.send_with(&parked, &[file.as_fd()]);
        sent.map_err(|error| ParkError::NotHanded(error.to_string()))?;
        Ok(tally)
    }

    /// Takes up what was parked, and says so. One that cannot must not compute.
    pub(super) fn restore(&mut self, registry: &mut Registry, planned: Planned) -> Result<(), SessionError> {
        let taken = self.take_parked(registry, planned);
        let (iteration, awaited) = taken.map_err(|error| {
            failed(self.started, &error);
            SessionError::NotRestored(Some(error.to_string()))
        })?;
        self.iteration = iteration;
        self.announce();
        self.has_arrived = true;
        let (rank, port, limits) = (Rank(planned.rank), String::new(), Limits::default());
        let (side, told) = RankSide::restored(self.now(), rank, awaited, port, limits);
        self.side = side;
        if let RankEffect::Tell(ready) = told {
            self.tell(ready);
        }
        Ok(())
    }

    /// The iteration that follows, and the relaunch whose decision the process waits for.
    fn take_parked(&self, registry: &mut Registry, planned: Planned) -> Result<(u64, Option<Attempt>), RestoreError> {
        let progress = &self.started.recorder.page().head.progress;
        let (rank, size) = (progress.world_rank.load(Relaxed), progress.world_size.load(Relaxed));
        if (rank, size) != (u64::from(planned.rank), u64::from(planned.size)) {
            return Err(RestoreError::Place {
                rank: rank as u32,
                planned: planned.rank,
            });
        }
        let mut client = Client::new(self.started);
        let relaunched = client.plan()?;
        let iteration = restore(registry, &relaunched, &mut client)?;
        Ok((iteration.0, relaunched.awaited))
    }
}
