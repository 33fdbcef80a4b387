//! Chooses between datagrams and connections for one exchange with a group, from what each was measured to cost on this
//! fabric. Pure: measures nothing and sends nothing.

use crate::datagram::MESSAGE_LENGTH_MAX;
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// What an exchange with a group costs over one service: `fixed + members × (member + bytes × byte)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Microseconds, however many members there are.
    pub fixed_us: f64,
    /// Microseconds for each member.
    pub member_us: f64,
    /// Microseconds for each byte to each member.
    pub byte_us: f64,
}

/// One measurement: members, bytes to each, and how long it took.
pub type Sample = (usize, usize, Duration);

impl Cost {
    /// The cost that fits the samples best (least squares of relative errors); `None` when they do not tell its three
    /// parts apart.
    pub fn fitted(samples: &[Sample]) -> Option<Self> {
        let mut sums = [[0.0_f64; 4]; 3];
        for (members, bytes, took) in samples {
            let took = took.as_secs_f64() * 1e6;
            let members = *members as f64;
            let row = [1.0, members, members * *bytes as f64].map(|part| part / took.max(1.0));
            for (sum, left) in sums.iter_mut().zip(row) {
                for (cell, right) in sum.iter_mut().zip(row) {
                    *cell += left * right;
                }
                sum[3] += left;
            }
        }
        let [fixed, member, byte] = solve(sums)?;
        Some(Self {
            fixed_us: fixed.max(0.0),
            member_us: member.max(0.0),
            byte_us: byte.max(0.0),
        })
    }

    /// Microseconds for this exchange.
    pub fn of(&self, members: usize, bytes: usize) -> f64 {
        self.fixed_us + members as f64 * (self.member_us + bytes as f64 * self.byte_us)
    }
}

/// Gauss elimination with the largest pivot; `None` when the rows depend on each other.
fn solve(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot = (column..3).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        if rows[column][column].abs() < 1e-12 {
            return None;
        }
        let upper = rows[column];
        for (at, row) in rows.iter_mut().enumerate() {
            if at != column {
                let factor = row[column] / upper[column];
                for (cell, above) in row.iter_mut().zip(upper) {
                    *cell -= factor * above;
                }
            }
        }
    }
    Some([0, 1, 2].map(|at| rows[at][3] / rows[at][at]))
}

/// How to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Service {
    /// Without a connection.
    Datagram,
    /// Over a connection to each member.
    Connection,
}

/// What was chosen, and the numbers that say why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// What to use.
    pub service: Service,
    /// Microseconds over datagrams; `None` where the payload is too long for them.
    pub datagram_us: Option<f64>,
    /// Microseconds over connections.
    pub connection_us: f64,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.service {
            Service::Datagram => "datagrams",
            Service::Connection => "connections",
        };
        match self.datagram_us {
            Some(datagram) => write!(
                f,
                "{name}: {datagram:.0} us over datagrams, {:.0} us over new connections",
                self.connection_us
            ),
            None => write!(f, "{name}: too long for datagrams"),
        }
    }
}

/// What was measured on this fabric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    pub datagram: Cost,
    /// Over connections that must be made first.
    pub connection: Cost,
}

impl Default for Tuning {
    /// Measured on the loopback of a two-core machine (bench `fabric`); `pcmctl doctor --tune` measures another fabric.
    fn default() -> Self {
        Self {
            datagram: Cost {
                fixed_us: 20.0,
                member_us: 65.0,
                byte_us: 0.006,
            },
            connection: Cost {
                fixed_us: 20.0,
                member_us: 340.0,
                byte_us: 0.004,
            },
        }
    }
}

impl Tuning {
    /// Chooses for `bytes` to each of `members`, where no connections exist yet. With one already there, use it.
    pub fn choose(&self, members: usize, bytes: usize) -> Choice {
        let connection_us = self.connection.of(members, bytes);
        let datagram_us = (bytes <= MESSAGE_LENGTH_MAX).then(|| self.datagram.of(members, bytes));
        let service = match datagram_us {
            Some(datagram) if datagram <= connection_us => Service::Datagram,
            _ => Service::Connection,
        };
        Choice {
            service,
            datagram_us,
            connection_us,
        }
    }

    /// The fewest bytes at which connections are chosen for a group of this size.
    pub fn threshold(&self, members: usize) -> usize {
        let (mut low, mut high) = (0, MESSAGE_LENGTH_MAX + 1);
        // Both costs are straight lines in the bytes, so they cross once at most.
        if self.choose(members, 0).service == Service::Connection {
            return 0;
        }
        while low + 1 < high {
            let middle = low.midpoint(high);
            match self.choose(members, middle).service {
                Service::Datagram => low = middle,
                Service::Connection => high = middle,
            }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TUNING: Tuning = Tuning {
        datagram: Cost {
            fixed_us: 50.0,
            member_us: 40.0,
            byte_us: 0.02,
        },
        connection: Cost {
            fixed_us: 100.0,
            member_us: 300.0,
            byte_us: 0.005,
        },
    };

    #[test]
    fn a_cost_is_found_again_from_its_samples() {
        let samples: Vec<Sample> = [1, 4, 16, 64]
            .into_iter()
            .flat_map(|members| [0, 1000, 30_000].map(|bytes| (members, bytes)))
            .map(|(members, bytes)| {
                let took = Duration::from_secs_f64(TUNING.connection.of(members, bytes) / 1e6);
                (members, bytes, took)
            })
            .collect();
        let fitted = Cost::fitted(&samples).unwrap();
        for (found, true_cost) in [
            (fitted.fixed_us, 100.0),
            (fitted.member_us, 300.0),
            (fitted.byte_us, 0.005),
        ] {
            assert!((found / true_cost - 1.0).abs() < 1e-3, "{fitted:?}");
        }
        assert_eq!(Cost::fitted(&samples[..1]), None);
    }

    #[test]
    fn the_threshold_is_where_the_choice_changes() {
        for members in [1, 8, 64] {
            let at = TUNING.threshold(members);
            assert!(at > 0 && at <= MESSAGE_LENGTH_MAX);
            assert_eq!(TUNING.choose(members, at - 1).service, Service::Datagram);
            assert_eq!(TUNING.choose(members, at).service, Service::Connection);
        }
    }

    #[test]
    fn what_is_too_long_for_a_datagram_goes_over_a_connection() {
        let mut slow = TUNING;
        slow.connection.member_us = 1e9;
        let choice = slow.choose(1, MESSAGE_LENGTH_MAX + 1);
        assert_eq!(choice.service, Service::Connection);
        assert_eq!(choice.to_string(), "connections: too long for datagrams");
        assert_eq!(slow.threshold(1), MESSAGE_LENGTH_MAX + 1);
    }
}
