//! What each message between daemons needs: whether its order counts, whether a copy may arrive, how many nodes get
//! the same. Pure. Never chooses a transport.

use pcm_proto::ids::NodeName;
use pcm_proto::peer::{Answer, CoordinatorToNode, DaemonToDaemon, JobMessage, Question};
use pcm_proto::tree;

/// What the delivery of a message guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// The message may be lost, arrive twice, or overtake others.
    Unordered,
    /// The message arrives in order and once in each life of its receiver.
    Ordered,
    /// The same, and no other life of its receiver gets it: only a link carries it.
    OrderedOnce,
}

impl Delivery {
    pub(super) fn of(message: &DaemonToDaemon) -> Self {
        match message {
            DaemonToDaemon::Membership(_) | DaemonToDaemon::Report(_) | DaemonToDaemon::Agent(_) => Self::Unordered,
            DaemonToDaemon::Job { .. } => Self::Ordered,
            DaemonToDaemon::Ask { question, .. } => match **question {
                Question::Ping
                | Question::Report
                | Question::JobNumber
                | Question::Jobs
                | Question::JobsNamed { .. }
                | Question::Begun { .. }
                | Question::Ranks { .. }
                | Question::Look { .. }
                | Question::Stacks { .. }
                | Question::Events { .. } => Self::Unordered,
                Question::Trace { .. } | Question::Control(_) | Question::EndJobs | Question::Quit => Self::OrderedOnce,
            },
            DaemonToDaemon::Answer { answer, .. } => match **answer {
                Answer::Pong { .. }
                | Answer::Report(_)
                | Answer::JobNumber(_)
                | Answer::Jobs(_)
                | Answer::Ranks(_)
                | Answer::Begun(_)
                | Answer::Look(_)
                | Answer::Stacks(_)
                | Answer::Events(_) => Self::Unordered,
                Answer::Trace(_) | Answer::Control(_) | Answer::Done => Self::OrderedOnce,
            },
        }
    }
}

/// How many nodes `own` sends this message to.
pub(super) fn group_size(message: &DaemonToDaemon, own: &NodeName) -> usize {
    let DaemonToDaemon::Job { message, .. } = message else {
        return 1;
    };
    let JobMessage::ToNode(CoordinatorToNode::Start(order)) = &**message else {
        return 1;
    };
    let place = order.tree.iter().position(|node| node == own).unwrap_or(0);
    tree::children(place, order.tree.len()).len().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::control::ControlToDaemon;
    use pcm_proto::ids::JobId;

    fn ask(question: Question) -> DaemonToDaemon {
        DaemonToDaemon::Ask {
            ask: 1,
            question: Box::new(question),
        }
    }

    #[test]
    fn a_request_that_changes_something_is_never_sent_twice() {
        assert_eq!(Delivery::of(&ask(Question::Quit)), Delivery::OrderedOnce);
        let kill = ControlToDaemon::Kill { job: JobId(1) };
        let control = ask(Question::Control(Box::new(kill)));
        assert_eq!(Delivery::of(&control), Delivery::OrderedOnce);
        assert_eq!(Delivery::of(&ask(Question::Ping)), Delivery::Unordered);
    }

    #[test]
    fn messages_about_a_job_keep_their_order() {
        let message = Box::new(pcm_proto::peer::NodeToCoordinator::Emptied.into());
        let message = DaemonToDaemon::Job { job: JobId(1), message };
        assert_eq!(Delivery::of(&message), Delivery::Ordered);
    }
}
