//! All that is known of how a job goes or went, as `pcmctl report --recording` writes it.

use super::page::{content, document};
use super::story::Story;
use super::summary::summary;
use crate::sentences::event_words;
use pcm_proto::event::Event;
use pcm_proto::ids::JobId;
use pcm_proto::job::JobStatus;
use pcm_proto::series::Series;
use serde::{Deserialize, Serialize};

/// See the file head.
#[derive(Debug, Serialize, Deserialize)]
pub struct Recording {
    pub status: JobStatus,
    pub series: Series,
    pub events: Vec<Event>,
}

impl Recording {
    /// Whose it is.
    pub fn job(&self) -> JobId {
        self.status.job
    }

    /// The part of a page that shows it; `now_us` is the end of a job that still runs.
    pub fn content(self, now_us: u64) -> String {
        let lines: Vec<String> = self.events.iter().map(event_words).collect();
        let story = Story::new(self.status, &self.events, &self.series, now_us);
        content(&story, &lines)
    }

    /// A few lines for a terminal.
    pub fn summary(self, now_us: u64) -> String {
        summary(&Story::new(self.status, &self.events, &self.series, now_us))
    }

    /// The whole as one file that asks nothing of anybody.
    pub fn report(self, now_us: u64) -> String {
        let title = format!("Job {}", self.job());
        document(&title, &format!("<main>{}</main>", self.content(now_us)))
    }
}
