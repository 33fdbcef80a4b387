//! The agent's words as the node's, cut to size, and the node's answer as the agent's.

use crate::node::layout_request::LayoutAsked;
use pcm_proto::agent::ProposalOutcome;
use pcm_proto::control::{DaemonToControl, LayoutChange, Refusal};
use pcm_proto::event::Decision;
use pcm_proto::ids::{Bytes, JobId};
use pcm_proto::layout::ModeWanted;
use pcm_proto::refusal;

/// Longest text an agent may put into an event.
pub(super) const TEXT_MAX: usize = 1000;

/// Alternatives a decision may name.
const CONSIDERED_MAX: usize = 16;

pub(super) fn proposed(job: JobId, change: LayoutChange, cause: String) -> LayoutAsked {
    LayoutAsked {
        job,
        change,
        mode: ModeWanted::Live,
        cause: cut(cause),
        method: None,
    }
}

/// What the agent learns of its proposal.
pub(in crate::node) fn outcome(answer: DaemonToControl) -> ProposalOutcome {
    match answer {
        DaemonToControl::Reconfigured(done) => ProposalOutcome::Done {
            pause_ms: done.pause_ms,
            // Data that travelled ahead held no rank up.
            bytes_moved: Bytes(done.bytes_moved.0.saturating_sub(done.bytes_ahead.0)),
            total_ms: done.total_ms,
        },
        DaemonToControl::Refused(Refusal { code, message }) => ProposalOutcome::Refused { code, message },
        other => ProposalOutcome::Refused {
            code: refusal::NOT_SUPPORTED.to_owned(),
            message: format!("an unexpected answer: {other:?}"),
        },
    }
}

pub(super) fn limited(mut decision: Box<Decision>) -> Box<Decision> {
    decision.policy = cut(decision.policy);
    decision.reason = cut(decision.reason);
    decision.chosen = decision.chosen.map(cut);
    decision.considered.truncate(CONSIDERED_MAX);
    for (words, _) in &mut decision.considered {
        *words = cut(std::mem::take(words));
    }
    decision
}

fn cut(mut text: String) -> String {
    if text.len() > TEXT_MAX {
        let end = (0..=TEXT_MAX).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("ä".repeat(TEXT_MAX)).len(), TEXT_MAX);
        assert_eq!(cut("x".to_owned()), "x");
    }
}
