//! `run`: starts a job and stays attached until it ends, or detaches with `--detach`.

use super::summary;
use crate::chosen_mpi;
use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::installed;
use crate::link::Link;
use crate::method::{self, MethodWanted};
use crate::output;
use crate::run::attached::{self, Attached};
use crate::run::programs::{self, Program};
use crate::run::watching::Wanted;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pcm_checkpoint::RanksOfProgram;
use pcm_core::mpi_settings::{PROVIDER, SHARED_MEMORY_PROVIDER};
use pcm_core::wide;
use pcm_proto::agent::POLICY_NAMES;
use pcm_proto::app::environment;
use pcm_proto::control::{ControlToDaemon, DaemonToControl};
use pcm_proto::ids::{JobId, NodeName, name_check};
use pcm_proto::job::{JobEnd, JobSpec, RANKS_MAX, SPARES_MAX, WorldShape};
use pcm_proto::registered::Registered;
use pcm_proto::waiting::Waiting;
use pcm_view::time;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const EXAMPLE: &str = "\
The first ctrl-C sends SIGINT to all ranks, the second one ends the job. The exit code is the worst of the ranks'
codes, 128 + N if signal N ended a rank.

Example:
  pcmctl run -n 4 -- ./heat2d --rows 512 --cols 512 --iterations 1000
  pcmctl run -n 2 --progress -- ./heat2d --rows 512 --cols 512 --iterations 100000
  pcmctl run -n 2 --nodes n0,n1 --label -- hostname
  pcmctl run -n 2 --max 8 --policy cost --detach --name heat -- ./heat2d --rows 512 --cols 512 --iterations 100000
  pcmctl run -n 2 -- ./ocean : -n 4 ./ice
  pcmctl run -n 4 --checkpoint-every auto -- ./heat2d --rows 4096 --cols 4096 --iterations 100000";

/// Restarts of one job: enough for weeks on nodes that fail daily. A program that crashes repeatedly at one iteration
/// is ended earlier.
pub(crate) const RESTARTS_DEFAULT: u32 = 100;

/// Of a shorter job there is nothing to say that its user has not seen.
const SUMMARY_FROM: Duration = Duration::from_secs(5);

/// Name of a job whose program's file name is not a valid name.
const NAME_DEFAULT: &str = "job";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Ranks to start with
    #[arg(
        short = 'n',
        long = "ranks",
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(RANKS_MAX))
    )]
    ranks: u32,
    /// The job's name [default: the program's file name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Nodes the job may use, as a,b [default: all]
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    nodes: Vec<String>,
    /// Put N ranks on each node, node after node, when the job starts and grows. Moves, and restarts after the loss of
    /// a node, may put more there [default: where they find most speed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ppn: Option<u32>,
    /// Smallest number of ranks
    #[arg(long, value_name = "A", default_value_t = 1)]
    min: u32,
    /// Largest number of ranks. Without --min and --max only a user changes the number of ranks
    #[arg(long, value_name = "B", default_value_t = RANKS_MAX)]
    max: u32,
    /// Policy by which agents change the job; none: only users change it [default: cost]
    #[arg(
        long,
        value_name = "P",
        env = "PCM_POLICY",
        hide_env_values = true,
        value_parser = clap::builder::PossibleValuesParser::new(POLICY_NAMES)
    )]
    policy: Option<String>,
    /// Set an MPI variable for the ranks, instead of our default; an empty value leaves it unset
    #[arg(long, value_name = "NAME=VALUE")]
    mpi: Vec<String>,
    /// How ranks talk that are in different MPI worlds, as after a live change. shm: through shared memory, at full
    /// speed, on one host only, with room for 240 processes. network: over TCP, between any hosts
    #[arg(
        long,
        value_name = "WAY",
        env = "PCM_BETWEEN_WORLDS",
        hide_env_values = true,
        default_value = "network"
    )]
    between_worlds: BetweenWorlds,
    /// How blocking MPI calls wait: adaptive yields or sleeps while other processes want the CPU, sleep always sleeps,
    /// spin never yields, mpi waits as MPI does. adaptive and sleep build collectives from messages [default:
    /// adaptive, with MPI's own collectives where each rank has a CPU]
    #[arg(long, value_name = "MANNER", value_parser = waiting())]
    wait: Option<Waiting>,
    /// How the ranks start: as one MPI world (job), one per node, or one per rank. They are joined within MPI_Init:
    /// MPI_COMM_WORLD is always the whole job
    #[arg(long, value_name = "SHAPE", default_value = "job")]
    world: World,
    /// Load this MPI for the ranks, whatever the program was linked with: its library, as libmpi.so.12, or the folder
    /// of that [default: the one in PCM_MPI, else what the program was linked with]
    #[arg(long, value_name = "PATH", conflicts_with = "no_preload")]
    mpi_lib: Option<PathBuf>,
    /// Do not bind ranks to CPUs
    #[arg(long)]
    no_bind: bool,
    /// Do not preload libpcm: 'ps' then shows nothing of a program that is not linked with it
    #[arg(long)]
    no_preload: bool,
    /// Interval of checkpoints in memory, in seconds; auto weighs their cost against failures. Two nodes hold each
    /// part
    #[arg(long, value_name = "S", value_parser = checkpoint_interval)]
    checkpoint_every: Option<String>,
    /// Also write checkpoints into files in DIR, which all nodes must share. Without it, checkpoints that the program
    /// requests go to 'checkpoints' in the cluster's directory
    #[arg(long, value_name = "DIR")]
    checkpoint_dir: Option<PathBuf>,
    /// Sums give the same bits wherever the ranks are: of nodes at several sites each rank's part crosses to the others
    #[arg(long)]
    reproducible: bool,
    /// Restart the job after a crash, from its newest checkpoint, at most N times; 0: never
    #[arg(long, value_name = "N", default_value_t = RESTARTS_DEFAULT)]
    max_restarts: u32,
    /// How changes manage processes and move data. merge keeps the processes that stay; baseline starts all processes
    /// again (baseline-intra: over one communicator). p2p or collective messages. async: constant data travels while
    /// ranks iterate; sync: with all other data. auto takes the method with the shortest measured pause on this
    /// cluster, else merge-p2p-async
    #[arg(long, value_name = "METHOD", value_parser = method::parser(), default_value = "auto")]
    method: MethodWanted,
    /// Keep K spare processes: of the job's program, for ranks that join, waiting in MPI_Init where these would be
    /// placed; and of each program that the job spawned lately (MPI_Comm_spawn of one child), for the next spawn with
    /// the same arguments. Spares have memory, but no rank, and do not compute
    #[arg(
        long,
        value_name = "K",
        env = "PCM_SPARES",
        hide_env_values = true,
        default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=i64::from(SPARES_MAX))
    )]
    spares: u32,
    /// Prefix each line of output with its rank
    #[arg(long)]
    label: bool,
    /// Print no summary when the job has ended
    #[arg(long, short)]
    quiet: bool,
    /// Say on standard error which libpcm, which MPI and which settings of MPI the ranks get, and why
    #[arg(long, short)]
    verbose: bool,
    /// Show progress on the terminal: iteration of the slowest rank, rate and remaining time
    #[arg(long, conflicts_with = "detach")]
    progress: bool,
    /// Return as soon as the job runs; its output goes to jobs/ID in the cluster's directory
    #[arg(long, conflicts_with = "label")]
    detach: bool,
    /// With --detach: print one JSON document
    #[arg(long, requires = "detach")]
    json: bool,
    /// The program and its arguments; then, for other ranks, ': -n N' and another program
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

/// [`WorldShape`] as it is typed.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum World {
    Job,
    Node,
    Rank,
}

/// The way between worlds, as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BetweenWorlds {
    Network,
    Shm,
}

/// Reads the words of [`environment::WAIT`].
fn waiting() -> impl TypedValueParser<Value = Waiting> {
    PossibleValuesParser::new(Waiting::ALL.map(Waiting::word)).try_map(|word| word.parse::<Waiting>())
}

impl From<World> for WorldShape {
    fn from(world: World) -> Self {
        match world {
            World::Job => Self::Job,
            World::Node => Self::Node,
            World::Rank => Self::Rank,
        }
    }
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let mut spec = spec(&args)?;
    check_link(&spec)?;
    let directory = args.checkpoint_dir.clone();
    let directory = directory.unwrap_or_else(|| cluster.path().join("checkpoints"));
    let directory = std::path::absolute(&directory).map_err(|error| Failure::file("use", &directory, &error))?;
    checkpoint_settings(&mut spec, args.checkpoint_every.as_deref(), &directory);
    if args.checkpoint_dir.is_some() {
        set(&mut spec, environment::CHECKPOINT_FILES, b"yes");
    }
    if let Some(named) = &args.mpi_lib {
        let library = chosen_mpi::library(named, &spec)?;
        set(&mut spec, environment::MPI_LIBRARY, library.as_os_str().as_bytes());
    }
    if let Some(wait) = args.wait {
        set(&mut spec, environment::WAIT, wait.word().as_bytes());
    }
    if args.reproducible {
        set(&mut spec, environment::REPRODUCIBLE, b"yes");
    }
    let shown = Shown {
        label: args.label,
        quiet: args.quiet,
        verbose: args.verbose,
        json: args.json,
        progress: Wanted {
            iterations: args.progress,
            restoring: None,
        },
    };
    launch(spec, cluster, shown).await
}

/// What a user says of links holds for all ranks, so a mistake in it is said before they start.
fn check_link(spec: &JobSpec) -> Result<(), Failure> {
    let mut said = spec.env.iter().rev();
    let said = said.find(|(name, _)| name == environment::LINK.as_bytes());
    let read = said.map(|(_, words)| String::from_utf8_lossy(words).parse::<wide::link::Link>());
    match read {
        Some(Err(problem)) => Err(Failure::usage(format!("{}: {problem}", environment::LINK))),
        _ => Ok(()),
    }
}

/// Reads a command line of `run`, without the verb.
pub(super) fn parse(words: impl Iterator<Item = OsString>) -> Result<Args, Failure> {
    let line = <Args as clap::Args>::augment_args(clap::Command::new("run").no_binary_name(true));
    let matches = line.try_get_matches_from(words);
    let args = matches.and_then(|matches| <Args as clap::FromArgMatches>::from_arg_matches(&matches));
    args.map_err(|error| Failure::usage(error.to_string()))
}

/// How the user sees a job.
pub(crate) struct Shown {
    /// Prefix lines of output with their rank.
    pub(crate) label: bool,
    /// No summary at the end.
    pub(crate) quiet: bool,
    /// Print what was chosen for it.
    pub(crate) verbose: bool,
    /// Print the number of a detached job as a JSON document.
    pub(crate) json: bool,
    pub(crate) progress: Wanted,
}

/// Runs a job and stays attached unless it is detached.
pub(crate) async fn launch(mut spec: JobSpec, cluster: &ClusterDir, shown: Shown) -> Result<i32, Failure> {
    let chosen = chosen_mpi::complete(&mut spec)?;
    if shown.verbose {
        eprint!("{}", chosen_mpi::explained(chosen.as_ref(), &spec));
    }
    // A daemon refuses it, too, but one that is far too long reaches none.
    spec.check_length()?;
    let detach = spec.detached;
    let mut link = Link::open(cluster).await?;
    link.send(&ControlToDaemon::Run(Box::new(spec))).await?;
    let job = accepted(&mut link).await?;
    if !detach {
        let begun = Instant::now();
        let attached = Attached::new(cluster, link, job, shown.label, shown.progress)?;
        let code = attached.until_end().await?;
        if !shown.quiet && begun.elapsed() >= SUMMARY_FROM {
            summary::at_end(cluster, job).await;
        }
        return Ok(code);
    }
    if let Some(end) = ended_before_it_ran(&mut link).await? {
        output::tell(format_args!("job {job}: {}", end.reason));
        return Ok(end.code);
    }
    if shown.json {
        output::print_json(&serde_json::json!({ "job": job }))?;
    } else {
        let dir = cluster.path().join("jobs").join(job.to_string());
        output::print(&format!("job {job} runs; its output goes to {}\n", dir.display()))?;
    }
    Ok(0)
}

/// Sets the checkpoint variables of the ranks, unless the environment has them.
pub(crate) fn checkpoint_settings(spec: &mut JobSpec, every: Option<&str>, directory: &Path) {
    let name = format!("{}.{}", spec.name, time::now_us() / 1_000_000);
    if let Some(every) = every {
        set(spec, environment::CHECKPOINT_EVERY, every.as_bytes());
    }
    let of_directory = (environment::CHECKPOINT_DIR, directory.as_os_str().as_bytes());
    for (variable, value) in [of_directory, (environment::CHECKPOINT_NAME, name.as_bytes())] {
        if !spec.env.iter().any(|(name, _)| name == variable.as_bytes()) {
            set(spec, variable, value);
        }
    }
}

/// The name of the job that [`checkpoint_settings`] gave such a name to its checkpoints.
pub(crate) fn job_of_checkpoints(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((job, started)) if started.len() >= 10 && started.bytes().all(|b| b.is_ascii_digit()) => job,
        _ => name,
    }
}

/// Sets a variable of the ranks' environment.
pub(crate) fn set(spec: &mut JobSpec, variable: &str, value: &[u8]) {
    spec.env.retain(|(name, _)| name != variable.as_bytes());
    spec.env.push((variable.as_bytes().to_vec(), value.to_vec()));
}

fn checkpoint_interval(text: &str) -> Result<String, String> {
    let is_time = text
        .parse::<f64>()
        .is_ok_and(|seconds| seconds.is_finite() && seconds > 0.0);
    if is_time || text == "auto" {
        Ok(text.to_owned())
    } else {
        Err("write a number of seconds above 0, or auto".to_owned())
    }
}

async fn accepted(link: &mut Link) -> Result<JobId, Failure> {
    match attached::within(attached::START_MAX, "the job was not accepted", link.next()).await? {
        DaemonToControl::JobAccepted { job } => Ok(job),
        other => Err(Failure::unexpected("Run", &other)),
    }
}

async fn ended_before_it_ran(link: &mut Link) -> Result<Option<JobEnd>, Failure> {
    match attached::within(attached::START_MAX, "the job did not start", link.next()).await? {
        DaemonToControl::JobStarted { .. } => Ok(None),
        DaemonToControl::JobEnded(end) => Ok(Some(end)),
        other => Err(Failure::unexpected("Run", &other)),
    }
}

/// Ranks to start with, the fewest and the most. A job of several programs keeps its number.
fn sizes(args: &Args, others: &[Program]) -> Result<(u32, u32, u32), Failure> {
    if args.min > args.ranks || args.ranks > args.max {
        return Err(Failure::usage(format!(
            "-n {} is outside --min {} … --max {}: make them fit",
            args.ranks, args.min, args.max
        )));
    }
    if others.is_empty() {
        return Ok((args.ranks, args.min, args.max));
    }
    if args.min > 1 || args.max < RANKS_MAX {
        return Err(Failure::usage(
            "a job of several programs keeps its number of ranks: leave --min and --max out",
        ));
    }
    let size = others
        .iter()
        .fold(args.ranks, |sum, other| sum.saturating_add(other.ranks));
    Ok((size, size, size))
}

/// Ranks of a job run these programs, and its checkpoints in files say so.
pub(crate) fn set_programs(spec: &mut JobSpec, programs: &[Program]) {
    if programs.len() < 2 {
        return;
    }
    spec.commands = programs.iter().map(Program::command).collect();
    let records: Vec<RanksOfProgram> = programs.iter().map(Program::record).collect();
    set(
        spec,
        environment::PROGRAMS,
        RanksOfProgram::text_of(&records).as_bytes(),
    );
}

fn spec(args: &Args) -> Result<JobSpec, Failure> {
    let programs = programs::programs(args.ranks, &args.command)?;
    let [program, others @ ..] = &programs[..] else {
        return Err(Failure::usage("no program is given: write it after '--'"));
    };
    let (size, min, max) = sizes(args, others)?;
    let nodes = args.nodes.iter().map(|name| {
        NodeName::new(name)
            .map_err(|error| Failure::usage(format!("--nodes {name:?}: {error}; 'pcmctl nodes' lists them")))
    });
    let cwd = std::env::current_dir().map_err(|error| {
        Failure::system(format!(
            "the current directory cannot be used ({error}): change to another"
        ))
    })?;
    if cwd.to_str().is_none() {
        return Err(Failure::usage(
            "the current directory's name is not UTF-8: run from another",
        ));
    }
    let first = program.command();
    let mut spec = JobSpec {
        registered: Registered::default(),
        name: name(args, &program.file)?,
        size,
        min,
        max,
        nodes: nodes.collect::<Result<_, _>>()?,
        per_node: args.ppn,
        policy: args.policy.clone(),
        world: args.world.into(),
        program: first.program,
        args: first.args,
        commands: Vec::new(),
        env: installed::environment_of_ranks(),
        cwd,
        bind: !args.no_bind,
        preload: !args.no_preload,
        mpi_settings: mpi_settings(args)?,
        detached: args.detach,
        restarts_max: args.max_restarts,
        method: args.method.0,
        spares: args.spares,
    };
    set_programs(&mut spec, &programs);
    Ok(spec)
}

fn name(args: &Args, program: &OsString) -> Result<String, Failure> {
    if let Some(name) = &args.name {
        name_check(name).map_err(|error| Failure::usage(format!("--name {name:?}: {error}")))?;
        if name.parse::<u64>().is_ok() {
            return Err(Failure::usage(format!(
                "--name {name}: a name that is a number would be taken for a job's number"
            )));
        }
        return Ok(name.clone());
    }
    let file = Path::new(program)
        .file_name()
        .map(|file| file.to_string_lossy().into_owned())
        .unwrap_or_default();
    let is_name = name_check(&file).is_ok() && file.parse::<u64>().is_err();
    Ok(if is_name { file } else { NAME_DEFAULT.to_owned() })
}

/// What is set of MPI by options. A variable that the user sets has the last word.
fn mpi_settings(args: &Args) -> Result<Vec<(String, String)>, Failure> {
    let named = args.mpi.iter().map(|setting| mpi_setting(setting));
    let mut settings = named.collect::<Result<Vec<_>, _>>()?;
    let is_set = settings.iter().any(|(name, _)| name == PROVIDER) || std::env::var_os(PROVIDER).is_some();
    if args.between_worlds == BetweenWorlds::Shm && !is_set {
        settings.push((PROVIDER.to_owned(), SHARED_MEMORY_PROVIDER.to_owned()));
    }
    Ok(settings)
}

fn mpi_setting(text: &str) -> Result<(String, String), Failure> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| Failure::usage(format!("--mpi {text:?}: write NAME=VALUE, as FI_PROVIDER=tcp")))?;
    let is_variable = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_variable {
        return Err(Failure::usage(format!(
            "--mpi {text:?}: {name:?} is no name of an environment variable"
        )));
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &[&str]) -> Result<JobSpec, Failure> {
        let words = std::iter::once("run").chain(line.iter().copied());
        spec(
            &Line::try_parse_from(words)
                .map_err(|error| Failure::usage(error.to_string()))?
                .args,
        )
    }

    #[test]
    fn what_follows_the_program_belongs_to_it() {
        let spec = parse(&["-n", "2", "--", "./a.out", "-n", "7", "--label"]).unwrap();
        assert_eq!((spec.size, spec.name.as_str()), (2, "a.out"));
        assert_eq!(spec.args, [b"-n".to_vec(), b"7".to_vec(), b"--label".to_vec()]);
    }

    #[test]
    fn more_ranks_than_the_maximum_are_refused() {
        assert_eq!(parse(&["-n", "5", "--max", "4", "a"]).unwrap_err().code, "usage");
        assert_eq!(parse(&["-n", "1", "--min", "2", "a"]).unwrap_err().code, "usage");
        assert!(parse(&["-n", "0", "a"]).is_err());
    }

    #[test]
    fn a_setting_without_a_value_unsets_and_one_without_a_name_is_refused() {
        let spec = parse(&["--mpi", "FI_PROVIDER=", "a"]).unwrap();
        assert_eq!(spec.mpi_settings, [("FI_PROVIDER".to_owned(), String::new())]);
        assert!(parse(&["--mpi", "=x", "a"]).is_err());
        assert!(parse(&["--mpi", "x", "a"]).is_err());
    }

    #[test]
    fn checkpoints_are_told_to_the_ranks_and_what_the_user_set_stays() {
        let mut spec = parse(&["--checkpoint-every", "2.5", "a"]).unwrap();
        spec.env = vec![(b"PCM_CHECKPOINT_NAME".to_vec(), b"mine".to_vec())];
        checkpoint_settings(&mut spec, Some("2.5"), Path::new("/c d"));
        let value = |name: &str| spec.env.iter().find(|(n, _)| n == name.as_bytes()).map(|(_, v)| &v[..]);
        assert_eq!(value("PCM_CHECKPOINT_EVERY"), Some(&b"2.5"[..]));
        assert_eq!(value("PCM_CHECKPOINT_DIR"), Some(&b"/c d"[..]));
        assert_eq!(value("PCM_CHECKPOINT_NAME"), Some(&b"mine"[..]));
        assert!(parse(&["--checkpoint-every", "often", "a"]).is_err());
    }

    #[test]
    fn more_spares_than_memory_may_hold_are_refused() {
        assert_eq!(parse(&["--spares", "64", "a"]).unwrap().spares, 64);
        assert_eq!(parse(&["a"]).unwrap().spares, 0);
        assert!(parse(&["--spares", "65", "a"]).is_err());
    }

    #[test]
    fn a_job_is_never_called_by_a_number() {
        assert_eq!(parse(&["./17"]).unwrap().name, NAME_DEFAULT);
        assert!(parse(&["--name", "17", "a"]).is_err());
    }
}
