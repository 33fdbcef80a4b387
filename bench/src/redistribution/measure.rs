//! The rounds: a job goes from few ranks to many and back by every method. The daemons' choice runs beside the methods,
//! in the same rounds. How a job is started and changed is its owner's affair.

use super::cell::{Cell, Metric};
use super::plan::{self, Data, Pair, Plan};
use pcm_proto::event::Reconfigured;
use pcm_proto::method::Method;

/// Rounds after which those that are clearly behind in both directions are measured no more.
const ROUNDS_OF_ALL: u32 = 7;

/// What a change did.
#[derive(Debug)]
pub struct Change {
    pub done: Reconfigured,
    /// Largest peak of resident memory of a rank on this machine after it; 0 where none can be seen.
    pub peak_kib: u64,
}

/// A job that is there to be changed. An error ends the measurement.
pub trait ChangingJob {
    type Failure;

    /// Changes its size by a method, or the one the daemons choose; an error also when an element of its data is wrong
    /// afterwards.
    fn resize(
        &mut self,
        from: u32,
        to: u32,
        method: Option<Method>,
    ) -> impl Future<Output = Result<Change, Self::Failure>>;

    /// Ends it and waits until it is gone.
    fn end(self) -> impl Future<Output = Result<(), Self::Failure>>;
}

/// One job, there and back by each candidate, in another order each round.
pub async fn measure<J: ChangingJob>(mut job: J, plan: &Plan, pair: Pair, data: Data) -> Result<[Cell; 2], J::Failure> {
    let Pair { few, many } = pair;
    let mut there = Cell::new(few, many, data, plan.mib);
    let mut back = Cell::new(many, few, data, plan.mib);
    // The first changes bring the programs and what MPI needs into memory.
    job.resize(few, many, Method::all().last()).await?;
    job.resize(many, few, Method::all().next()).await?;
    for round in 0..plan.learn {
        for method in plan::order(round).filter_map(plan::method) {
            job.resize(few, many, Some(method)).await?;
            job.resize(many, few, Some(method)).await?;
        }
    }
    let mut in_the_race = [true; plan::CANDIDATES];
    for round in 0..plan.rounds {
        if round >= ROUNDS_OF_ALL {
            for (candidate, is_in) in in_the_race.iter_mut().enumerate() {
                *is_in &= [&there, &back]
                    .iter()
                    .any(|cell| cell.is_in_the_race(candidate, Metric::Pause));
            }
        }
        for candidate in plan::order(round).filter(|candidate| in_the_race[*candidate]) {
            let method = plan::method(candidate);
            there.push(candidate, &job.resize(few, many, method).await?);
            back.push(candidate, &job.resize(many, few, method).await?);
        }
    }
    job.end().await?;
    Ok([there, back])
}
