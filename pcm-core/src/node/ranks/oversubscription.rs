//! What ranks are told of the node they wait on: whether processes outnumber its CPUs, and whether one starts. MPI polls
//! while it starts, and never yields; beside it, ranks that sleep often can keep a CPU from all others.

use super::effect::RankEffect;
use crate::moment::Moment;
use crate::node::outbox::Outbox;
use std::time::Duration;

/// A process that has not initialised MPI by then may never do so.
const START_MAX: Duration = Duration::from_secs(30);

/// Tells all ranks here, after a process came, went, or has initialised MPI. `starting` has the times at which the living
/// processes were first seen that have not.
pub fn tell_ranks(processes: usize, cpus: usize, starting: impl Iterator<Item = Moment>, out: &mut Outbox) {
    let until = starting.max().map(|since| since.plus(START_MAX));
    let starting_for = until.map_or(Duration::ZERO, |until| until.since(out.now()));
    out.rank(RankEffect::TellCrowd {
        is_crowded: processes > cpus,
        starting_for,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::outbox::Effect;
    use pcm_proto::ids::NodeName;

    fn told(processes: usize, starting: &[u64], now: Moment) -> (bool, Duration) {
        let mut out = Outbox::new(NodeName::new("n0").unwrap(), now);
        tell_ranks(processes, 2, starting.iter().map(|at| Moment(*at)), &mut out);
        match out.take().as_slice() {
            [
                Effect::Rank(RankEffect::TellCrowd {
                    is_crowded,
                    starting_for,
                }),
            ] => (*is_crowded, *starting_for),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ranks_hear_of_the_newest_start_for_half_a_minute() {
        let second = 1_000_000;
        assert_eq!(told(2, &[], Moment(second)), (false, Duration::ZERO));
        assert_eq!(
            told(3, &[0, 5 * second], Moment(10 * second)),
            (true, Duration::from_secs(25))
        );
        assert_eq!(told(3, &[0], Moment(31 * second)), (true, Duration::ZERO));
    }
}
