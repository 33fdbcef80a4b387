//! Several programs in one job, as users of `mpiexec` write them: `./ocean x : -n 3 ./ice y`.

use crate::failure::Failure;
use pcm_checkpoint::RanksOfProgram;
use pcm_proto::job::{Command, RANKS_MAX};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Between two programs, before the next one's number of ranks: alone it is an argument like others.
const BETWEEN: &str = ":";
const RANKS: [&str; 3] = ["-n", "-np", "--ranks"];

/// Some ranks and what they run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) ranks: u32,
    pub(crate) file: OsString,
    pub(crate) arguments: Vec<OsString>,
}

impl Program {
    /// As it travels.
    pub(crate) fn command(&self) -> Command {
        Command {
            count: self.ranks,
            program: self.file.as_bytes().to_vec(),
            args: self.arguments.iter().map(|word| word.as_bytes().to_vec()).collect(),
        }
    }

    /// As a checkpoint in files keeps it.
    pub(crate) fn record(&self) -> RanksOfProgram {
        let text = |word: &OsString| word.to_string_lossy().into_owned();
        RanksOfProgram {
            ranks: self.ranks,
            program: text(&self.file),
            arguments: self.arguments.iter().map(text).collect(),
        }
    }
}

/// The programs of a command line; so many ranks are for the first of them.
pub(crate) fn programs(ranks: u32, words: &[OsString]) -> Result<Vec<Program>, Failure> {
    let mut programs = Vec::new();
    let (mut ranks, mut rest) = (ranks, words);
    loop {
        let end = (0..rest.len()).find(|at| is_end(&rest[*at..])).unwrap_or(rest.len());
        let Some((file, arguments)) = rest[..end].split_first() else {
            let place = if programs.is_empty() { "'--'" } else { "': -n N'" };
            return Err(Failure::usage(format!("no program is given: write it after {place}")));
        };
        if file.as_bytes().starts_with(b"-") {
            return Err(no_option(&file.to_string_lossy()));
        }
        programs.push(Program {
            ranks,
            file: file.clone(),
            arguments: arguments.to_vec(),
        });
        let Some([_, option, next @ ..]) = rest.get(end..) else {
            return Ok(programs);
        };
        let (number, words) = next.split_first().unwrap_or((option, next));
        ranks = number_of_ranks(number)?;
        rest = words;
    }
}

/// What stands where a program should be is an option of others or mistyped.
fn no_option(word: &str) -> Failure {
    let for_variables = ["-x", "-env", "--env", "-genv"].contains(&word);
    let hint = if for_variables {
        "ranks have the environment of pcmctl, as in 'X=1 pcmctl run ...'".to_owned()
    } else {
        format!("'pcmctl run --help' lists all; a program of this name is './{word}'")
    };
    Failure::usage(format!("'pcmctl run' has no option {word}: {hint}"))
}

fn is_end(words: &[OsString]) -> bool {
    match words {
        [between, option, ..] => between == BETWEEN && RANKS.iter().any(|name| option == name),
        _ => false,
    }
}

fn number_of_ranks(word: &OsStr) -> Result<u32, Failure> {
    let number = word.to_str().and_then(|word| word.parse().ok());
    number.filter(|ranks| (1..=RANKS_MAX).contains(ranks)).ok_or_else(|| {
        Failure::usage(format!(
            "': -n {}': write the number of ranks of the next program, 1 to {RANKS_MAX}",
            word.to_string_lossy()
        ))
    })
}

/// The programs of a checkpoint in files.
pub(crate) fn recorded(programs: &[RanksOfProgram]) -> Vec<Program> {
    let program = |of_ranks: &RanksOfProgram| Program {
        ranks: of_ranks.ranks,
        file: OsString::from(&of_ranks.program),
        arguments: of_ranks.arguments.iter().map(OsString::from).collect(),
    };
    programs.iter().map(program).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn read(ranks: u32, line: &str) -> Result<Vec<(u32, String)>, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let shown = |program: Program| {
            let words = [program.file].into_iter().chain(program.arguments);
            let words: Vec<Vec<u8>> = words.map(OsString::into_vec).collect();
            (program.ranks, String::from_utf8(words.join(&b' ')).unwrap())
        };
        let programs = programs(ranks, &words).map_err(|failure| failure.to_string())?;
        Ok(programs.into_iter().map(shown).collect())
    }

    #[test]
    fn an_option_of_others_is_not_taken_for_a_program() {
        let refused = |words: &str| read(1, words).unwrap_err();
        assert!(refused("-x A=1 ./a").contains("no option -x: ranks have the environment of pcmctl"));
        assert!(refused("./a : -n 2 --lable ./b").contains("'pcmctl run --help' lists all"));
    }

    #[test]
    fn programs_are_told_apart_by_a_colon_and_their_numbers_of_ranks() {
        let of = |ranks: u32, words: &str| (ranks, words.to_owned());
        assert_eq!(read(4, "./a -n 3 :"), Ok(vec![of(4, "./a -n 3 :")]));
        assert_eq!(read(1, "./a x : y"), Ok(vec![of(1, "./a x : y")]), "an argument");
        assert_eq!(
            read(2, "./a x : -n 3 ./b -n 7 : -np 1 c"),
            Ok(vec![of(2, "./a x"), of(3, "./b -n 7"), of(1, "c")])
        );
    }

    #[test]
    fn what_is_no_program_or_number_is_named() {
        for (line, word) in [
            ("", "after '--'"),
            ("./a : -n 2", "after ': -n N'"),
            ("./a : -n", "number of ranks of the next program"),
            ("./a : -n x ./b", "': -n x'"),
            ("./a : -n 0 ./b", "': -n 0'"),
            ("./a : -n 2 : -n 2 ./b", "after ': -n N'"),
        ] {
            let said = read(1, line).unwrap_err();
            assert!(said.contains(word), "{line:?}: {said}");
        }
    }
}
