//! A limit on how often something may happen.

use crate::moment::Moment;

/// A number of uses that grows with time, up to a second's worth.
#[derive(Debug)]
pub struct Allowance {
    per_s: f64,
    left: f64,
    at: Moment,
}

impl Allowance {
    /// A full one.
    pub fn new(per_s: f64, now: Moment) -> Self {
        Self {
            per_s,
            left: per_s,
            at: now,
        }
    }

    /// Uses it once; false where nothing is left.
    pub fn take(&mut self, now: Moment) -> bool {
        self.left = (self.left + now.since(self.at).as_secs_f64() * self.per_s).min(self.per_s);
        self.at = now;
        let is_left = self.left >= 1.0;
        if is_left {
            self.left -= 1.0;
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_shouts_is_heard_so_often_and_no_more() {
        let mut allowance = Allowance::new(10.0, Moment(0));
        let heard = |allowance: &mut Allowance, now| (0..1000).filter(|_| allowance.take(Moment(now))).count();
        assert_eq!(heard(&mut allowance, 0), 10);
        assert_eq!(heard(&mut allowance, 500_000), 5);
        assert_eq!(heard(&mut allowance, 9_000_000), 10, "no more than a second's worth");
    }
}
