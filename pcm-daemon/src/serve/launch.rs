//! Starts one process of a job: finds its program, makes its environment and its shared page, and orders the keeper.

use super::daemon::Daemon;
use crate::rank::PageFile;
use crate::rank::environment::{Belonging, environment};
use crate::rank::program::{ProgramError, program_find};
use pcm_core::job::participant::{Input, Newcomer};
use pcm_core::mpi_settings::{Circumstances, settings};
use pcm_proto::app::environment as names;
use pcm_proto::ids::{JobId, ProcessId, Rank};
use pcm_proto::job::JobSpec;
use pcm_proto::keeper::{ProcessKey, ProcessSpec};
use pcm_proto::refusal;
use pcm_proto::waiting::Waiting;
use std::path::{Path, PathBuf};

/// Why a process is not started: a code of [`refusal`] and a text.
type Refused = (&'static str, String);

impl Daemon {
    pub(super) fn launch(&mut self, job: JobId, process: ProcessId) {
        let prepared = self.prepare(job, process).and_then(|spec| {
            let peers = self.parts.get(&job).map_or(1, |part| part.state.spec().max.max(1));
            let page = PageFile::new(peers as usize).map_err(|error| (refusal::START_FAILED, error.to_string()))?;
            Ok((spec, page))
        });
        match prepared {
            Ok((spec, page)) => self.keeper.start_process(spec, page),
            Err((code, reason)) if self.is_newcomer(job, process) => {
                let refused = Input::Refused {
                    process,
                    code: code.to_owned(),
                    reason: reason.clone(),
                };
                self.participate(job, refused);
                self.reform_start_failed(job, process, reason);
            }
            Err((code, reason)) => self.participate(
                job,
                Input::Refused {
                    process,
                    code: code.to_owned(),
                    reason,
                },
            ),
        }
    }

    fn is_newcomer(&self, job: JobId, process: ProcessId) -> bool {
        let local = self
            .parts
            .get(&job)
            .and_then(|part| part.state.processes().get(&process));
        local.is_some_and(|local| local.newcomer.is_some())
    }

    fn prepare(&self, job: JobId, process: ProcessId) -> Result<ProcessSpec, Refused> {
        let unknown = || {
            (
                refusal::START_FAILED,
                format!("process {process} of job {job} was not ordered"),
            )
        };
        let part = self.parts.get(&job).ok_or_else(unknown)?;
        let local = part.state.processes().get(&process).ok_or_else(unknown)?;
        let world = part.state.world(local.world).ok_or_else(unknown)?;
        let spec = part.state.spec();
        let command = world.command(local.world_rank);
        let typed = command.map_or(&spec.program, |command| &command.program);
        let args = command.map_or(&spec.args, |command| &command.args);
        let cwd = command
            .and_then(|command| command.cwd.clone())
            .map_or_else(|| spec.cwd.clone(), |cwd| spec.cwd.join(cwd));
        let search_path = spec
            .env
            .iter()
            .find(|(name, _)| name == b"PATH")
            .map_or(&b""[..], |(_, value)| value);
        let program = program_find(typed, &cwd, search_path).map_err(refused)?;
        let circumstances = Circumstances {
            is_oversubscribed: part.state.is_crowded(),
            is_polite: is_polite(spec),
            interface: None,
        };
        let settings = settings(circumstances, &spec.env, &spec.mpi_settings);
        let belonging = Belonging {
            cluster_id: &self.spec.cluster_id,
            cluster_dir: &self.spec.cluster_dir,
            node: &self.own,
            host: self.nodes.own().host,
            key: ProcessKey { job, process },
            world: local.world,
            world_rank: local.world_rank,
            world_size: world.size(),
            is_spawned: world.start().spawned,
            worlds: local.worlds,
        };
        let mut extra = if spec.preload { preload(spec) } else { Vec::new() };
        extra.extend(local.newcomer.iter().flat_map(role_variables));
        if part.state.restarts() > 0 {
            extra.push((names::RESTARTS.to_owned(), part.state.restarts().to_string()));
        }
        let is_first = local.newcomer.is_none() && !world.start().spawned;
        if let Some(restores) = part.state.restores().filter(|_| is_first) {
            extra.extend(role_variables(&Newcomer {
                epoch: restores.stamp.epoch,
                rank: Rank(local.world_rank),
                size: world.size(),
                is_restored: true,
            }));
        }
        Ok(ProcessSpec {
            key: ProcessKey { job, process },
            program,
            args: args.clone(),
            env: environment(&spec.env, &settings, &belonging, &extra),
            cwd,
            cpus: if spec.bind { self.cpus.clone() } else { Vec::new() },
            stdin: process == ProcessId(0) && !spec.detached,
            segments: vec![world.segment_prefix()],
        })
    }
}

/// Whether ranks of this job leave their CPU to others while they wait.
fn is_polite(spec: &JobSpec) -> bool {
    let mut told = spec.env.iter().rev().filter(|(name, _)| name == names::WAIT.as_bytes());
    let word = told.next().and_then(|(_, word)| str::from_utf8(word).ok());
    word.and_then(|word| word.parse().ok()).is_some_and(Waiting::is_polite)
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

fn refused(error: ProgramError) -> Refused {
    let code = match &error {
        ProgramError::NotFound { .. } => refusal::UNKNOWN_PROGRAM,
        ProgramError::NotExecutable { .. } | ProgramError::NotFile { .. } | ProgramError::NotProgram { .. } => {
            refusal::NOT_EXECUTABLE
        }
        ProgramError::Directory { .. } => refusal::BAD_DIRECTORY,
    };
    (code, error.to_string())
}

/// The library in front of MPI, for programs that are not linked with it. It lies beside the daemon.
fn preload(spec: &JobSpec) -> Vec<(String, String)> {
    let library = std::env::current_exe().ok().map(|exe| exe.with_file_name("libpcm.so"));
    library
        .filter(|library| library.is_file())
        .map_or_else(Vec::new, |library| preload_variables(&library, spec))
}

/// `LD_PRELOAD` is cut at blanks and colons, so a path with one is found through `LD_LIBRARY_PATH` instead.
fn preload_variables(library: &Path, spec: &JobSpec) -> Vec<(String, String)> {
    let user = |name: &str| {
        let entry = spec.env.iter().find(|(known, _)| known == name.as_bytes());
        entry
            .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
            .filter(|value| !value.is_empty())
    };
    let joined = |first: String, rest: Option<String>| match rest {
        Some(rest) => format!("{first}:{rest}"),
        None => first,
    };
    let text = library.to_string_lossy().into_owned();
    if !text.contains([' ', ':']) {
        return vec![("LD_PRELOAD".to_owned(), joined(text, user("LD_PRELOAD")))];
    }
    let name = library
        .file_name()
        .map(PathBuf::from)
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let directory = library
        .parent()
        .map(|parent| parent.to_string_lossy().into_owned())
        .unwrap_or_default();
    vec![
        ("LD_PRELOAD".to_owned(), joined(name, user("LD_PRELOAD"))),
        ("LD_LIBRARY_PATH".to_owned(), joined(directory, user("LD_LIBRARY_PATH"))),
    ]
}
