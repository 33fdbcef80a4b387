//! The command line of heat2d. Must never print: only rank 0 may.

/// Text of `--help`.
pub(crate) const USAGE: &str = "\
usage: heat2d --rows R --cols C --iterations K [--progress] [--sleep-us U]

  --rows R --cols C   size of the plate with its border, 3 or more each
  --iterations K      number of steps
  --progress          report progress on stderr
  --sleep-us U        every rank sleeps U microseconds in each iteration

Example: mpiexec -n 4 heat2d --rows 1000 --cols 1000 --iterations 500
Exit codes: 0 done, 1 MPI does not start, 2 wrong command line.
";

/// What to compute.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) iterations: u64,
    pub(crate) sleep_us: u64,
    pub(crate) progress: bool,
    pub(crate) help: bool,
}

impl Options {
    /// Reads the arguments after the program's name; the error names the mistake.
    pub(crate) fn read(arguments: impl IntoIterator<Item = String>) -> Result<Self, &'static str> {
        let mut options = Self::default();
        let mut iterations = None;
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--help" => return Ok(Self { help: true, ..options }),
                "--progress" => options.progress = true,
                "--rows" => options.rows = number(arguments.next()).unwrap_or(0),
                "--cols" => options.cols = number(arguments.next()).unwrap_or(0),
                "--iterations" => iterations = number(arguments.next()),
                "--sleep-us" => options.sleep_us = number(arguments.next()).ok_or(TIMES)?,
                _ => return Err("unknown option"),
            }
        }
        if options.rows < 3 || options.cols < 3 {
            return Err("--rows and --cols must be whole numbers of 3 or more");
        }
        if i32::try_from(options.cols).is_err() {
            return Err("--cols must fit one MPI message");
        }
        options.iterations = iterations.ok_or(TIMES)?;
        Ok(options)
    }
}

const TIMES: &str = "--iterations and --sleep-us must be whole numbers of 0 or more";

fn number<N: std::str::FromStr>(argument: Option<String>) -> Option<N> {
    argument?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, &'static str> {
        Options::read(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_full_command_line_is_read() {
        let options = read("--rows 5 --cols 6 --iterations 7 --progress --sleep-us 8").unwrap();
        assert_eq!(
            options,
            Options {
                rows: 5,
                cols: 6,
                iterations: 7,
                sleep_us: 8,
                progress: true,
                help: false
            }
        );
    }

    #[test]
    fn a_missing_or_senseless_number_is_named() {
        assert!(read("--rows 5 --cols 2 --iterations 7").unwrap_err().contains("--cols"));
        assert!(read("--rows 5 --cols 6").unwrap_err().contains("--iterations"));
        assert!(read("--rows 5 --cols 6 --iterations -1").is_err());
        assert!(read("--rows 5 --cols 6 --iterations 1 --sleep-us").is_err());
        assert_eq!(read("--row 5"), Err("unknown option"));
    }
}
