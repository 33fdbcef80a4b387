//! The requests of a job's processes for new worlds (`MPI_Comm_spawn`), and how far each is.

use super::process::Process;
use pcm_proto::ids::{NodeName, ProcessId, WorldId};
use pcm_proto::peer::CoordinatorToNode;
use pcm_proto::spawn::{SpawnAsk, SpawnedWorld};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who asked, and which of its requests it is.
pub(super) type Asker = (ProcessId, u32);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum State {
    /// The driver looks for nodes.
    Placing(Box<SpawnAsk>),
    /// The world starts.
    Starting { world: WorldId, size: u32 },
    /// A spare world was told whose child it is.
    Adopting { world: WorldId, ask: Box<SpawnAsk> },
    /// The asker was answered.
    Answered(Result<SpawnedWorld, String>),
}

/// Requests of all processes, the last one of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spawning {
    pub(super) requests: BTreeMap<ProcessId, Request>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) number: u32,
    pub(super) expires_us: u64,
    pub(super) state: State,
}

impl Spawning {
    pub(super) fn deadline(&self) -> Option<u64> {
        let open = self
            .requests
            .values()
            .filter(|request| !matches!(request.state, State::Answered(_)));
        open.map(|request| request.expires_us).min()
    }

    /// Answers that processes on this node may have missed.
    pub(super) fn results_for(
        &self,
        node: &NodeName,
        processes: &BTreeMap<ProcessId, Process>,
    ) -> Vec<CoordinatorToNode> {
        let mut results = Vec::new();
        for (process, request) in &self.requests {
            let State::Answered(result) = &request.state else {
                continue;
            };
            if processes
                .get(process)
                .is_some_and(|known| known.node == *node && !known.is_over())
            {
                results.push(CoordinatorToNode::SpawnResult {
                    process: *process,
                    number: request.number,
                    result: result.clone(),
                });
            }
        }
        results
    }

    pub(super) fn asker_of(&self, world: WorldId) -> Option<(Asker, u32)> {
        self.requests
            .iter()
            .find_map(|(process, request)| match &request.state {
                State::Starting { world: other, size } if *other == world => Some(((*process, request.number), *size)),
                State::Adopting { world: other, .. } if *other == world => Some(((*process, request.number), 1)),
                _ => None,
            })
    }

    /// Whether some request is not answered yet.
    pub(super) fn is_busy(&self) -> bool {
        let is_open = |request: &Request| !matches!(request.state, State::Answered(_));
        self.requests.values().any(is_open)
    }

    /// The spare worlds that were taken and have not answered, with what they were told.
    pub(super) fn adopting(&self) -> impl Iterator<Item = (WorldId, &SpawnAsk)> {
        self.requests.values().filter_map(|request| match &request.state {
            State::Adopting { world, ask } => Some((*world, &**ask)),
            _ => None,
        })
    }
}
