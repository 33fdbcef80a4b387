//! What programs request for themselves: a number of ranks. The request goes to the job's coordinator like that of a
//! person; the program receives no answer, it sees the change or none. A refusal is an event of the job.

use pcm_proto::control::{ControlToDaemon, DaemonToControl, LayoutChange};
use pcm_proto::event::EventKind;
use pcm_proto::ids::JobId;
use pcm_proto::layout::ModeWanted;
use pcm_proto::peer::Answer;
use pcm_proto::refusal;
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

/// What is to be noted of the coordinator's answer: nothing where it made the change.
pub fn on_answer(answer: Option<Answer>) -> Option<EventKind> {
    let answer = match answer {
        Some(Answer::Control(answer)) => Some(*answer),
        _ => None,
    };
    let (code, reason) = match answer {
        Some(DaemonToControl::Reconfigured(_)) => return None,
        Some(DaemonToControl::Refused(refusal)) => (refusal.code, refusal.message),
        _ => {
            let reason = "the job's coordinator did not answer in time";
            (refusal::NODE_UNREACHABLE.to_owned(), reason.to_owned())
        }
    };
    Some(EventKind::RequestRefused { code, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::control::Refusal;

    #[test]
    fn a_refusal_is_noted_and_so_is_silence() {
        let refused = Refusal::new(refusal::BAD_LAYOUT, "it cannot run on 3 ranks");
        let answer = |answer| Some(Answer::Control(Box::new(answer)));
        let noted = on_answer(answer(DaemonToControl::Refused(refused)));
        let Some(EventKind::RequestRefused { code, reason }) = noted else {
            panic!("{noted:?}");
        };
        assert_eq!(
            (code.as_str(), reason.as_str()),
            ("bad_layout", "it cannot run on 3 ranks")
        );
        assert!(on_answer(None).is_some());
    }

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
