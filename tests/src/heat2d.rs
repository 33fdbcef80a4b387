//! Runs of heat2d: what they are told, and what the closing line must say. The truth of a run is its checksum.

pub use plate::reference_checksum;

/// A plate and for how long it is computed.
#[derive(Debug, Clone, Copy)]
pub struct Plate {
    pub rows: usize,
    pub cols: usize,
    pub iterations: u64,
    /// Pause of each rank in each iteration.
    pub sleep_us: u32,
}

impl Plate {
    /// The program's arguments.
    pub fn arguments(&self) -> Vec<String> {
        let Self {
            rows,
            cols,
            iterations,
            sleep_us,
        } = self;
        let line = format!("--rows {rows} --cols {cols} --iterations {iterations} --sleep-us {sleep_us}");
        line.split(' ').map(str::to_owned).collect()
    }

    /// The checksum of an undisturbed run.
    pub fn checksum(&self) -> String {
        reference_checksum(self.rows, self.cols, self.iterations)
    }
}

/// The closing line of heat2d, taken apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Closing {
    /// Iterations asked for.
    pub iterations: u64,
    /// Ranks at the end.
    pub ranks: u32,
    /// Time of the iterations.
    pub seconds: f64,
    /// Hash over the whole plate, as 16 hexadecimal digits.
    pub checksum: String,
}

impl Closing {
    /// Reads the one closing line in `stdout`, which must be its last line.
    ///
    /// # Panics
    /// When there is none, more than one, or it is malformed.
    pub fn read(stdout: &str) -> Self {
        let closings = stdout
            .lines()
            .filter(|line| line.starts_with("heat2d: iterations "))
            .count();
        assert_eq!(closings, 1, "exactly one closing line is wanted in:\n{stdout}");
        let words: Vec<&str> = stdout.lines().last().unwrap_or_default().split(' ').collect();
        let [
            "heat2d:",
            "iterations",
            iterations,
            "ranks",
            ranks,
            "seconds",
            seconds,
            "checksum",
            checksum,
        ] = words[..]
        else {
            panic!("not a closing line: {words:?}");
        };
        assert!(
            checksum.len() == 16 && u64::from_str_radix(checksum, 16).is_ok(),
            "not a checksum: {checksum}"
        );
        Self {
            iterations: iterations.parse().expect("iterations in the closing line"),
            ranks: ranks.parse().expect("ranks in the closing line"),
            seconds: seconds.parse().expect("seconds in the closing line"),
            checksum: checksum.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closing_line_is_read() {
        let closing = Closing::read("noise\nheat2d: iterations 5 ranks 2 seconds 0.25 checksum 0123456789abcdef\n");
        assert_eq!((closing.iterations, closing.ranks, closing.seconds), (5, 2, 0.25));
    }

    #[test]
    #[should_panic(expected = "exactly one closing line")]
    fn two_closing_lines_are_refused() {
        let line = "heat2d: iterations 5 ranks 2 seconds 0.25 checksum 0123456789abcdef\n";
        Closing::read(&format!("{line}{line}"));
    }
}
