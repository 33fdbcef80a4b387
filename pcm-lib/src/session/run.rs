//! The session of a program: what it registered, and its loop. In a job that daemons run the loop is where ranks come
//! and go; started by mpiexec nothing ever happens there.

use super::{
    checkpoints::Checkpoints,
    departure,
    error::{NotUsable, SessionError},
    hold::{Held, hold},
    joint::Joint,
    part::Part,
    present,
};
use crate::{
    file_checkpoint::CheckpointError,
    mpi::Communicator,
    region::{Array, Element, HookFailed, Records, RegionError, Registry, Rows, known::KnownValues},
    role::Role,
    start, start_error,
};
use std::{
    marker::PhantomData,
    ops::{Deref, Index, IndexMut},
    path::PathBuf,
};

impl Deref for Session {
    type Target = Registry;

    fn deref(&self) -> &Registry {
        &self.registry
    }
}

impl<I> Index<I> for Session
where
    Registry: Index<I>,
{
    type Output = <Registry as Index<I>>::Output;

    fn index(&self, name: I) -> &Self::Output {
        &self.registry[name]
    }
}

impl<I> IndexMut<I> for Session
where
    Registry: IndexMut<I>,
{
    fn index_mut(&mut self, name: I) -> &mut Self::Output {
        &mut self.registry[name]
    }
}

/// What the top of an iteration brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// All is as before.
    Same,
    /// Ranks came, went or moved: rank, size, bounds and slices are to be asked anew, communicators made anew.
    Changed,
}

/// What the program runs when the layout has changed.
pub(crate) type ChangeHook = Box<dyn FnMut(&mut Session) -> Result<(), HookFailed>>;
/// What the program runs when its process leaves.
pub(crate) type ExitHook = Box<dyn FnMut(&mut Session)>;

/// See the file head. It belongs to the thread that initialised MPI.
pub struct Session {
    // First, so that what is done ahead has ended before the arrays go.
    life: Life,
    registry: Registry,
    checkpoints: Option<Box<Checkpoints>>,
    pub(super) change_hooks: Vec<ChangeHook>,
    pub(super) exit_hooks: Vec<ExitHook>,
    /// MPI, and so the session, belongs to one thread.
    thread: PhantomData<*const ()>,
}

enum Life {
    /// Regions are being registered.
    Registering,
    /// Plain MPI: there is nobody to change anything.
    Plain {
        /// The iteration whose top comes next.
        iteration: u64,
    },
    /// Works with a daemon.
    Member(Box<Part>),
    /// To leave, once the exit hooks have run.
    Leaving(Box<Part>, Option<Box<Joint>>),
    /// Has not got its data and must not compute.
    Failed,
}

impl Session {
    /// A session without regions.
    pub(crate) fn new() -> Result<Self, NotUsable> {
        let home = present::home()?;
        let known = if home.is_first {
            KnownValues::default()
        } else {
            KnownValues::told()
        };
        Ok(Self {
            registry: Registry::new(home).with_known(known),
            life: Life::Registering,
            checkpoints: None,
            change_hooks: Vec::new(),
            exit_hooks: Vec::new(),
            thread: PhantomData,
        })
    }

    /// What is registered, to be changed.
    pub(crate) fn regions_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Ends the registrations. A process that joins a running job waits here until it has its place and its data.
    pub(crate) fn begin(&mut self) -> Result<(), SessionError> {
        self.registry.start()?;
        let Some(started) = start::started().filter(|_| start_error::failure().is_none()) else {
            self.life = Life::Failed;
            let (checkpoints, iteration) = Checkpoints::begin(&mut self.registry, &Communicator::world(), true, None)?;
            self.checkpoints = Some(Box::new(checkpoints));
            self.registry.goes_on();
            self.life = Life::Plain { iteration };
            return Ok(());
        };
        let (part, mut told) = Part::begin(started);
        let mut part = Box::new(part);
        if let Role::Restored(planned) = started.role {
            self.life = Life::Failed;
            part.restore(&mut self.registry, planned)?;
        }
        part.show_registered(&self.registry);
        part.tell_registered(&self.registry);
        told.extend(part.early_as_newcomer(&mut self.registry));
        // One of a relaunch goes on when it is decided that the ranks before it do not.
        let waits = !told.is_empty() || part.side.is_waiting();
        let held = waits.then(|| hold(&mut self.registry, &mut part, told));
        let is_first = started.role == Role::First;
        self.life = Life::Failed;
        let (checkpoints, iteration) = Checkpoints::begin(&mut self.registry, &part.job, is_first, Some(started))?;
        if is_first {
            part.iteration = iteration;
            self.registry.goes_on();
        }
        self.checkpoints = Some(Box::new(checkpoints));
        self.life = Life::Member(part);
        match held {
            None => Ok(()),
            Some(held) => self.settle(held?).map(|_| ()),
        }
    }

    /// The top of an iteration, without the hooks. `None` for a process that is to leave: its exit hooks, then
    /// [`Session::leave`].
    #[inline]
    pub(crate) fn top(&mut self) -> Result<Option<Step>, SessionError> {
        let (step, begun) = match &mut self.life {
            Life::Plain { iteration } => {
                *iteration += 1;
                (Step::Same, *iteration)
            }
            Life::Member(part) => {
                if part.begins() {
                    (Step::Same, part.iteration)
                } else {
                    match self.top_held()? {
                        Some((step, begun)) => (step, begun),
                        None => return Ok(None),
                    }
                }
            }
            Life::Registering => return Err(RegionError::BeforeStart { call: "pcm_iterate" }.into()),
            Life::Leaving(..) => return Ok(None),
            Life::Failed => return Err(SessionError::NotRestored(None)),
        };
        if self
            .checkpoints
            .as_ref()
            .is_some_and(|checkpoints| checkpoints.looks.is_now(begun))
            || step == Step::Changed
        {
            self.look(step, begun)?;
        }
        Ok(Some(step))
    }

    /// All ranks are at the same top and look together whether a checkpoint is due.
    #[cold]
    fn look(&mut self, step: Step, begun: u64) -> Result<(), SessionError> {
        let Some(checkpoints) = &mut self.checkpoints else {
            return Ok(());
        };
        if step == Step::Changed {
            checkpoints.renew(begun);
            self.registry.goes_on();
            return Ok(());
        }
        match &mut self.life {
            Life::Plain { .. } => checkpoints.look(&mut self.registry, &Communicator::world(), begun)?,
            Life::Member(part) => {
                let ticks = part.started.recorder.ticks();
                let outcome = checkpoints.look(&mut self.registry, &part.job, begun);
                part.held_since(ticks);
                outcome?;
            }
            Life::Registering | Life::Leaving(..) | Life::Failed => {}
        }
        Ok(())
    }

    /// Makes a checkpoint in files: to be called by every rank after the top of the same iteration, before the
    /// iteration changes any data. The program is held while its data is copied, and while the checkpoint before is
    /// still being written; the files are written while it goes on. Returns where they will be: see
    /// [`Session::checkpoint_wait`]. After an error the program can go on as if it had not called.
    pub fn checkpoint(&mut self) -> Result<PathBuf, SessionError> {
        let Some(checkpoints) = &mut self.checkpoints else {
            return Err(RegionError::BeforeStart { call: "pcm_checkpoint" }.into());
        };
        match &mut self.life {
            Life::Plain { iteration } => {
                Ok(checkpoints.make(&mut self.registry, &Communicator::world(), *iteration)?)
            }
            Life::Member(part) => {
                let ticks = part.started.recorder.ticks();
                let outcome = checkpoints.make(&mut self.registry, &part.job, part.iteration);
                part.held_since(ticks);
                Ok(outcome?)
            }
            Life::Registering | Life::Leaving(..) | Life::Failed => {
                Err(RegionError::BeforeStart { call: "pcm_checkpoint" }.into())
            }
        }
    }

    /// Waits until the checkpoint that was made last is on disk: to be called by every rank. Fails on every rank if it
    /// came to nothing.
    pub fn checkpoint_wait(&mut self) -> Result<(), SessionError> {
        let not_started = || RegionError::BeforeStart {
            call: "pcm_checkpoint_wait",
        };
        let checkpoints = self.checkpoints.as_mut().ok_or_else(not_started)?;
        match &mut self.life {
            Life::Plain { .. } => Ok(checkpoints.wait(&Communicator::world())?),
            Life::Member(part) => {
                let ticks = part.started.recorder.ticks();
                let outcome = checkpoints.wait(&part.job);
                part.held_since(ticks);
                Ok(outcome?)
            }
            Life::Registering | Life::Leaving(..) | Life::Failed => Err(not_started().into()),
        }
    }

    /// Why the last checkpoint that was due was not written, until one is.
    pub fn checkpoint_failure(&self) -> Option<&CheckpointError> {
        self.checkpoints.as_ref()?.failure.as_ref()
    }

    #[cold]
    fn top_held(&mut self) -> Result<Option<(Step, u64)>, SessionError> {
        let Life::Member(part) = &mut self.life else {
            return Ok(Some((Step::Same, 0)));
        };
        let ticks = part.started.recorder.ticks();
        let held = hold(&mut self.registry, part, Vec::new());
        part.held_since(ticks);
        let held = held?;
        let Some(step) = self.settle(held)? else {
            return Ok(None);
        };
        let Life::Member(part) = &mut self.life else {
            return Ok(Some((step, 0)));
        };
        part.begin_iteration();
        let has_arrived = std::mem::take(&mut part.has_arrived);
        Ok(Some((if has_arrived { Step::Changed } else { step }, part.iteration)))
    }

    fn settle(&mut self, held: Held) -> Result<Option<Step>, SessionError> {
        match held {
            Held::GoesOn { has_changed: true } => Ok(Some(Step::Changed)),
            Held::GoesOn { has_changed: false } => Ok(Some(Step::Same)),
            Held::Ends(reason) => departure::end(reason),
            Held::Leaves(joint) => {
                self.life = match std::mem::replace(&mut self.life, Life::Failed) {
                    Life::Member(part) => Life::Leaving(part, joint),
                    other => other,
                };
                Ok(None)
            }
        }
    }

    /// Ends a process for which [`Session::top`] said `None`.
    pub(crate) fn leave(&mut self) -> Result<(), SessionError> {
        match std::mem::replace(&mut self.life, Life::Failed) {
            Life::Leaving(mut part, joint) => {
                departure::leave(&mut self.registry, &mut part, joint.map(|joint| *joint))
            }
            other => {
                self.life = other;
                Err(SessionError::Defect("a rank leaves that was not told to"))
            }
        }
    }

    /// The top of an iteration: to be called by every rank, once per iteration. Does not return to a rank that leaves.
    pub fn iterate(&mut self) -> Result<Step, SessionError> {
        match self.top()? {
            Some(Step::Same) => Ok(Step::Same),
            Some(Step::Changed) => {
                let mut hooks = std::mem::take(&mut self.change_hooks);
                let outcome = hooks.iter_mut().try_for_each(|hook| hook(self));
                self.change_hooks = hooks;
                outcome.map(|()| Step::Changed).map_err(SessionError::ChangeHook)
            }
            None => {
                let mut hooks = std::mem::take(&mut self.exit_hooks);
                hooks.iter_mut().for_each(|hook| hook(self));
                self.leave().map(|()| Step::Same)
            }
        }
    }

    /// Begins the session of a Rust program, which has one: `register` registers its regions. In a process that joins a
    /// running job it returns when the data is in place.
    pub fn start<R>(register: impl FnOnce(&mut Registry) -> Result<R, RegionError>) -> Result<(Self, R), SessionError> {
        present::usable()?;
        present::claim()?;
        let mut session = Self::new()?;
        let registered = register(&mut session.registry)?;
        session.begin()?;
        Ok((session, registered))
    }

    /// Two arrays to be changed, as [`Registry::both_mut`] gives them.
    ///
    /// # Panics
    /// If both are the same.
    pub fn both_mut<A: Element, B: Element>(&mut self, one: Array<A>, other: Array<B>) -> (&mut [A], &mut [B]) {
        self.registry.both_mut(one, other)
    }

    /// Lets two arrays change places, as [`Registry::swap`] does.
    pub fn swap(&mut self, one: &str, other: &str) -> Result<(), RegionError> {
        self.registry.swap(one, other)
    }

    /// Rows of different lengths, to be read or changed.
    pub fn rows_named(&mut self, name: &str) -> Result<&mut Rows, RegionError> {
        self.registry.rows_named(name)
    }

    /// Records, to be read or changed.
    pub fn records_named(&mut self, name: &str) -> Result<&mut Records, RegionError> {
        self.registry.records_named(name)
    }

    /// Writes a value, as [`Registry::value_write`] does.
    pub fn value_write(&mut self, name: &str, bytes: &[u8]) -> Result<(), RegionError> {
        self.registry.value_write(name, bytes)
    }

    /// Asks that the job have so many ranks. To be called on one rank. The change comes with a later
    /// [`Session::iterate`], or never: what cannot be done is refused. Does nothing where no daemon runs the job.
    pub fn request(&mut self, ranks: u32) -> Result<(), SessionError> {
        self.registry.check_started("pcm_request")?;
        if ranks == 0 {
            return Err(SessionError::NoRanks);
        }
        match &self.life {
            Life::Member(part) => part.request(ranks).map_err(SessionError::Channel),
            Life::Registering | Life::Plain { .. } | Life::Leaving(..) | Life::Failed => Ok(()),
        }
    }

    /// Declares how many iterations are left, beginning with the next [`Session::iterate`]. Whoever may change the
    /// ranks goes by it: a change that would not be worth it any more is not made. It may be declared anew at any time;
    /// more iterations than declared are no error. Does nothing where no daemon runs the job.
    pub fn remaining(&mut self, iterations: u64) -> Result<(), SessionError> {
        self.registry.check_started("pcm_remaining")?;
        if let Life::Member(part) = &self.life {
            part.declare_end(iterations);
        }
        Ok(())
    }

    /// Runs `hook` on every rank, in the order of registration, whenever the ranks have changed.
    pub fn on_change(&mut self, hook: impl FnMut(&mut Self) -> Result<(), HookFailed> + 'static) {
        self.change_hooks.push(Box::new(hook));
    }

    /// Runs `hook` on a rank that leaves, before it ends.
    pub fn on_exit(&mut self, hook: impl FnMut(&mut Self) + 'static) {
        self.exit_hooks.push(Box::new(hook));
    }
}
