//! All policies, and which of them a name stands for. Pure.

use super::{ats::Ats, cost::Cost, interface::Policy, none::Nothing, nts::Nts, random::Random, rsm::Rsm};

/// All policies; the first is the default.
pub const POLICIES: [&dyn Policy; 6] = [&Cost, &Rsm, &Ats, &Nts, &Random, &Nothing];

/// The policy of a name; the default for the empty name, none for one that does not exist.
pub fn policy(name: &str) -> Option<&'static dyn Policy> {
    if name.is_empty() {
        return Some(POLICIES[0]);
    }
    POLICIES.into_iter().find(|policy| policy.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_for_its_policy_and_no_name_for_the_default() {
        for known in POLICIES {
            assert_eq!(policy(known.name()).map(|found| found.name()), Some(known.name()));
        }
        assert_eq!(POLICIES.map(|policy| policy.name()), pcm_proto::agent::POLICY_NAMES);
        assert_eq!(policy("").map(|found| found.name()), Some("cost"));
        assert!(policy("best").is_none());
    }
}
