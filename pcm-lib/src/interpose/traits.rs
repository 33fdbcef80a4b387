//! In what the MPIs of one ABI differ: one row each, chosen once by what the MPI says of itself, before it starts.
//! Variables that an MPI reads are the daemon's business (`pcm-core`, `mpi_settings`).
#![allow(
    unsafe_code,
    reason = "calls MPI and the loader, changes the environment, borrows a descriptor"
)]

use mpi_abi::Family;
use pcm_proto::app::environment::{self, MPI_NAME_KEY};
use rustix::{fd::BorrowedFd, io};
use std::{
    env,
    ffi::{CStr, CString, OsStr, c_int},
    os::{fd::RawFd, unix::ffi::OsStrExt as _},
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// How a process ends MPI whose world does not end with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finalize {
    /// `MPI_Finalize` of one process waits for no other.
    Alone,
    /// `MPI_Finalize` waits for all processes of the world in which this one started, also for those that are gone.
    /// After a change the process manager alone is told.
    WithStartWorld,
}

/// What is special about an MPI.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Traits {
    /// What its version begins with.
    version: &'static str,
    pub(super) finalize: Finalize,
    /// `MPI_Session_init` waits for the other processes of the world, as `MPI_Init` does.
    session_meets: bool,
    /// Libraries in its folder that it asks for by name, where the loader looks into other folders.
    neighbours: &'static [&'static str],
}

const INTEL: Traits = Traits {
    version: "Intel(R) MPI Library",
    finalize: Finalize::WithStartWorld,
    session_meets: true,
    // The second is known for its number of a process when MPI starts (`process_id`).
    neighbours: &["libfabric.so.1", "libtcp-fi.so"],
};

/// A rank finalizes alone by a variable that the daemon sets.
const OPEN_MPI: Traits = Traits {
    version: "Open MPI",
    finalize: Finalize::Alone,
    session_meets: true,
    neighbours: &[],
};

/// Releases whose library has the name of that of Open MPI 5, and less in it.
const OLD_OPEN_MPI: [&str; 2] = ["Open MPI v3.", "Open MPI v4."];

/// MPICH, and any relative of which nothing else is known.
const MPICH: Traits = Traits {
    version: "",
    finalize: Finalize::Alone,
    session_meets: false,
    neighbours: &[],
};

const ALL: [&Traits; 3] = [&INTEL, &OPEN_MPI, &MPICH];

/// Where libfabric looks for providers that are libraries of their own.
const PROVIDERS: &str = "FI_PROVIDER_PATH";

/// The traits of the MPI in this process. To be asked for once it is known that there is one.
pub(super) fn traits() -> &'static Traits {
    static TRAITS: OnceLock<&Traits> = OnceLock::new();
    TRAITS.get_or_init(|| of(&version()))
}

fn of(version: &str) -> &'static Traits {
    let row = ALL.into_iter().find(|row| version.starts_with(row.version));
    row.unwrap_or(&MPICH)
}

/// Why the MPI in this process cannot be used although it has the right ABI, if it cannot.
pub(super) fn refusal() -> Option<&'static str> {
    refusal_of(&version(), mpi_abi::FAMILY)
}

fn refusal_of(version: &str, family: Family) -> Option<&'static str> {
    let is_old = OLD_OPEN_MPI.iter().any(|old| version.starts_with(old));
    (family == Family::OpenMpi && is_old).then_some(
        "libpcm needs Open MPI 5, and this is an older one: have the program load libmpi.so.40 of Open MPI 5, which \
         runs the same programs, or run it without libpcm",
    )
}

/// Allowed before MPI is initialised.
fn version() -> String {
    let mut text = vec![0_u8; mpi_abi::MPI_MAX_LIBRARY_VERSION_STRING];
    let mut length: c_int = 0;
    // SAFETY: the room is as large as MPI may need.
    let code = unsafe { mpi_abi::PMPI_Get_library_version(text.as_mut_ptr().cast(), &mut length) };
    match CStr::from_bytes_until_nul(&text) {
        Ok(text) if code == 0 => text.to_string_lossy().into_owned(),
        _ => String::new(),
    }
}

impl Traits {
    /// Loads what this MPI would not find. What the user's environment leads to counts first. To be called before MPI
    /// starts, in the thread that starts it.
    fn load_neighbours(&self) {
        let folder = mpi_abi::library().and_then(|library| Path::new(library).parent());
        let Some(folder) = folder.filter(|_| !self.neighbours.is_empty()) else {
            return;
        };
        for name in self.neighbours {
            if !is_loaded(OsStr::new(name)) {
                // Where it is not there either, MPI says what is missing.
                is_loaded(folder.join(name).as_os_str());
            }
        }
        if env::var_os(PROVIDERS).is_none() {
            // SAFETY: MPI is about to start: a program that has other threads by now, which read the environment
            // without a lock, would meet the same in MPI itself, which sets variables, too.
            unsafe { env::set_var(PROVIDERS, folder) };
        }
    }
}

fn is_loaded(name: &OsStr) -> bool {
    let Ok(name) = CString::new(name.as_bytes()) else {
        return false;
    };
    // SAFETY: a name that ends with a zero byte. The libraries are those that MPI loads itself.
    unsafe { !libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_GLOBAL).is_null() }
}

/// Says to the process manager that this process is done with MPI, and waits for its answer. One that is gone sees the
/// end of the process instead.
pub(super) fn tell_process_manager() {
    ask_process_manager(b"cmd=finalize\n");
}

/// To be called before `MPI_Init`.
pub(super) fn before_init() {
    name_mpi();
    traits().load_neighbours();
}

/// To be called before `MPI_Session_init`. Where that waits for no other process, only `MPI_Init` may wait for all.
pub(super) fn before_session() {
    if mpi_abi::usable().is_err() {
        return;
    }
    if traits().session_meets {
        name_mpi();
    }
    traits().load_neighbours();
}

/// Says to the daemon which MPI this process has: the ranks of a world must have the same, and with different ones each
/// waits for the others in `MPI_Init`. It returns when all ranks of all nodes have said it. Each says it once, so that
/// all come to as many barriers whichever function they start MPI with.
fn name_mpi() {
    static IS_NAMED: AtomicBool = AtomicBool::new(false);
    if IS_NAMED.swap(true, Relaxed) {
        return;
    }
    let rank = env::var("PMI_RANK").ok();
    let Some(rank) = rank.filter(|_| env::var_os(environment::CHANNEL_FD).is_some()) else {
        return;
    };
    let name = mpi_name();
    let line = format!("cmd=put kvsname=pcm key={MPI_NAME_KEY}{rank} value={name}\n");
    ask_process_manager(line.as_bytes());
    ask_process_manager(b"cmd=barrier_in\n");
}

/// The MPI in this process and its version, for people and to compare.
pub(crate) fn mpi_name() -> String {
    name_in(&version())
}

/// Open MPI goes on after a comma, with the machine on which it was built.
fn name_in(version: &str) -> String {
    let name = version.split(['\n', ',']).next().unwrap_or_default();
    let words: Vec<&str> = name.split_whitespace().collect();
    words.join(" ")
}

fn ask_process_manager(line: &[u8]) {
    let socket = env::var("PMI_FD").ok().and_then(|number| number.parse::<RawFd>().ok());
    let Some(socket) = socket.filter(|number| *number >= 0) else {
        return;
    };
    // SAFETY: the daemon's socket, which MPI opens by itself later and leaves open until it ends.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    let mut left = line;
    while let Ok(written) = io::write(socket, left) {
        left = left.get(written..).unwrap_or_default();
        if left.is_empty() {
            break;
        }
    }
    let mut answer = [0_u8; 64];
    while let Ok(count) = io::read(socket, &mut answer) {
        if count == 0 || answer[..count].ends_with(b"\n") {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mpi_is_known_by_its_version() {
        assert_eq!(of("Intel(R) MPI Library 2021.18 for Linux* OS\n"), &INTEL);
        assert_eq!(of("MPICH Version:      5.0.2\nMPICH Release date: ..."), &MPICH);
        assert_eq!(of("MVAPICH Version: 4.0"), &MPICH);
        assert_eq!(
            of("Open MPI v5.0.11, package: Open MPI user@machine Distribution"),
            &OPEN_MPI
        );
    }

    #[test]
    fn the_name_of_an_mpi_is_its_kind_and_version() {
        assert_eq!(
            name_in("MPICH Version:      5.0.2\nMPICH Release date: ..."),
            "MPICH Version: 5.0.2"
        );
        assert_eq!(
            name_in("Open MPI v5.0.11, package: Open MPI user@machine"),
            "Open MPI v5.0.11"
        );
    }

    #[test]
    fn an_open_mpi_that_lacks_what_release_5_has_is_refused() {
        for (version, is_refused) in [
            ("v3.1.6", true),
            ("v4.1.8", true),
            ("v5.0.11", false),
            ("v6.0.0", false),
        ] {
            let said = refusal_of(&format!("Open MPI {version}, package: P"), Family::OpenMpi);
            assert_eq!(said.is_some(), is_refused, "{version}");
        }
        let intel = "Intel(R) MPI Library 2021.18 for Linux* OS\n";
        assert_eq!(refusal_of(intel, Family::Standard), None);
    }
}
