//! What a link costs, from what was measured on it anyway: times of messages, or of bytes. Whatever disturbs a
//! measurement makes it longer, and most are disturbed where ranks take all CPUs; so of each slot of time the least
//! counts, and of the slots the second least. One exception, however far off, decides nothing. Pure.

use crate::moment::Moment;
use std::collections::VecDeque;
use std::time::Duration;

/// Slots that are kept.
const SLOTS_MAX: usize = 30;

/// With fewer slots it could be the exception that is believed.
const SLOTS_MIN: usize = 3;

/// The measurements of one kind on one link.
#[derive(Clone, Debug)]
pub struct LinkWindow {
    slot: Duration,
    age_max: Duration,
    /// Where each slot begins, and the least cost in it.
    least: VecDeque<(Moment, f64)>,
    last: Option<Moment>,
}

impl LinkWindow {
    /// Measurements within a slot count as one; those older than `age_max` count no longer.
    pub fn new(slot: Duration, age_max: Duration) -> Self {
        Self {
            slot,
            age_max,
            least: VecDeque::new(),
            last: None,
        }
    }

    /// Takes in a measurement.
    pub fn note(&mut self, now: Moment, cost: f64) {
        if !cost.is_finite() || cost < 0.0 {
            return;
        }
        self.last = Some(now);
        match self.least.back_mut() {
            Some((began, least)) if now.since(*began) < self.slot => *least = least.min(cost),
            _ => self.least.push_back((now, cost)),
        }
        if self.least.len() > SLOTS_MAX {
            self.least.pop_front();
        }
    }

    /// What the link costs, once enough is known.
    pub fn cost(&self, now: Moment) -> Option<f64> {
        let fresh = self.least.iter().filter(|(began, _)| now.since(*began) < self.age_max);
        let mut costs: Vec<f64> = fresh.map(|(_, cost)| *cost).collect();
        costs.sort_by(f64::total_cmp);
        costs.get(1).copied().filter(|_| costs.len() >= SLOTS_MIN)
    }

    /// When it was measured last.
    pub fn last(&self) -> Option<Moment> {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn window(costs: &[f64]) -> LinkWindow {
        let mut window = LinkWindow::new(Duration::from_secs(1), Duration::from_secs(60));
        let at = |slot: usize| Moment(slot as u64 * SECOND);
        costs
            .iter()
            .enumerate()
            .for_each(|(slot, cost)| window.note(at(slot), *cost));
        window
    }

    #[test]
    fn one_exception_decides_nothing_whichever_way_it_is_off() {
        let usual = [100.0, 104.0, 101.0, 107.0, 102.0];
        for place in 0..usual.len() {
            for exception in [0.0, 1.0, 1e4, 1e9] {
                let mut costs = usual;
                costs[place] = exception;
                let cost = window(&costs).cost(Moment(5 * SECOND)).unwrap();
                assert!((100.0..=104.0).contains(&cost), "{exception} at {place}: {cost}");
            }
        }
    }

    #[test]
    fn a_link_that_is_disturbed_most_of_the_time_is_as_long_as_when_it_is_not() {
        let costs: Vec<f64> = (0..30).map(|slot| if slot % 10 == 3 { 100.0 } else { 9e3 }).collect();
        assert_eq!(window(&costs).cost(Moment(30 * SECOND)), Some(100.0));
    }

    #[test]
    fn many_measurements_at_once_are_one() {
        let mut window = window(&[]);
        (0..100).for_each(|at| window.note(Moment(at), 5.0));
        assert_eq!(window.cost(Moment(100)), None);
        window.note(Moment(SECOND), 7.0);
        window.note(Moment(2 * SECOND), 9.0);
        assert_eq!(window.cost(Moment(2 * SECOND)), Some(7.0));
    }

    #[test]
    fn a_link_that_has_become_longer_is_found_so_when_what_was_before_is_too_old() {
        let mut window = window(&[1.0; 20]);
        (20..100).for_each(|slot| window.note(Moment(slot * SECOND), 50.0));
        assert_eq!(window.cost(Moment(100 * SECOND)), Some(50.0));
        assert_eq!(window.cost(Moment(200 * SECOND)), None, "nothing was measured for long");
        assert_eq!(window.last(), Some(Moment(99 * SECOND)));
    }

    #[test]
    fn what_is_no_cost_is_not_taken() {
        let window = window(&[f64::NAN, f64::INFINITY, -1.0, 3.0, 3.0]);
        assert_eq!(window.cost(Moment(5 * SECOND)), None);
    }
}
