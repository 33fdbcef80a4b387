//! The order for one process of a job: its program as typed, its environment, its CPUs. The driver makes the
//! shared page, the keeper finds the program.

use super::environment::{Belonging, environment};
use crate::job::participant::{Newcomer, Participant};
use crate::mpi_settings::{Circumstances, is_polite, settings};
use pcm_proto::app::environment as names;
use pcm_proto::ids::{JobId, NodeName, ProcessId, Rank, WorldId};
use pcm_proto::job::JobSpec;
use pcm_proto::keeper::{ProcessKey, ProcessSpec};
use pcm_proto::spawn::WorldCommand;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A process to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub spec: ProcessSpec,
    /// Peers that its page has room for.
    pub peers_max: usize,
}

impl Launch {
    /// Gives the process these variables, too, where the user has given it no others.
    pub fn add(&mut self, variables: Vec<(Vec<u8>, Vec<u8>)>) {
        for (name, value) in variables {
            if !self.spec.env.iter().any(|(known, _)| *known == name) {
                self.spec.env.push((name, value));
            }
        }
    }
}

/// What is the same for all processes that this node starts.
#[derive(Debug)]
pub struct Launcher {
    cluster_id: String,
    cluster_dir: PathBuf,
    node: NodeName,
    site: String,
    cpus: Vec<u32>,
    libraries: InFront,
}

/// The libraries in front of MPI, for programs that are not linked with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFront {
    /// For programs of the ABI that MPICH and its relatives have.
    pub mpich: Option<PathBuf>,
    /// For those of the standard ABI.
    pub standard: Option<PathBuf>,
    /// For those of Open MPI.
    pub open_mpi: Option<PathBuf>,
}

impl InFront {
    fn of(&self, spec: &JobSpec) -> Option<&Path> {
        let library = match user(spec, names::MPI_ABI).as_deref() {
            Some(names::MPI_ABI_STANDARD) => &self.standard,
            Some(names::MPI_ABI_OPEN_MPI) => &self.open_mpi,
            _ => &self.mpich,
        };
        library.as_deref()
    }
}

impl Launcher {
    pub fn new(
        (cluster_id, cluster_dir): (String, PathBuf),
        (node, site): (NodeName, String),
        cpus: Vec<u32>,
        libraries: InFront,
    ) -> Self {
        Self {
            cluster_id,
            cluster_dir,
            node,
            site,
            cpus,
            libraries,
        }
    }

    /// The order for a process that may become one of a job that has one program. Which one, nothing in its environment
    /// says yet.
    pub fn standby(&self, job: JobId, spec: &JobSpec, host: u64) -> ProcessSpec {
        let process = ProcessId(u32::MAX);
        let key = ProcessKey { job, process };
        let mut env = self.environment(spec, false, &self.alone(key, host), Vec::new());
        env.retain(|(name, _)| !says_which_process(name));
        env.push((names::STANDBY.into(), b"1".to_vec()));
        ProcessSpec {
            key,
            program: PathBuf::from(OsStr::from_bytes(&spec.program)),
            search_path: search_path(spec).unwrap_or_default().to_vec(),
            args: spec.args.clone(),
            env,
            cwd: spec.cwd.clone(),
            cpus: self.cpus(spec),
            stdin: false,
            segments: Vec::new(),
        }
    }

    /// Where a process belongs that is alone in its world.
    fn alone(&self, key: ProcessKey, host: u64) -> Belonging<'_> {
        Belonging {
            cluster_id: &self.cluster_id,
            cluster_dir: &self.cluster_dir,
            node: &self.node,
            site: &self.site,
            host,
            key,
            world: WorldId(0),
            world_rank: 0,
            world_size: 1,
            is_spawned: false,
            worlds: 1,
        }
    }

    fn cpus(&self, spec: &JobSpec) -> Vec<u32> {
        if spec.bind { self.cpus.clone() } else { Vec::new() }
    }

    fn environment(
        &self,
        spec: &JobSpec,
        is_crowded: bool,
        belonging: &Belonging<'_>,
        extra: Vec<(String, String)>,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let circumstances = Circumstances {
            is_oversubscribed: is_crowded,
            is_polite: is_polite(spec),
            interface: None,
        };
        let settings = settings(circumstances, &spec.env, &spec.mpi_settings);
        let library = self.libraries.of(spec).filter(|_| spec.preload);
        let mut all = library.map_or_else(Vec::new, |library| preload_variables(library, spec));
        all.extend(extra);
        environment(&spec.env, &settings, belonging, &all)
    }

    /// The order for a process of a job, on the host of this number; `None` for a process that was not ordered.
    pub fn launch(&self, key: ProcessKey, part: &Participant, host: u64) -> Option<Launch> {
        let local = part.processes().get(&key.process)?;
        let world = part.world(local.world)?;
        let spec = part.spec();
        let command = world.command(local.world_rank);
        let typed = command.map_or(&spec.program, |command| &command.program);
        let args = command.map_or(&spec.args, |command| &command.args);
        let cwd = command
            .and_then(|command| command.cwd.clone())
            .map_or_else(|| spec.cwd.clone(), |cwd| spec.cwd.join(cwd));
        let belonging = Belonging {
            world: local.world,
            world_rank: local.world_rank,
            world_size: world.size(),
            is_spawned: world.start().spawned,
            worlds: local.worlds,
            ..self.alone(key, host)
        };
        let mut extra: Vec<(String, String)> = local.newcomer.iter().flat_map(role_variables).collect();
        if !spec.registered.values.is_empty() {
            extra.push((names::VALUES.to_owned(), spec.registered.values.clone()));
        }
        if part.restarts() > 0 {
            extra.push((names::RESTARTS.to_owned(), part.restarts().to_string()));
            extra.push((names::LIFE.to_owned(), part.life().to_string()));
        }
        let is_first = local.newcomer.is_none() && !world.start().spawned;
        if let Some(restores) = part.restores().filter(|_| is_first) {
            extra.extend(role_variables(&Newcomer {
                epoch: restores.stamp.epoch,
                rank: Rank(local.world_rank),
                size: world.size(),
                is_restored: true,
            }));
        }
        let first = command.and_then(|command| command.search_path.as_deref());
        let search_path: Vec<&[u8]> = first.into_iter().chain(search_path(spec)).collect();
        Some(Launch {
            peers_max: spec.max.max(1) as usize,
            spec: ProcessSpec {
                key,
                program: PathBuf::from(OsStr::from_bytes(typed)),
                search_path: search_path.join(&b':'),
                args: args.clone(),
                env: with_own(self.environment(spec, part.is_crowded(), &belonging, extra), command),
                cwd,
                cpus: self.cpus(spec),
                stdin: key.process == ProcessId(0) && !spec.detached,
                segments: vec![world.segment_prefix()],
            },
        })
    }
}

/// The environment with what a command has of its own.
fn with_own(mut env: Vec<(Vec<u8>, Vec<u8>)>, command: Option<&WorldCommand>) -> Vec<(Vec<u8>, Vec<u8>)> {
    for (name, value) in command.iter().flat_map(|command| &command.environment) {
        env.retain(|(known, _)| known != name);
        env.push((name.clone(), value.clone()));
    }
    env
}

fn search_path(spec: &JobSpec) -> Option<&[u8]> {
    let path = spec.env.iter().find(|(name, _)| name == b"PATH");
    path.map(|(_, value)| value.as_slice())
}

/// Whether a variable is another one in each process of a job.
fn says_which_process(name: &[u8]) -> bool {
    name.starts_with(b"PMI_") || [names::PROCESS, names::WORLD].iter().any(|own| own.as_bytes() == name)
}

/// What a process that a reconfiguration started is told of the layout it is planned for.
fn role_variables(newcomer: &Newcomer) -> Vec<(String, String)> {
    let role = if newcomer.is_restored {
        names::RESTORED
    } else {
        names::NEWCOMER
    };
    vec![
        (names::ROLE.to_owned(), role.to_owned()),
        (names::EPOCH.to_owned(), newcomer.epoch.to_string()),
        (names::RANK.to_owned(), newcomer.rank.to_string()),
        (names::SIZE.to_owned(), newcomer.size.to_string()),
    ]
}

/// Libpcm, and after it the MPI that the user chose. `LD_PRELOAD` is cut at blanks and colons, so a library whose path
/// has one is found through `LD_LIBRARY_PATH` instead.
fn preload_variables(libpcm: &Path, spec: &JobSpec) -> Vec<(String, String)> {
    let (mut libraries, mut folders) = (Vec::new(), Vec::new());
    let chosen = user(spec, names::MPI_LIBRARY).map(PathBuf::from);
    for library in [Some(libpcm), chosen.as_deref()].into_iter().flatten() {
        let text = |part: &OsStr| part.to_string_lossy().into_owned();
        if library.to_string_lossy().contains([' ', ':']) {
            libraries.push(text(library.file_name().unwrap_or_default()));
            folders.push(text(library.parent().unwrap_or(library).as_os_str()));
        } else {
            libraries.push(text(library.as_os_str()));
        }
    }
    let joined = |name: &str, mut first: Vec<String>| {
        first.extend(user(spec, name));
        (name.to_owned(), first.join(":"))
    };
    let mut variables = vec![joined("LD_PRELOAD", libraries)];
    if !folders.is_empty() {
        variables.push(joined("LD_LIBRARY_PATH", folders));
    }
    variables
}

/// A variable that the user's environment has, and that is not empty.
fn user(spec: &JobSpec, name: &str) -> Option<String> {
    let entry = spec.env.iter().find(|(known, _)| known == name.as_bytes());
    entry
        .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        .filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(libpcm: &str, env: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut spec = crate::node::layout_request::tests::spec();
        let bytes = |text: &str| text.as_bytes().to_vec();
        spec.env = env.iter().map(|(name, value)| (bytes(name), bytes(value))).collect();
        preload_variables(Path::new(libpcm), &spec)
    }

    fn own(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn the_chosen_mpi_comes_after_libpcm_and_before_what_the_user_preloads() {
        let env = [("LD_PRELOAD", "/u.so"), ("PCM_MPI_LIBRARY", "/m/libmpi.so.12")];
        assert_eq!(
            variables("/p/libpcm.so", &env),
            [own("LD_PRELOAD", "/p/libpcm.so:/m/libmpi.so.12:/u.so")]
        );
        assert_eq!(variables("/p/libpcm.so", &[]), [own("LD_PRELOAD", "/p/libpcm.so")]);
    }

    #[test]
    fn a_program_of_another_abi_gets_the_library_for_it() {
        let libraries = InFront {
            mpich: Some("/p/libpcm.so".into()),
            standard: Some("/p/libpcm_abi.so".into()),
            open_mpi: Some("/p/libpcm_openmpi.so".into()),
        };
        let mut spec = crate::node::layout_request::tests::spec();
        for (abi, expected) in [
            (None, "/p/libpcm.so"),
            (Some("mpich"), "/p/libpcm.so"),
            (Some("standard"), "/p/libpcm_abi.so"),
            (Some("openmpi"), "/p/libpcm_openmpi.so"),
        ] {
            spec.env = abi
                .map(|abi| (b"PCM_MPI_ABI".to_vec(), abi.into()))
                .into_iter()
                .collect();
            assert_eq!(libraries.of(&spec), Some(Path::new(expected)));
        }
        assert_eq!(InFront::default().of(&spec), None);
    }

    #[test]
    fn a_standby_does_not_hear_which_process_it_will_be() {
        let node = NodeName::new("n1").unwrap();
        let launcher = Launcher::new(
            ("c".to_owned(), "/c".into()),
            (node, "here".to_owned()),
            vec![2, 3],
            InFront::default(),
        );
        let mut spec = crate::node::layout_request::tests::spec();
        spec.env = vec![
            (b"PMI_RANK".to_vec(), b"4".to_vec()),
            (b"HOME".to_vec(), b"/h".to_vec()),
        ];
        let standby = launcher.standby(JobId(5), &spec, 9);
        let value = |name: &str| {
            let found = standby.env.iter().find(|(known, _)| known == name.as_bytes());
            found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        };
        assert_eq!(value("HOME").as_deref(), Some("/h"));
        assert_eq!(
            value(names::JOB).as_deref(),
            Some("5"),
            "it is found when the job's processes are swept"
        );
        assert_eq!(value(names::STANDBY).as_deref(), Some("1"));
        for name in ["PMI_RANK", "PMI_SIZE", names::PROCESS, names::WORLD, names::ROLE] {
            assert_eq!(value(name), None, "{name}");
        }
        assert_eq!((standby.key.job, standby.stdin), (JobId(5), false));
    }

    #[test]
    fn a_path_that_would_be_cut_is_a_folder_to_search() {
        let env = [("LD_LIBRARY_PATH", "/l"), ("PCM_MPI_LIBRARY", "/m:n/libmpi.so.12")];
        assert_eq!(
            variables("/p q/libpcm.so", &env),
            [
                own("LD_PRELOAD", "libpcm.so:libmpi.so.12"),
                own("LD_LIBRARY_PATH", "/p q:/m:n:/l")
            ]
        );
    }
}
