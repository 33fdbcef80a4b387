//! The command line: what verbs there are, and how their outcome becomes an exit code and one line on standard error.

use crate::cluster::ClusterDir;
use crate::failure::{Exit, Failure};
use crate::verbs;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;

/// What it is.
pub(crate) const ABOUT: &str = "boots a cluster of node daemons, runs MPI jobs on it, shows and steers";

/// The verbs by what they are for, on one screen of a terminal: a line for each would be twice as many.
const HELP: &str = "\
pcmctl {about}
{usage-heading} {usage}

Cluster  up, down              boot a cluster; end it, leave nothing behind
         join, grow            take in a node, nodes of a host file
         drain, remove         empty a node of its ranks; end its daemon
         nodes, ping, doctor   show nodes; do they answer; test this machine
Jobs     run, restart          run a job; run one from a checkpoint
         jobs, ps              jobs; the ranks of one; why it hangs (--stuck)
         kill, signal          end a job; send its ranks a signal
Change   migrate, rebalance    move a rank; share data out by speed of the nodes
         expand, shrink        go on with more ranks, with fewer
         checkpoint(s)         make one now; show and check those in files
Look     top, dashboard        watch and steer on the terminal, in a browser
         report, trace         write how a job went (HTML), its calls (Perfetto)
         events, explain       what happened; why a job was moved, or was not
         messages, metrics     what ranks sent each other; for Prometheus
Other    logs, bench           logs and their levels; compare ways of changing
         env, completions, man what a compiler, a shell need; manual pages
Options  --cluster DIR (or PCM_CLUSTER), -h or --help, -V or --version
";

const AFTER_HELP: &str = "\
'pcmctl VERB --help' tells more. Exit codes: 0 done, 1 system, 2 usage, 3 no
cluster, 4 refused, 5 deadline, 6 boot, 7 link, 8 broken; of 'run' its job's.
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
    /// End all jobs and daemons, leave nothing behind
    Down(down),
    /// Show the nodes
    Nodes(nodes),
    /// Take a node in that stands on this machine or another
    Join(join),
    /// Take nodes in, given as lines of a host file
    Grow(grow),
    /// Empty a node of its ranks and give it no new ones
    Drain(drain),
    /// End an empty node's daemon
    Remove(remove),
    /// Run a job: forwards input, output, signals and the exit code
    Run(run),
    /// Make a checkpoint of a job now, in the memory of its nodes
    Checkpoint(checkpoint),
    /// Run a job from a checkpoint, on any number of ranks
    Restart(restart),
    /// Show the jobs
    Jobs(jobs),
    /// Show the ranks of a job
    Ps(ps),
    /// Watch jobs, ranks and nodes, and move ranks, on the terminal
    Top(top),
    /// Show what ranks have sent each other
    Messages(messages),
    /// Print numbers for Prometheus
    Metrics(metrics),
    /// End a job
    Kill(kill),
    /// Send a signal to every rank of a job
    Signal(signal),
    /// Let one rank go on on another node
    Migrate(migrate),
    /// Let a job grow
    Expand(expand),
    /// Let a job go on with fewer ranks
    Shrink(shrink),
    /// Give ranks shares of the data by the speed of their nodes, or as named
    Rebalance(rebalance),
    /// Show checkpoints in files, check them, take arrays out of them
    Checkpoints(checkpoints),
    /// Ask daemons whether they answer, and how fast
    Ping(ping),
    /// Test this machine for real and say what to do
    Doctor(doctor),
    /// Show what happened
    Events(events),
    /// Say why a job was moved, or left where it is
    Explain(explain),
    /// Show a job in the browser while it runs, and steer it
    Dashboard(dashboard),
    /// Write how a job went as one HTML file
    Report(report),
    /// Record every MPI call of a job for a while, for Perfetto or Chrome
    Trace(trace),
    /// Show the end of a node's log, change what is written into it
    Logs(logs),
    /// Measure what changing jobs costs on this cluster, by every method
    Bench(bench),
    /// Print what a compiler needs to link with libpcm, for eval
    Env(env),
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
        // A thread that still waits for standard input must not hold the end back.
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
        // A closed pipe while showing help is no failure.
        let _ = error.print();
        return 0;
    }
    eprintln!("pcmctl: {}", Failure::usage(one_line(error, words)));
    Exit::Usage as i32
}

/// What clap says in paragraphs, as one line that ends with where to read on.
fn one_line(error: &clap::Error, mut words: impl Iterator<Item = String>) -> String {
    let text = error.render().to_string();
    let verb = words.find(|word| command().find_subcommand(word).is_some());
    let verb = verb.map_or("pcmctl".to_owned(), |verb| format!("pcmctl {verb}"));
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return format!("say what to do: '{verb} --help' lists it");
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
        // One line is for the prompt below.
        assert!(text.trim_end().lines().count() <= 23, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn every_verb_and_every_option_stands_in_the_help() {
        let text = HELP.replace("checkpoint(s)", "checkpoint checkpoints");
        let words: Vec<&str> = text.split(|letter: char| !letter.is_ascii_alphabetic()).collect();
        let command = command();
        let options = command.get_arguments().filter_map(clap::Arg::get_long);
        for word in command.get_subcommands().map(clap::Command::get_name).chain(options) {
            assert!(words.contains(&word), "{word} is missing in HELP");
        }
    }

    #[test]
    fn usage_errors_are_one_line_that_says_where_to_read_on() {
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
