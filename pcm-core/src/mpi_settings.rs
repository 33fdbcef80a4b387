//! Which variables of the MPI library are set for a job, and why. The user's word is stronger than ours: a variable in
//! the environment of `run` stays as it is, and one named on the command line beats both.

use pcm_proto::app::environment::{MPI_ABI, MPI_ABI_OPEN_MPI, WAIT};
use pcm_proto::job::JobSpec;
use pcm_proto::waiting::Waiting;
use serde::{Deserialize, Serialize};

/// Who decided a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Default,
    /// The environment in which `run` was typed.
    Environment,
    /// An option of `run`.
    Option,
}

/// One variable of the MPI library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    pub name: String,
    /// Its value; `None` leaves it unset.
    pub value: Option<String>,
    pub source: Source,
    /// Why we set it; empty where only the user did.
    pub why: String,
}

/// Whether ranks of this job leave their CPU to others while they wait.
#[must_use]
pub fn is_polite(spec: &JobSpec) -> bool {
    let mut told = spec.env.iter().rev().filter(|(name, _)| name == WAIT.as_bytes());
    let word = told.next().and_then(|(_, word)| str::from_utf8(word).ok());
    word.and_then(|word| word.parse().ok()).is_some_and(Waiting::is_polite)
}

/// Whether the ranks of this job call Open MPI.
#[must_use]
pub fn is_of_open_mpi(spec: &JobSpec) -> bool {
    let abi = spec.env.iter().find(|(name, _)| name == MPI_ABI.as_bytes());
    abi.is_some_and(|(_, abi)| abi == MPI_ABI_OPEN_MPI.as_bytes())
}

/// What the defaults depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Circumstances<'a> {
    /// Whether on some node of the job ranks outnumber CPUs.
    pub is_oversubscribed: bool,
    /// Whether ranks that wait are to leave their CPU to others.
    pub is_polite: bool,
    /// The network interface that bears the node's address, when the machine has several.
    pub interface: Option<&'a str>,
}

const NETMOD: &str = "MPIR_CVAR_CH4_NETMOD";
/// Names libfabric's provider.
pub const PROVIDER: &str = "FI_PROVIDER";
/// The provider whose ranks share memory with ranks of other worlds.
pub const SHARED_MEMORY_PROVIDER: &str = "shm";

struct Given {
    name: &'static str,
    value: &'static str,
    why: &'static str,
}

/// Each MPI reads those of its own name: the others do no harm.
const ALWAYS: [Given; 9] = [
    Given {
        name: "MPIR_CVAR_NO_COLLECTIVE_FINALIZE",
        value: "1",
        why: "MPICH: a rank that leaves can finalize alone, while the others of its world go on",
    },
    Given {
        name: "I_MPI_FABRICS",
        value: "shm:ofi",
        why: "Intel MPI: ranks of other worlds are reached over the network",
    },
    Given {
        name: "I_MPI_THREAD_YIELD",
        value: "2",
        why: "Intel MPI: ranks that wait yield their CPU to others",
    },
    Given {
        name: "I_MPI_SPIN_COUNT",
        value: "1",
        why: "Intel MPI: they yield at every turn, as where it knows that ranks share CPUs",
    },
    Given {
        name: "I_MPI_SHM_SPIN_RATIO",
        value: "4",
        why: "Intel MPI: ranks started on one host look at the network at every fourth turn, not every ten thousandth",
    },
    Given {
        name: "OMPI_MCA_async_mpi_finalize",
        value: "1",
        why: "Open MPI: a rank that leaves can finalize alone, while the others of its world go on",
    },
    Given {
        name: "OMPI_MCA_mpi_yield_when_idle",
        value: "1",
        why: "Open MPI: ranks that wait leave their CPU to others",
    },
    Given {
        name: "OMPI_MCA_pml",
        value: "ob1",
        why: "Open MPI: messages go over its own transports; UCX takes a second of each start",
    },
    Given {
        name: "OMPI_MCA_btl",
        value: "self,sm,tcp",
        why: "Open MPI: the transports that were tried under these daemons",
    },
];

const WITH_OFI: [Given; 2] = [
    Given {
        name: PROVIDER,
        value: "tcp",
        why: "the provider that joins worlds reliably on every network",
    },
    Given {
        name: "UCX_MEM_MMAP_HOOK_MODE",
        value: "none",
        why: "UCX is loaded beside OFI and not used; setting up its memory hooks costs 40 ms of every start",
    },
];

const RMA: &str = "MPIR_CVAR_CH4_OFI_ENABLE_RMA";

/// For a provider that emulates operations on the memory of others.
const OVER_TCP: Given = Given {
    name: RMA,
    value: "0",
    why: "after ranks have left, fences over libfabric's tcp lost puts or did not return",
};

const OVER_SHARED_MEMORY: Given = Given {
    name: RMA,
    value: "0",
    why: "MPI confirms messages itself; what libfabric's shm does with a window after ranks have left is not tested",
};

const WITH_UCX: [Given; 1] = [Given {
    name: "UCX_UNIFIED_MODE",
    value: "y",
    why: "keeps port names short enough for MPI_Open_port",
}];

const SHARED_MEMORY: &str = "MPIR_CVAR_COLL_SHM_LIMIT_PER_NODE";

const OVERSUBSCRIBED: [Given; 1] = [Given {
    name: SHARED_MEMORY,
    value: "0",
    why: "ranks outnumber CPUs: collectives that spin in shared memory take milliseconds there",
}];

const POLITE: [Given; 1] = [Given {
    name: SHARED_MEMORY,
    value: "0",
    why: "collectives that spin in shared memory never leave their CPU to others",
}];

/// The settings of a job. `environment` is the user's, `options` are `NAME=VALUE` of the command line; an empty value
/// there leaves the variable unset.
pub fn settings(
    circumstances: Circumstances<'_>,
    environment: &[(Vec<u8>, Vec<u8>)],
    options: &[(String, String)],
) -> Vec<Setting> {
    let mut decided = Vec::new();
    let mut decide = |name: &str, value: &str, why: &str| {
        let setting = one(name, Some(value), why, environment, options);
        let value = setting.value.clone();
        decided.push(setting);
        value
    };
    let netmod = decide(
        NETMOD,
        "ofi",
        "MPI_ANY_SOURCE across worlds can hang with UCX, not with OFI",
    );
    let for_netmod = match netmod.as_deref() {
        Some("ofi") => &WITH_OFI[..],
        Some("ucx") => &WITH_UCX[..],
        _ => &[],
    };
    let collectives = match circumstances {
        Circumstances {
            is_oversubscribed: true,
            ..
        } => &OVERSUBSCRIBED[..],
        Circumstances { is_polite: true, .. } => &POLITE[..],
        _ => &[],
    };
    let mut provider = None;
    for Given { name, value, why } in ALWAYS.iter().chain(for_netmod).chain(collectives) {
        let decided = decide(name, value, why);
        if *name == PROVIDER {
            provider = decided;
        }
    }
    let for_windows = match provider.as_deref() {
        Some("tcp") => Some(OVER_TCP),
        Some(SHARED_MEMORY_PROVIDER) => Some(OVER_SHARED_MEMORY),
        _ => None,
    };
    if let Some(Given { name, value, why }) = for_windows {
        decide(name, value, why);
    }
    if let (Some("ofi"), Some(interface)) = (netmod.as_deref(), circumstances.interface) {
        decide(
            "FI_TCP_IFACE",
            interface,
            "the machine has several networks; this one bears the node's address",
        );
    }
    for (name, _) in options {
        if !decided.iter().any(|setting| setting.name == *name) {
            decided.push(one(name, None, "", environment, options));
        }
    }
    decided
}

fn one(
    name: &str,
    default: Option<&str>,
    why: &str,
    environment: &[(Vec<u8>, Vec<u8>)],
    options: &[(String, String)],
) -> Setting {
    let option = options.iter().rev().find(|(option, _)| option == name);
    let inherited = environment
        .iter()
        .rev()
        .find(|(variable, _)| variable == name.as_bytes());
    let (value, source) = match (option, inherited) {
        (Some((_, value)), _) => ((!value.is_empty()).then(|| value.clone()), Source::Option),
        (None, Some((_, value))) => (Some(String::from_utf8_lossy(value).into_owned()), Source::Environment),
        (None, None) => (default.map(str::to_owned), Source::Default),
    };
    Setting {
        name: name.to_owned(),
        value,
        source,
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'a>(settings: &'a [Setting], name: &str) -> Option<(Option<&'a str>, Source)> {
        let setting = settings.iter().find(|setting| setting.name == name)?;
        Some((setting.value.as_deref(), setting.source))
    }

    #[test]
    fn the_command_line_beats_the_environment_and_the_environment_beats_us() {
        let environment = [
            (b"FI_PROVIDER".to_vec(), b"verbs".to_vec()),
            (NETMOD.into(), b"ofi".to_vec()),
        ];
        let options = [("FI_PROVIDER".to_owned(), "sockets".to_owned())];
        let settings = settings(Circumstances::default(), &environment, &options);
        assert_eq!(value(&settings, "FI_PROVIDER"), Some((Some("sockets"), Source::Option)));
        assert_eq!(value(&settings, NETMOD), Some((Some("ofi"), Source::Environment)));
        assert_eq!(
            value(&settings, "MPIR_CVAR_NO_COLLECTIVE_FINALIZE"),
            Some((Some("1"), Source::Default))
        );
    }

    #[test]
    fn an_empty_option_leaves_a_variable_unset() {
        let options = [("MPIR_CVAR_NO_COLLECTIVE_FINALIZE".to_owned(), String::new())];
        let settings = settings(Circumstances::default(), &[], &options);
        assert_eq!(
            value(&settings, "MPIR_CVAR_NO_COLLECTIVE_FINALIZE"),
            Some((None, Source::Option))
        );
    }

    #[test]
    fn each_netmod_gets_only_its_own_settings() {
        let options = [(NETMOD.to_owned(), "ucx".to_owned())];
        let circumstances = Circumstances {
            is_oversubscribed: true,
            interface: Some("eth0"),
            ..Circumstances::default()
        };
        let settings = settings(circumstances, &[], &options);
        assert_eq!(value(&settings, "FI_PROVIDER"), None);
        assert_eq!(value(&settings, "FI_TCP_IFACE"), None);
        assert_eq!(value(&settings, "UCX_UNIFIED_MODE"), Some((Some("y"), Source::Default)));
        assert_eq!(
            value(&settings, "MPIR_CVAR_COLL_SHM_LIMIT_PER_NODE"),
            Some((Some("0"), Source::Default))
        );
    }

    #[test]
    fn operations_on_the_memory_of_others_are_messages_over_tcp_and_shared_memory_and_only_there() {
        let of = |provider: &str| {
            let options = [(PROVIDER.to_owned(), provider.to_owned())];
            value(&settings(Circumstances::default(), &[], &options), RMA).is_some()
        };
        assert_eq!([of("tcp"), of("shm"), of("verbs"), of("")], [true, true, false, false]);
        let default = settings(Circumstances::default(), &[], &[]);
        assert_eq!(value(&default, RMA), Some((Some("0"), Source::Default)));
    }

    #[test]
    fn polite_ranks_make_their_collectives_of_messages() {
        let circumstances = Circumstances {
            is_polite: true,
            ..Circumstances::default()
        };
        let polite = settings(circumstances, &[], &[]);
        assert_eq!(value(&polite, SHARED_MEMORY), Some((Some("0"), Source::Default)));
        let others = settings(Circumstances::default(), &[], &[]);
        assert_eq!(value(&others, SHARED_MEMORY), None);
    }

    #[test]
    fn an_option_we_know_nothing_of_is_passed_on() {
        let options = [("MPIR_CVAR_DEBUG_HOLD".to_owned(), "1".to_owned())];
        let settings = settings(Circumstances::default(), &[], &options);
        assert_eq!(
            value(&settings, "MPIR_CVAR_DEBUG_HOLD"),
            Some((Some("1"), Source::Option))
        );
    }
}
