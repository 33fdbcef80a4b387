//! Standbys: processes that run before anything needs them, up to where they would call `MPI_Init`. A start of the same
//! program takes one in place of a new process: it gets the environment and the shared page of the process that it
//! becomes, and everything else it has already. Nothing depends on them: what is not ready is not taken.

use super::held::Held;
use super::start_refused::StartRefused;
use pcm_proto::app::{STANDBY_WAITS, StandbyCall};
use pcm_proto::ids::JobId;
use pcm_proto::keeper::{ExitStatus, ProcessSpec, STANDBYS_HELD_FOR, Standby};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// A program whose standbys end by themselves so often cannot be held before `MPI_Init`, or does not call it.
const LOST_MAX: u32 = 3;

/// Those of all jobs.
#[derive(Debug, Default)]
pub(super) struct Standbys {
    pools: BTreeMap<JobId, Pool>,
}

/// Those of a job.
#[derive(Debug)]
struct Pool {
    spec: ProcessSpec,
    until: Instant,
    waiting: Vec<Waiting>,
    lost: u32,
}

#[derive(Debug)]
struct Waiting {
    held: Held,
    is_ready: bool,
}

impl Waiting {
    fn is_ready(&mut self) -> bool {
        self.is_ready |= self.held.has_said(STANDBY_WAITS);
        self.is_ready
    }
}

impl Standbys {
    /// Holds so many of a program from now on; all there are.
    pub(super) fn hold(
        &mut self,
        count: u32,
        spec: ProcessSpec,
        start: impl Fn(&ProcessSpec) -> Result<Held, StartRefused>,
    ) -> Vec<Standby> {
        let (job, until) = (spec.key.job, Instant::now() + STANDBYS_HELD_FOR);
        if self.pools.get(&job).is_some_and(|pool| pool.spec != spec) {
            self.end(job);
        }
        let pool = self.pools.entry(job).or_insert(Pool {
            spec,
            until,
            waiting: Vec::new(),
            lost: 0,
        });
        pool.until = until;
        for superfluous in pool.waiting.split_off(pool.waiting.len().min(count as usize)) {
            superfluous.held.kill();
        }
        while pool.waiting.len() < count as usize && pool.lost < LOST_MAX {
            match start(&pool.spec) {
                Ok(held) => pool.waiting.push(Waiting { held, is_ready: false }),
                Err(StartRefused { reason, .. }) => {
                    tracing::warn!(%job, reason, "a standby cannot be started");
                    pool.lost = LOST_MAX;
                }
            }
        }
        let standby = |waiting: &mut Waiting| Standby {
            pid: waiting.held.number().cast_unsigned(),
            is_ready: waiting.is_ready(),
        };
        pool.waiting.iter_mut().map(standby).collect()
    }

    /// A process for this order, if one of the same program waits.
    pub(super) fn take(&mut self, spec: &ProcessSpec, page: OwnedFd) -> Result<Held, OwnedFd> {
        let Some(pool) = self.pools.get_mut(&spec.key.job).filter(|pool| pool.fits(spec)) else {
            return Err(page);
        };
        let Some(place) = pool.waiting.iter_mut().position(Waiting::is_ready) else {
            return Err(page);
        };
        let Waiting { held, .. } = pool.waiting.remove(place);
        held.call(&StandbyCall::between(&pool.spec.env, &spec.env), spec, page)
    }

    /// Whether a process that ended was a standby.
    pub(super) fn on_end(&mut self, pid: i32, status: ExitStatus) -> bool {
        for (job, pool) in &mut self.pools {
            let before = pool.waiting.len();
            pool.waiting.retain(|waiting| waiting.held.number() != pid);
            if pool.waiting.len() < before {
                pool.lost += 1;
                let is_last = pool.lost == LOST_MAX;
                tracing::warn!(%job, pid, ?status, is_last, "a standby ended before it was needed");
                return true;
            }
        }
        false
    }

    pub(super) fn end(&mut self, job: JobId) {
        if let Some(pool) = self.pools.remove(&job) {
            pool.waiting.iter().for_each(|waiting| waiting.held.kill());
        }
    }

    pub(super) fn end_all(&mut self) {
        for job in self.pools.keys().copied().collect::<Vec<_>>() {
            self.end(job);
        }
    }

    /// Ends those that were not asked for again.
    pub(super) fn end_old(&mut self) {
        let now = Instant::now();
        let old: Vec<JobId> = self
            .pools
            .iter()
            .filter(|(_, pool)| pool.until <= now)
            .map(|(job, _)| *job)
            .collect();
        old.into_iter().for_each(|job| self.end(job));
    }

    /// When [`Standbys::end_old`] has something to do.
    pub(super) fn next(&self) -> Option<Instant> {
        self.pools.values().map(|pool| pool.until).min()
    }

    /// Their process numbers.
    pub(super) fn numbers(&self) -> impl Iterator<Item = i32> + '_ {
        self.pools
            .values()
            .flat_map(|pool| &pool.waiting)
            .map(|waiting| waiting.held.number())
    }
}

impl Pool {
    /// Whether a process that was started by the pool's order can become that of this one.
    fn fits(&self, spec: &ProcessSpec) -> bool {
        let own = &self.spec;
        (&own.program, &own.search_path, &own.args) == (&spec.program, &spec.search_path, &spec.args)
            && (&own.cwd, &own.cpus, own.stdin) == (&spec.cwd, &spec.cpus, spec.stdin)
    }
}
