//! Names and numbers of signals.

/// Signals a job can be sent, by name without `SIG`. Numbers are those of Linux on every architecture Rust's MPI
/// platforms use.
const NAMES: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CHLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("URG", 23),
    ("WINCH", 28),
];

/// Highest signal number of Linux.
const SIGNAL_MAX: i32 = 64;

/// Reads `USR1`, `SIGUSR1`, `usr1` or `10`.
pub fn parse(text: &str) -> Result<i32, String> {
    if let Ok(number) = text.parse::<i32>() {
        return if (1..=SIGNAL_MAX).contains(&number) {
            Ok(number)
        } else {
            Err(format!(
                "signal {number} does not exist: numbers go from 1 to {SIGNAL_MAX}"
            ))
        };
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    NAMES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|&(_, number)| number)
        .ok_or_else(|| format!("{text:?} is no signal: use a name such as USR1 or TERM, or a number"))
}

/// The signal's name, or its number where it has none here.
pub fn name(number: i32) -> String {
    let known = NAMES.iter().find(|&&(_, known)| known == number);
    known.map_or_else(|| format!("signal {number}"), |(name, _)| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_mean_the_same() {
        for text in ["USR1", "SIGUSR1", "usr1", "10"] {
            assert_eq!(parse(text), Ok(10), "{text}");
        }
        assert_eq!(name(10), "SIGUSR1");
        assert_eq!(name(40), "signal 40");
    }

    #[test]
    fn what_is_no_signal_is_refused() {
        for text in ["", "0", "65", "-9", "NOPE"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
