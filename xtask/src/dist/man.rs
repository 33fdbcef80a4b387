//! Manual pages of the programs that are called without verbs, made of what they say to `--help`.

use super::{layout, stage};
use crate::{environment::Environment, failure::Failure};
use std::path::Path;

/// A program and what it is for, and the arguments that make it say more than with `--help` alone.
struct Program {
    name: &'static str,
    summary: &'static str,
    more: Option<&'static str>,
}

const PROGRAMS: [Program; 4] = [
    Program {
        name: "pcmcc",
        summary: "compile and link a C program with libpcm",
        more: None,
    },
    Program {
        name: "pcmcxx",
        summary: "compile and link a C++ program with libpcm",
        more: None,
    },
    Program {
        name: "pcmfort",
        summary: "compile and link a Fortran program with libpcm",
        more: None,
    },
    Program {
        name: "pcm-daemon",
        summary: "daemon and keeper of a node that runs malleable MPI jobs",
        more: Some("join"),
    },
];

/// Writes them into an installation that has the programs.
pub(super) fn fill(environment: &Environment, stage: &Path) -> Result<(), Failure> {
    for Program { name, summary, more } in PROGRAMS {
        let said = |arguments: &[&str]| {
            let mut program = environment.command(stage.join("bin").join(name));
            let output = program.args(arguments).output().map_err(Failure::start(name))?;
            Ok::<_, Failure>(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let mut texts = vec![said(&["--help"])?];
        if let Some(verb) = more {
            texts.push(said(&[verb, "--help"])?);
        }
        let file = stage.join(layout::MAN).join(format!("{name}.1"));
        stage::write(&file, page(name, summary, &texts), 0o644)?;
    }
    Ok(())
}

/// A page with these texts as they are.
fn page(name: &str, summary: &str, texts: &[String]) -> String {
    let (title, version) = (name.replace('-', "\\-"), env!("CARGO_PKG_VERSION"));
    let mut page = format!(".TH {title} 1 \"\" \"pcm {version}\"\n.SH NAME\n{title} \\- {summary}\n.SH DESCRIPTION\n");
    for text in texts {
        page += ".nf\n";
        text.trim_end().lines().for_each(|line| page += &in_troff(line));
        page += ".fi\n.PP\n";
    }
    page + ".SH SEE ALSO\n.BR pcmctl (1)\n"
}

/// A line in which nothing is an order to troff.
fn in_troff(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    let guard = if line.starts_with(['.', '\'']) { "\\&" } else { "" };
    format!("{guard}{line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_lines_as_they_are() {
        let text = "Usage: a -O2\n.so is no order\n'nor this \\ one\n".to_owned();
        let page = page("a-b", "do it", &[text]);
        for line in [
            ".SH NAME\na\\-b \\- do it\n",
            "\nUsage: a \\-O2\n",
            "\n\\&.so is no order\n",
            "\n\\&'nor this \\e one\n",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
    }
}
