//! Limits as text, for clusters whose machines or tests need others than the defaults: `name=value` pairs with commas
//! between them, times in milliseconds.

use super::limits::Limits;
use std::time::Duration;

/// Why a text does not say limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitsError {
    /// There is no such limit.
    #[error("there is no limit {name:?}: see the table of limits in docs/protocol.md")]
    Unknown {
        /// What was given as its name.
        name: String,
    },
    /// It is no number above zero, or too large.
    #[error("limit {name} cannot be {value:?}: give a whole number above 0")]
    Value {
        name: String,
        /// What was given.
        value: String,
    },
}

impl Limits {
    /// These limits but for those that the text names.
    pub fn changed_by(mut self, text: &str) -> Result<Self, LimitsError> {
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let number = value.parse::<u32>().ok().filter(|number| *number > 0);
            let number = number.ok_or_else(|| LimitsError::Value {
                name: name.to_owned(),
                value: value.to_owned(),
            })?;
            if let Some(time) = self.time_mut(name) {
                *time = Duration::from_millis(u64::from(number));
            } else {
                *self
                    .count_mut(name)
                    .ok_or_else(|| LimitsError::Unknown { name: name.to_owned() })? = number;
            }
        }
        Ok(self)
    }

    fn time_mut(&mut self, name: &str) -> Option<&mut Duration> {
        Some(match name {
            "prepare_max" => &mut self.prepare_max,
            "ahead_max" => &mut self.ahead_max,
            "converge_max" => &mut self.converge_max,
            "meet_max" => &mut self.meet_max,
            "move_max" => &mut self.move_max,
            "close_max" => &mut self.close_max,
            "start_max" => &mut self.start_max,
            "settle_max" => &mut self.settle_max,
            "leave_max" => &mut self.leave_max,
            "resend_every" => &mut self.resend_every,
            "patience" => &mut self.patience,
            "ask_every" => &mut self.ask_every,
            "undecided_max" => &mut self.undecided_max,
            "candidate_step" => &mut self.candidate_step,
            "orphan_max" => &mut self.orphan_max,
            "gone_max" => &mut self.gone_max,
            "rank_max" => &mut self.rank_max,
            _ => return None,
        })
    }

    fn count_mut(&mut self, name: &str) -> Option<&mut u32> {
        Some(match name {
            "rounds_max" => &mut self.rounds_max,
            "worlds_in_communicator_max" => &mut self.worlds_in_communicator_max,
            "worlds_met_max" => &mut self.worlds_met_max,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_limits_change_and_no_others() {
        let changed = Limits::default().changed_by("worlds_met_max=8, meet_max=500").unwrap();
        let expected = Limits {
            worlds_met_max: 8,
            meet_max: Duration::from_millis(500),
            ..Limits::default()
        };
        assert_eq!(changed, expected);
        assert_eq!(Limits::default().changed_by(""), Ok(Limits::default()));
    }

    #[test]
    fn what_is_no_limit_is_named() {
        let refused = |text: &str| Limits::default().changed_by(text).unwrap_err().to_string();
        assert!(refused("speed=3").contains("\"speed\""));
        assert!(refused("meet_max=0").contains("meet_max"));
        assert!(refused("meet_max").contains("whole number"));
    }
}
