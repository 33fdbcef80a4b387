//! `env`: the flags for compiling and linking with libpcm, as shell variables.

use crate::build_flags::{BuildFlags, Language};
use crate::cluster::ClusterDir;
use crate::failure::Failure;
use crate::output;

const EXAMPLE: &str = "\
Example:
  eval \"$(pcmctl env)\" && $MPICC $PCM_CFLAGS -o app app.c $PCM_LIBS
  pcmcc -o app app.c                                                   the same in one step";

#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, _cluster: &ClusterDir) -> Result<i32, Failure> {
    let flags = BuildFlags::find(Language::C)?;
    let mpicc = flags.compiler.display().to_string();
    let link = flags.link(flags.abi(&[]));
    let compile = flags.compile();
    if args.json {
        let document = serde_json::json!({"PCM_CFLAGS": compile, "PCM_LIBS": link, "MPICC": mpicc});
        output::print_json(&document)?;
        return Ok(0);
    }
    let mut text = String::new();
    if [&compile, &link]
        .into_iter()
        .flatten()
        .any(|flag| flag.contains(char::is_whitespace))
    {
        text.push_str("# a path contains white space, at which a shell splits: compile with pcmcc instead\n");
    }
    for (name, value) in [
        ("PCM_CFLAGS", compile.join(" ")),
        ("PCM_LIBS", link.join(" ")),
        ("MPICC", mpicc),
    ] {
        text.push_str(&format!("export {name}={}\n", quote(&value)));
    }
    output::print(&text)?;
    Ok(0)
}

/// Quotes the text as one shell word.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_quoted_text_is_one_word() {
        assert_eq!(super::quote("-I/a b"), "'-I/a b'");
        assert_eq!(super::quote("it's"), r"'it'\''s'");
    }
}
