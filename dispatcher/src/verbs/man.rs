//! `man`: manual pages, one for `pcmctl` and one per verb, made from `--help`.

use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::{cli, output};
use clap_mangen::Man;
use std::path::PathBuf;

const EXAMPLE: &str = "\
Example:
  pcmctl man run | man -l -
  pcmctl man --out ~/.local/share/man/man1";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The verb [default: the page of pcmctl itself]
    verb: Option<String>,
    /// Write all pages into this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    out: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, _cluster: &ClusterDir) -> Result<i32, Failure> {
    if let Some(directory) = &args.out {
        std::fs::create_dir_all(directory).map_err(|error| Failure::file("create", directory, &error))?;
        clap_mangen::generate_to(cli::command(), directory)
            .map_err(|error| Failure::file("write manual pages into", directory, &error))?;
        return Ok(0);
    }
    let page = page(args.verb.as_deref())?;
    output::print(&String::from_utf8_lossy(&page))?;
    Ok(0)
}

/// The page of a verb, or of pcmctl.
fn page(verb: Option<&str>) -> Result<Vec<u8>, Failure> {
    let mut whole = cli::command();
    // Gives verbs the names of their pages.
    whole.build();
    let command = match verb {
        None => &whole,
        Some(verb) => whole
            .find_subcommand(verb)
            .ok_or_else(|| Failure::usage(format!("there is no verb {verb:?}: 'pcmctl --help' lists them")))?,
    };
    let mut page = Vec::new();
    let rendered = Man::new(command.clone()).render(&mut page);
    rendered.map_err(|error| Failure::system(format!("the page cannot be made: {error}")))?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_a_page_with_its_options_and_examples() {
        for verb in cli::command().get_subcommands() {
            let name = verb.get_name();
            let page = String::from_utf8(page(Some(name)).unwrap()).unwrap();
            assert!(
                page.contains(&format!("\n.TH pcmctl-{name} 1")) && page.contains("Example:"),
                "{page}"
            );
            for option in verb.get_arguments().filter_map(clap::Arg::get_long) {
                let shown = option.replace('-', "\\-");
                assert!(page.contains(&shown), "--{option} is missing in {page}");
            }
        }
        let whole = String::from_utf8(page(None).unwrap()).unwrap();
        assert!(whole.contains("migrate") && whole.contains("Exit codes"), "{whole}");
        assert!(page(Some("rnu")).is_err());
    }

    #[test]
    fn all_pages_are_written_into_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        clap_mangen::generate_to(cli::command(), directory.path()).unwrap();
        let pages = std::fs::read_dir(directory.path()).unwrap().count();
        assert!(pages > cli::command().get_subcommands().count(), "{pages}");
        assert!(directory.path().join("pcmctl-migrate.1").is_file());
    }
}
