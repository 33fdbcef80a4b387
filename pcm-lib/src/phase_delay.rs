//! Makes one phase of reconfigurations last in this process: `PCM_HOLD=PHASE:MS` in the environment of a job. It is
//! there for tests that kill something in a phase, which is over in milliseconds otherwise. Must never change anything
//! but the time: the process does what it would do, later, as on a slow machine.

use crate::start_error::StartError;
use pcm_proto::{app::environment, reconfiguration::Phase};
use std::{env, ffi::OsStr, thread, time::Duration};

/// A delay longer than a daemon waits shows nothing new.
const DELAY_MAX_MS: u64 = 60_000;

const PHASES: [Phase; 6] = [
    Phase::Preparing,
    Phase::Converging,
    Phase::Meeting,
    Phase::Moving,
    Phase::Starting,
    Phase::Closing,
];

/// The phase that lasts, and how much longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhaseDelay {
    phase: Phase,
    time: Duration,
}

impl PhaseDelay {
    /// What the environment says.
    pub(crate) fn read() -> Result<Option<Self>, StartError> {
        let Some(value) = env::var_os(environment::HOLD) else {
            return Ok(None);
        };
        parse(&value).map(Some).ok_or_else(|| StartError::Variable {
            name: environment::HOLD,
            value: Some(value.to_string_lossy().into_owned()),
        })
    }

    /// Sleeps if this is the phase.
    pub(crate) fn at(self, phase: Phase) {
        if phase == self.phase {
            thread::sleep(self.time);
        }
    }
}

fn parse(value: &OsStr) -> Option<PhaseDelay> {
    let (name, ms) = value.to_str()?.split_once(':')?;
    let phase = PHASES.into_iter().find(|phase| phase.as_str() == name)?;
    let ms = ms.parse().ok().filter(|ms| *ms <= DELAY_MAX_MS)?;
    Some(PhaseDelay {
        phase,
        time: Duration::from_millis(ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_and_a_time_are_read() {
        let expected = PhaseDelay {
            phase: Phase::Meeting,
            time: Duration::from_millis(1500),
        };
        assert_eq!(parse(OsStr::new("meeting:1500")), Some(expected));
    }

    #[test]
    fn what_names_no_phase_or_no_sensible_time_is_refused() {
        for value in [
            "",
            "meeting",
            "meeting:",
            "meeting:x",
            "talking:5",
            "moving:60001",
            "moving:-1",
        ] {
            assert_eq!(parse(OsStr::new(value)), None, "{value}");
        }
    }
}
