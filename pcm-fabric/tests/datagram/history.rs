//! What happened to each exchange, and whether that is allowed.

use std::{collections::BTreeMap, time::Duration};

/// One message, from its sender's and its receiver's view.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) due: Duration,
    pub(crate) delivered: u32,
    pub(crate) outcome: Option<(Duration, bool)>,
    pub(crate) outcomes: u32,
    /// The sender's life ended first, so nobody is left to be told.
    pub(crate) is_orphan: bool,
    /// It must succeed: enough time, and nobody at either end restarts.
    pub(crate) must_succeed: bool,
}

#[derive(Default, Debug)]
pub(crate) struct History {
    pub(crate) exchanges: BTreeMap<u64, Exchange>,
}

impl History {
    pub(crate) fn begin(&mut self, label: u64, due: Duration) {
        self.exchanges.insert(
            label,
            Exchange {
                due,
                delivered: 0,
                outcome: None,
                outcomes: 0,
                is_orphan: false,
                must_succeed: false,
            },
        );
    }

    pub(crate) fn delivered(&mut self, label: u64) {
        self.exchanges.get_mut(&label).unwrap().delivered += 1;
    }

    pub(crate) fn finished(&mut self, label: u64, now: Duration, ok: bool) {
        let exchange = self.exchanges.get_mut(&label).unwrap();
        exchange.outcome = Some((now, ok));
        exchange.outcomes += 1;
    }

    /// The first rule that was broken.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (label, exchange) in &self.exchanges {
            let broken = |rule: &str| Err(format!("exchange {label} {rule}: {exchange:?}"));
            if exchange.delivered > 1 {
                return broken("was delivered more than once");
            }
            match exchange.outcome {
                None if !exchange.is_orphan => return broken("has no outcome"),
                Some((when, _)) if when > exchange.due => return broken("was reported after its deadline"),
                Some((_, true)) if exchange.delivered != 1 => return broken("was confirmed but not delivered"),
                Some((_, false)) if exchange.must_succeed => return broken("failed without need"),
                _ => {}
            }
            if exchange.outcomes > 1 {
                return broken("was reported twice");
            }
        }
        Ok(())
    }
}

#[test]
fn each_broken_rule_is_seen() {
    let plant = |change: &dyn Fn(&mut Exchange)| {
        let mut history = History::default();
        history.begin(1, Duration::from_secs(1));
        history.delivered(1);
        history.finished(1, Duration::from_millis(5), true);
        change(history.exchanges.get_mut(&1).unwrap());
        history.check()
    };
    plant(&|_| ()).unwrap();
    assert!(plant(&|exchange| exchange.delivered = 2).is_err());
    assert!(plant(&|exchange| exchange.delivered = 0).is_err());
    assert!(plant(&|exchange| exchange.outcome = None).is_err());
    assert!(plant(&|exchange| exchange.outcomes = 2).is_err());
    assert!(plant(&|exchange| exchange.outcome = Some((Duration::from_secs(2), true))).is_err());
    assert!(
        plant(&|exchange| {
            exchange.outcome = Some((Duration::ZERO, false));
            exchange.must_succeed = true;
        })
        .is_err()
    );
}
