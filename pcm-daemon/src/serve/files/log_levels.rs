//! The levels of the node's logs that were set at run time. The keeper learns those of the log it shares with the
//! daemon and passes them to the next daemon; a new agent learns its levels from the daemon.

use node_log::{BadLevels, Levels};
use pcm_core::node::event::LogsAnswer;
use pcm_core::node::requester::Requester;
use pcm_proto::control::{DaemonToControl, LogOf, Refusal};
use pcm_proto::refusal;

#[derive(Debug, Default)]
pub(in super::super) struct LogLevels {
    daemon: Option<Levels>,
    agent: Option<Levels>,
}

impl LogLevels {
    /// Writes a log with other levels from now on; answers with all of them.
    pub(in super::super) fn change(&mut self, from: Requester, of: LogOf, levels: &str) -> LogsAnswer {
        match self.changed(of, levels) {
            Ok(text) => LogsAnswer {
                from,
                answer: DaemonToControl::Logs(text.clone()),
                levels: Some((of, text)),
            },
            Err(error) => LogsAnswer {
                from,
                answer: DaemonToControl::Refused(Refusal::new(refusal::BAD_LEVELS, error.to_string())),
                levels: None,
            },
        }
    }

    fn changed(&mut self, of: LogOf, text: &str) -> Result<String, BadLevels> {
        let now = match of {
            LogOf::Daemon => &mut self.daemon,
            LogOf::Agent => &mut self.agent,
        };
        let levels = now.clone().unwrap_or_else(Levels::at_start).with(text)?;
        if of == LogOf::Daemon {
            node_log::write_from_now_on(&levels);
        }
        let text = levels.text().to_owned();
        tracing::info!(?of, levels = text, "the levels of a log were changed");
        *now = Some(levels);
        Ok(text)
    }

    /// Writes with the levels of the daemon before this one.
    pub(in super::super) fn take_over(&mut self, text: Option<&str>) {
        let levels = text.and_then(|text| node_log::write_as_told(text).ok());
        self.daemon = levels.or(self.daemon.take());
    }
}
