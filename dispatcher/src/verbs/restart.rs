//! `restart`: runs the program of a checkpoint from there, on any number of ranks and on any nodes.

use super::checkpoints;
use super::run::{self, RESTARTS_DEFAULT, Shown, checkpoint_settings, job_of_checkpoints, launch, set, set_programs};
use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::run::programs;
use crate::run::watching::Wanted;
use crate::{installed, output};
use pcm_checkpoint::{Application, Checkpoint, Manifest};
use pcm_proto::app::environment;
use pcm_proto::ids::{NodeName, name_check};
use pcm_proto::job::{JobSpec, RANKS_MAX, WorldShape};
use pcm_proto::registered::Registered;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "\
The program, its arguments and its directory are those of the checkpoint ('pcmctl checkpoints show' prints them).

Example:
  pcmctl checkpoints
  pcmctl restart checkpoints/heat-00001200 -n 6
  pcmctl restart --newest kept -n 6 -- ./heat2d   # the first time from the beginning";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The checkpoint's directory
    #[arg(required_unless_present = "newest")]
    checkpoint: Option<PathBuf>,
    /// The newest checkpoint in DIR instead, where the next ones go too. If there is none, PROGRAM is run from its
    /// beginning; without PROGRAM nothing is
    #[arg(long, value_name = "DIR", conflicts_with = "checkpoint")]
    newest: Option<PathBuf>,
    /// Ranks to start with [default: as many as made the checkpoint]
    #[arg(
        short = 'n',
        long = "ranks",
        value_name = "M",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(RANKS_MAX))
    )]
    ranks: Option<u32>,
    /// The job's name [default: that of the checkpoint's job]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Nodes the job may use, as a,b [default: all]
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    nodes: Vec<String>,
    /// Interval of checkpoints in seconds, or auto; in memory, and in files beside this one
    #[arg(long, value_name = "S")]
    checkpoint_every: Option<String>,
    /// Prefix each line of output with its rank
    #[arg(long)]
    label: bool,
    /// Print no summary when the job has ended
    #[arg(long, short)]
    quiet: bool,
    /// Show progress on the terminal, also after the data is restored
    #[arg(long, conflicts_with = "detach")]
    progress: bool,
    /// Return as soon as the job runs; its output goes to jobs/ID in the cluster's directory
    #[arg(long, conflicts_with = "label")]
    detach: bool,
    /// With --detach: print one JSON document
    #[arg(long, requires = "detach")]
    json: bool,
    /// With --newest: the program and its arguments
    #[arg(last = true, conflicts_with = "checkpoint", value_name = "PROGRAM")]
    command: Vec<OsString>,
}

pub(crate) async fn run(args: Args, cluster: &ClusterDir) -> Result<i32, Failure> {
    let chosen = match (&args.newest, &args.checkpoint) {
        (Some(place), _) => match checkpoints::newest(place)? {
            Some(newest) => newest,
            None => return begin(&args, place, cluster).await,
        },
        (None, named) => named.clone().unwrap_or_default(),
    };
    let directory = chosen.canonicalize();
    let directory = directory.map_err(|error| Failure::file("open", &chosen, &error))?;
    let checkpoint = Checkpoint::open_own(&directory).map_err(|error| Failure::checkpoint(error.to_string()))?;
    let mut spec = spec(&args, &checkpoint)?;
    let beside = directory.parent().unwrap_or(&directory);
    checkpoint_settings(&mut spec, args.checkpoint_every.as_deref(), beside);
    set(&mut spec, environment::CHECKPOINT_FILES, b"yes");
    let manifest = checkpoint.manifest();
    let (iteration, ranks) = (manifest.iteration, manifest.ranks);
    output::tell(format_args!(
        "{} continues from iteration {iteration} of {}, made by {ranks} ranks, on {}; later iterations are computed, \
         and printed, again",
        spec.name,
        directory.display(),
        spec.size
    ));
    output::tell(format_args!("it runs {}", command_line(&manifest.application)));
    let shown = Shown {
        label: args.label,
        quiet: args.quiet,
        verbose: false,
        json: args.json,
        progress: Wanted {
            iterations: args.progress,
            restoring: Some(manifest.data_bytes()),
        },
    };
    launch(spec, cluster, shown).await
}

/// Runs the program from its beginning: there is no checkpoint yet.
async fn begin(args: &Args, place: &Path, cluster: &ClusterDir) -> Result<i32, Failure> {
    let shown = place.display();
    if args.command.is_empty() {
        output::tell(format_args!("there is no checkpoint in {shown}, so nothing is run"));
        return Ok(0);
    }
    output::tell(format_args!("there is no checkpoint in {shown}, so the program begins"));
    let ranks = args.ranks.map(|ranks| OsString::from(ranks.to_string()));
    let nodes = (!args.nodes.is_empty()).then(|| args.nodes.join(",").into());
    let options: [(&str, Option<OsString>); 5] = [
        ("--ranks", ranks),
        ("--name", args.name.clone().map(OsString::from)),
        ("--nodes", nodes),
        ("--checkpoint-every", args.checkpoint_every.clone().map(OsString::from)),
        ("--checkpoint-dir", Some(place.into())),
    ];
    let flags = [
        ("--label", args.label),
        ("--quiet", args.quiet),
        ("--progress", args.progress),
        ("--detach", args.detach),
        ("--json", args.json),
    ];
    let options = options
        .into_iter()
        .filter_map(|(name, value)| Some([name.into(), value?]));
    let words = options.flatten();
    let words = words.chain(
        flags
            .iter()
            .filter(|(_, is_set)| *is_set)
            .map(|(name, _)| OsString::from(name)),
    );
    let words = words.chain([OsString::from("--")]).chain(args.command.iter().cloned());
    run::run(run::parse(words)?, cluster).await
}

/// What is run, as one reads it: strings in quotes, so that nothing in them acts on the terminal or hides.
fn command_line(application: &Application) -> String {
    let line = |program: &String, arguments: &[String]| {
        let words = [program].into_iter().chain(arguments);
        let words: Vec<String> = words.map(|word| format!("{word:?}")).collect();
        words.join(" ")
    };
    let several: Vec<String> = application
        .programs
        .iter()
        .map(|one| format!("-n {} {}", one.ranks, line(&one.program, &one.arguments)))
        .collect();
    let lines = match several.is_empty() {
        true => line(&application.program, &application.arguments),
        false => several.join(" : "),
    };
    format!("{lines} in {:?}", application.directory)
}

/// On how many ranks its program goes on.
fn ranks(args: &Args, manifest: &Manifest) -> Result<u32, Failure> {
    let size = args.ranks.unwrap_or(manifest.ranks);
    if !manifest.application.programs.is_empty() && size != manifest.ranks {
        return Err(Failure::usage(format!(
            "-n {size}: the checkpoint is of a job of several programs, which keeps its {} ranks",
            manifest.ranks
        )));
    }
    if !manifest.possible_ranks.allow(size) {
        let (near, counts) = (manifest.possible_ranks.near_words(size), &manifest.possible_ranks);
        return Err(Failure::usage(format!(
            "-n {size}: the program of this checkpoint cannot run on {size} ranks, but on {near}: it runs on {counts}"
        )));
    }
    Ok(size)
}

fn spec(args: &Args, checkpoint: &Checkpoint) -> Result<JobSpec, Failure> {
    let manifest = checkpoint.manifest();
    let application = &manifest.application;
    let program = Path::new(&application.program);
    if application.program.is_empty() {
        let directory = checkpoint.directory().display();
        return Err(Failure::checkpoint(format!(
            "{directory} does not say which program made it: start that with 'pcmctl run' and PCM_RESTORE={directory} \
             in its environment"
        )));
    }
    let size = ranks(args, manifest)?;
    let programs = programs::recorded(&application.programs);
    if let Some(name) = &args.name {
        name_check(name).map_err(|error| Failure::usage(format!("--name {name:?}: {error}")))?;
    }
    let file = program.file_name().map(|file| file.to_string_lossy().into_owned());
    let names = [
        args.name.clone(),
        Some(job_of_checkpoints(&application.name).to_owned()),
        file,
    ];
    let name = names.into_iter().flatten().find(|name| name_check(name).is_ok());
    let nodes = args.nodes.iter().map(|name| {
        NodeName::new(name)
            .map_err(|error| Failure::usage(format!("--nodes {name:?}: {error}; 'pcmctl nodes' lists them")))
    });
    let (min, max) = if programs.is_empty() {
        (1, RANKS_MAX)
    } else {
        (size, size)
    };
    let mut spec = JobSpec {
        registered: Registered::default(),
        name: name.unwrap_or_else(|| "restarted".to_owned()),
        size,
        min,
        max,
        nodes: nodes.collect::<Result<_, _>>()?,
        per_node: None,
        policy: None,
        world: WorldShape::Job,
        program: program.as_os_str().as_bytes().to_vec(),
        args: application
            .arguments
            .iter()
            .map(|word| word.clone().into_bytes())
            .collect(),
        commands: Vec::new(),
        env: installed::environment_of_ranks(),
        cwd: PathBuf::from(&application.directory),
        bind: true,
        preload: true,
        mpi_settings: Vec::new(),
        detached: args.detach,
        restarts_max: RESTARTS_DEFAULT,
        method: None,
        spares: 0,
    };
    set_programs(&mut spec, &programs);
    set(
        &mut spec,
        environment::RESTORE,
        checkpoint.directory().as_os_str().as_bytes(),
    );
    Ok(spec)
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

    #[test]
    fn a_restart_runs_what_the_checkpoint_says_on_as_many_ranks_as_asked_for() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pcm-checkpoint/tests/golden/v1");
        let checkpoint = Checkpoint::open(&golden).unwrap();
        let args = Line::try_parse_from(["restart", "x", "-n", "5"]).unwrap().args;
        let spec = spec(&args, &checkpoint).unwrap();
        assert_eq!((spec.size, spec.name.as_str()), (5, "sample"));
        assert_eq!(spec.program, b"/opt/sample/bin/sample");
        assert_eq!(spec.args, [b"--rows".to_vec(), b"7".to_vec()]);
        assert_eq!(spec.cwd, Path::new("/home/somebody/run 1"));
        let restore = spec.env.iter().find(|(name, _)| name == b"PCM_RESTORE").unwrap();
        assert_eq!(restore.1, golden.as_os_str().as_bytes());
    }

    #[test]
    fn a_program_is_only_named_for_the_newest_checkpoint_that_may_be_none() {
        let parse = |line: &[&str]| Line::try_parse_from([&["restart"], line].concat());
        let args = parse(&["--newest", "kept", "-n", "5", "--", "./a", "-n", "7"])
            .ok()
            .unwrap()
            .args;
        assert_eq!((args.ranks, args.command.len(), args.checkpoint), (Some(5), 3, None));
        assert!(parse(&[]).is_err() && parse(&["kept/1", "--", "./a"]).is_err());
        assert!(parse(&["kept/1", "--newest", "kept"]).is_err());
    }
}
