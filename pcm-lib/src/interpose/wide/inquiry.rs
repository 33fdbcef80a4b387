//! What is found out of a communicator without waiting, where its first collective operation is a nonblocking one:
//! a rank may begin that while another only begins it after a message of the first.
#![allow(unsafe_code, reason = "calls MPI")]

use super::communicator::{Member, Wide};
use super::extensions;
use super::failed::Failed;
use super::turns::Turns;
use mpi_abi::{MPI_Comm, MPI_Request};
use std::{
    mem,
    os::raw::c_int,
    sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError},
    thread,
};

/// What was asked and will come.
#[derive(Debug)]
pub(super) struct Inquiry {
    pub(super) member: Member,
    pub(super) turns: Arc<Turns>,
    asked: Mutex<Asked>,
    found: OnceLock<Arc<Wide>>,
}

#[derive(Debug)]
struct Asked {
    own: Box<u64>,
    names: Vec<u64>,
    apart: Box<MPI_Comm>,
    requests: [MPI_Request; 2],
}

impl Asked {
    /// Whether MPI may still write to what is here.
    fn is_open(&self) -> bool {
        self.requests
            .iter()
            .any(|request| *request != mpi_abi::MPI_REQUEST_NULL())
    }
}

impl Inquiry {
    /// Asks for the sites of all ranks, and for a communicator apart.
    ///
    /// # Safety
    /// All ranks of the communicator do the same.
    pub(super) unsafe fn begin(communicator: MPI_Comm, member: Member, site: u64) -> Result<Self, Failed> {
        let mut asked = Asked {
            own: Box::new(site),
            names: vec![0; member.size as usize],
            apart: Box::new(mpi_abi::MPI_COMM_NULL()),
            requests: [mpi_abi::MPI_REQUEST_NULL(); 2],
        };
        let (count, of) = (size_of::<u64>() as c_int, mpi_abi::MPI_BYTE());
        let (own, all) = ((&raw const *asked.own).cast(), asked.names.as_mut_ptr().cast());
        let (apart, [first, second]) = (&raw mut *asked.apart, &mut asked.requests);
        // SAFETY: the caller's contract; what MPI writes to stays where it is until the requests are complete.
        unsafe {
            Failed::unless(mpi_abi::PMPI_Iallgather(
                own,
                count,
                of,
                all,
                count,
                of,
                communicator,
                first,
            ))?;
            if let Err(failed) = Failed::unless(mpi_abi::PMPI_Comm_idup(communicator, apart, second)) {
                mem::forget(asked);
                return Err(failed);
            }
        }
        Ok(Self {
            member,
            turns: Arc::default(),
            asked: Mutex::new(asked),
            found: OnceLock::new(),
        })
    }

    /// What was found, if it has come. May be called inside MPI.
    pub(super) fn found(&self) -> Result<Option<Arc<Wide>>, Failed> {
        if let Some(found) = self.found.get() {
            return Ok(Some(Arc::clone(found)));
        }
        let mut asked = match self.asked.try_lock() {
            Ok(asked) => asked,
            Err(TryLockError::Poisoned(asked)) => asked.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        for request in &mut asked.requests {
            if *request != mpi_abi::MPI_REQUEST_NULL() && !extensions::is_complete(request)? {
                return Ok(None);
            }
        }
        let wide = || {
            Arc::new(Wide::new(
                self.member.rank,
                &asked.names,
                *asked.apart,
                Arc::clone(&self.turns),
            ))
        };
        Ok(Some(Arc::clone(self.found.get_or_init(wide))))
    }

    /// Waits for it.
    pub(super) fn wait(&self) -> Result<Arc<Wide>, Failed> {
        loop {
            if let Some(found) = self.found()? {
                return Ok(found);
            }
            {
                let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
                for request in &mut asked.requests {
                    let mut flag = 0;
                    let ignored = mpi_abi::MPI_STATUS_IGNORE;
                    // SAFETY: a request of `begin`, or none; the output is a local.
                    Failed::unless(unsafe { mpi_abi::PMPI_Test(request, &mut flag, ignored) })?;
                }
            }
            thread::yield_now();
        }
    }
}

impl Drop for Inquiry {
    fn drop(&mut self) {
        let asked = self.asked.get_mut().unwrap_or_else(PoisonError::into_inner);
        if asked.is_open() {
            mem::forget((
                mem::take(&mut asked.own),
                mem::take(&mut asked.names),
                mem::replace(&mut asked.apart, Box::new(mpi_abi::MPI_COMM_NULL())),
            ));
        } else if self.found.get().is_none() && *asked.apart != mpi_abi::MPI_COMM_NULL() {
            // SAFETY: no operation ever used it.
            unsafe { mpi_abi::PMPI_Comm_free(&raw mut *asked.apart) };
        }
    }
}
