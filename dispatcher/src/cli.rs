//! The command line: the list of verbs, and how their outcome becomes an exit code and one line on standard error.

use crate::cluster::ClusterDir;
use crate::failure::{Exit, Failure};
use crate::verbs;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;

pub(crate) const ABOUT: &str = "boots a cluster of node daemons; runs, changes and inspects MPI jobs";

/// The verbs by purpose, on one screen of a terminal: one line per verb would need two screens.
const HELP: &str = "\
pcmctl {about}
{usage-heading} {usage}

Cluster  up, down              boot a cluster; end it and remove its files
         join, grow            add a node; add nodes given as host file lines
         drain, remove         move all ranks off a node; end its daemon
         nodes, ping, doctor   list nodes; check that they answer; test machine
Jobs     run, restart          run a job; run one from a checkpoint in files
         jobs, ps, stacks      list jobs; ranks, hangs (--stuck); source lines
         kill, signal          end a job; send a signal to its ranks
Change   migrate, rebalance    move a rank; change the ranks' shares of the data
         expand, shrink        add ranks; remove ranks
         checkpoint(s), bench  make and list checkpoints; compare ways to change
Inspect  top, dashboard        watch and control on the terminal, in a browser
         summary, report       a job's history in a few lines; as HTML
         trace, events         its calls (Perfetto); what happened
         explain, messages     why it was moved or not; messages between ranks
Other    metrics, logs, slurm  numbers for Prometheus; logs; a job script
         env, completions, man compiler flags; shell completion; manual pages
Options  --cluster DIR (or PCM_CLUSTER), -h or --help, -V or --version
";

const AFTER_HELP: &str = "\
'pcmctl VERB --help' gives details. Exit codes: 0 done, 1 system, 2 usage, 3 no
cluster, 4 refused, 5 deadline, 6 boot, 7 link, 8 broken; 'run': its job's.
Example: pcmctl up --local 4 && pcmctl run -n 4 -- ./heat2d; pcmctl down";

#[derive(Parser)]
#[command(
    name = "pcmctl",
    version,
    about = ABOUT
)]
#[command(help_template = HELP.to_owned() + AFTER_HELP, after_help = AFTER_HELP)]
#[command(max_term_width = 100, disable_help_subcommand = true)]
struct Cli {
    /// The cluster's directory [default: a per-user one]
    #[arg(long, global = true, value_name = "DIR", env = "PCM_CLUSTER", hide_env = true)]
    cluster: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

macro_rules! verbs {
    ($($(#[$doc:meta])* $name:ident($module:ident),)*) => {
        #[derive(Subcommand)]
        enum Verb {
            $($(#[$doc])* $name(verbs::$module::Args),)*
        }

        async fn run_verb(verb: Verb, cluster: &ClusterDir) -> Result<i32, Failure> {
            match verb {
                $(Verb::$name(args) => verbs::$module::run(args, cluster).await,)*
            }
        }
    };
}

verbs! {
    /// Boot a cluster
    Up(up),
    /// End all jobs and daemons and remove their files
    Down(down),
    /// List the nodes
    Nodes(nodes),
    /// Add a node, local or remote
    Join(join),
    /// Add nodes, given as lines of a host file
    Grow(grow),
    /// Move all ranks off a node and start none there
    Drain(drain),
    /// End an empty node's daemon
    Remove(remove),
    /// Run a job; forward input, output, signals and the exit code
    Run(run),
    /// Make a checkpoint of a job in the memory of its nodes
    Checkpoint(checkpoint),
    /// Run a job from a checkpoint in files, on any number of ranks
    Restart(restart),
    /// List the jobs
    Jobs(jobs),
    /// List the ranks of a job and their MPI calls
    Ps(ps),
    /// Show where the ranks of a job are in their programs, with source lines
    Stacks(stacks),
    /// Watch and control jobs, ranks and nodes on the terminal
    Top(top),
    /// Show the messages between the ranks of a job
    Messages(messages),
    /// Print numbers for Prometheus
    Metrics(metrics),
    /// End a job
    Kill(kill),
    /// Send a signal to every rank of a job
    Signal(signal),
    /// Move one rank to another node
    Migrate(migrate),
    /// Add ranks to a job
    Expand(expand),
    /// Remove ranks from a job
    Shrink(shrink),
    /// Change the ranks' shares of the data, by the speed of their nodes or as given
    Rebalance(rebalance),
    /// List and verify checkpoints in files, export arrays from them
    Checkpoints(checkpoints),
    /// Check that daemons answer, and measure how fast
    Ping(ping),
    /// Test this machine and say how to fix problems
    Doctor(doctor),
    /// Show the events of the cluster or of a job
    Events(events),
    /// Explain why a job was moved, or not
    Explain(explain),
    /// Show and control a running job in the browser
    Dashboard(dashboard),
    /// Write the history of a job as one HTML file
    Report(report),
    /// Say in a few lines how a job went, or goes
    Summary(summary),
    /// Record the MPI calls of a job for Perfetto or Chrome
    Trace(trace),
    /// Show the end of a node's log, or change log levels
    Logs(logs),
    /// Measure the cost of changing jobs on this cluster, by method
    Bench(bench),
    /// Print compiler flags for libpcm, for eval
    Env(env),
    /// Print a job script for Slurm
    Slurm(slurm),
    /// Print a completion script for a shell
    Completions(completions),
    /// Print manual pages
    Man(man),
}

/// Runs the command line of this process; returns its exit code.
pub fn main() -> i32 {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return report_usage(&error, std::env::args()),
    };
    let outcome = ClusterDir::locate(cli.cluster.as_deref()).and_then(|cluster| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::system(format!("cannot set up an event loop: {error}")))?;
        let outcome = runtime.block_on(run_verb(cli.verb, &cluster));
        // A thread that still waits for standard input must not delay the end.
        runtime.shutdown_background();
        outcome
    });
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("pcmctl: {failure}");
            failure.exit as i32
        }
    }
}

/// The whole command line, for completion scripts.
pub fn command() -> clap::Command {
    Cli::command()
}

fn report_usage(error: &clap::Error, words: impl Iterator<Item = String>) -> i32 {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // A closed pipe while help is printed is not a failure.
        let _ = error.print();
        return 0;
    }
    eprintln!("pcmctl: {}", Failure::usage(one_line(error, words)));
    Exit::Usage as i32
}

/// The paragraphs of clap as one line that ends with a reference to the help.
fn one_line(error: &clap::Error, mut words: impl Iterator<Item = String>) -> String {
    let text = error.render().to_string();
    let verb = words.find(|word| command().find_subcommand(word).is_some());
    let verb = verb.map_or("pcmctl".to_owned(), |verb| format!("pcmctl {verb}"));
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return format!("a verb is missing: '{verb} --help' lists them");
    }
    let head = text.split("\n\nUsage:").next().unwrap_or(&text);
    let head = head.split("\n\nFor more information").next().unwrap_or(head);
    let head = head.strip_prefix("error: ").unwrap_or(head);
    let said = head
        .split("\n\n")
        .map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    format!("{}; see '{verb} --help'", said.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_every_verb_has_an_example() {
        let command = command();
        command.clone().debug_assert();
        for verb in command.get_subcommands() {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{} has no example", verb.get_name());
        }
    }

    #[test]
    fn help_fits_on_one_screen_of_24_lines_and_80_columns() {
        let text = command().render_help().to_string();
        // One line is for the prompt.
        assert!(text.trim_end().lines().count() <= 23, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn every_verb_and_every_option_is_in_the_help() {
        let text = HELP.replace("checkpoint(s)", "checkpoint checkpoints");
        let words: Vec<&str> = text.split(|letter: char| !letter.is_ascii_alphabetic()).collect();
        let command = command();
        let options = command.get_arguments().filter_map(clap::Arg::get_long);
        for word in command.get_subcommands().map(clap::Command::get_name).chain(options) {
            assert!(words.contains(&word), "{word} is missing in HELP");
        }
    }

    #[test]
    fn usage_errors_are_one_line_that_refers_to_the_help() {
        for line in [
            &["pcmctl", "run"][..],
            &["pcmctl", "nodse"],
            &["pcmctl", "up", "--local", "x"],
            &["pcmctl"],
        ] {
            let error = Cli::try_parse_from(line).err().unwrap();
            let text = one_line(&error, line.iter().map(|&word| word.to_owned()));
            assert!(!text.contains('\n') && text.contains("--help'"), "{line:?}: {text}");
        }
    }
}
