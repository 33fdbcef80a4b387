//! What programs ask for themselves: a number of ranks. Passed on to the job's coordinator like a person's request; the
//! program is not answered, it sees the change or none.

use super::asks::Purpose;
use super::daemon::Daemon;
use pcm_proto::control::{ControlToDaemon, DaemonToControl, LayoutChange};
use pcm_proto::ids::JobId;
use pcm_proto::keeper::ProcessKey;
use pcm_proto::layout::ModeWanted;
use pcm_proto::peer::Question;
use std::cmp::Ordering;
use std::time::Duration;

/// For the change to be made or refused; nobody waits for it, so this only bounds what is remembered.
const WISH_WITHIN: Duration = Duration::from_secs(300);

impl Daemon {
    /// A rank wants the job to have so many ranks.
    pub(super) fn on_wish(&mut self, key: ProcessKey, ranks: u32) {
        let job = key.job;
        let Some(part) = self.parts.get(&job) else { return };
        let size = part.reforming.layout().map_or(0, |layout| layout.size() as u32);
        let change = match ranks.cmp(&size) {
            Ordering::Greater => LayoutChange::Expand {
                to: ranks,
                nodes: Vec::new(),
            },
            Ordering::Less => LayoutChange::Shrink { to: ranks },
            Ordering::Equal => return,
        };
        let coordinator = part.state.coordinator().clone();
        let request = ControlToDaemon::Reconfigure {
            job,
            change,
            mode: ModeWanted::Auto,
            cause: "the program".to_owned(),
            method: None,
        };
        let question = Question::Control(Box::new(request));
        self.ask(&coordinator, question, Purpose::Wish { job }, WISH_WITHIN);
    }

    /// The coordinator made the change, or not.
    pub(super) fn on_wish_answer(job: JobId, answer: Option<DaemonToControl>) {
        match answer {
            Some(DaemonToControl::Reconfigured(_)) => {}
            Some(DaemonToControl::Refused(refusal)) => {
                tracing::info!(%job, code = refusal.code, refusal.message, "what the program asked for was refused");
            }
            _ => tracing::warn!(%job, "nobody answered what the program asked for"),
        }
    }
}
