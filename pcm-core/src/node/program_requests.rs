//! What programs request for themselves: a number of ranks. The request goes to the job's coordinator like that of a
//! person; the program receives no answer, it sees the change or none.

use pcm_proto::control::{ControlToDaemon, DaemonToControl, LayoutChange};
use pcm_proto::ids::JobId;
use pcm_proto::layout::ModeWanted;
use pcm_proto::peer::Answer;
use std::cmp::Ordering;
use std::time::Duration;

/// Time for the change to be made or refused; it only bounds what is remembered, for the program does not wait.
pub const REQUEST_WITHIN: Duration = Duration::from_secs(300);

/// The request for the coordinator of a job that has `size` ranks; none where nothing changes.
pub fn request(job: JobId, ranks: u32, size: u32) -> Option<ControlToDaemon> {
    let change = match ranks.cmp(&size) {
        Ordering::Greater => LayoutChange::Expand {
            to: ranks,
            nodes: Vec::new(),
        },
        Ordering::Less => LayoutChange::Shrink { to: ranks },
        Ordering::Equal => return None,
    };
    Some(ControlToDaemon::Reconfigure {
        job,
        change,
        mode: ModeWanted::Auto,
        cause: "the program".to_owned(),
        method: None,
    })
}

/// The coordinator made the change, or not.
pub fn on_answer(job: JobId, answer: Option<Answer>) {
    let answer = match answer {
        Some(Answer::Control(answer)) => Some(*answer),
        _ => None,
    };
    match answer {
        Some(DaemonToControl::Reconfigured(_)) => {}
        Some(DaemonToControl::Refused(refusal)) => {
            tracing::info!(%job, code = refusal.code, refusal.message, "the request of a program was refused");
        }
        _ => tracing::warn!(%job, "the request of a program was not answered"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_requests_the_ranks_it_has_requests_nothing() {
        assert_eq!(request(JobId(1), 4, 4), None);
        let of = |ranks| match request(JobId(1), ranks, 4) {
            Some(ControlToDaemon::Reconfigure { change, .. }) => change,
            other => panic!("{other:?}"),
        };
        assert_eq!(of(3), LayoutChange::Shrink { to: 3 });
        assert_eq!(
            of(5),
            LayoutChange::Expand {
                to: 5,
                nodes: Vec::new()
            }
        );
    }
}
