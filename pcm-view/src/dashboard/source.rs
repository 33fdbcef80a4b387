//! What the page shows and what it may order. The command that serves the page knows the cluster; the page does not.

use super::cluster::Drawn;
use crate::svg::escape;
use pcm_proto::ids::JobId;
use serde::Serialize;

/// What the page is sent.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// The job that orders are about.
    pub job: Option<u64>,
    /// Nodes that orders may name.
    pub nodes: Vec<String>,
    /// The nodes and the ranks on them.
    pub cluster: Drawn,
    /// The story of the job.
    pub html: String,
}

/// A problem in place of the story of a job.
pub fn alert(problem: &str) -> String {
    format!("<p role=\"alert\">{}</p>", escape(problem))
}

/// A text format for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// That of Prometheus, version 0.0.4.
    Prometheus,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Its media type, without the character set.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0",
        }
    }
}

/// What an order would do.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// In words, for a person.
    pub text: String,
    /// The order that brings back what was before.
    pub undo: Option<serde_json::Value>,
}

/// Where the page has it from. An error is a sentence for a person.
pub trait Source: Send + Sync + 'static {
    /// What is to be seen now by a page that chose this job, or none.
    fn look(&self, job: Option<JobId>) -> impl Future<Output = Result<Shown, String>> + Send;

    /// The numbers of this moment.
    fn metrics(&self, format: Format) -> impl Future<Output = Result<String, String>> + Send;

    /// What an order would do that a button sends as JSON.
    fn plan(&self, order: &[u8]) -> impl Future<Output = Result<Plan, String>> + Send;

    /// Carries out the order that a button sent as JSON; what it came to, in one line.
    fn carry_out(&self, order: &[u8]) -> impl Future<Output = Result<String, String>> + Send;
}
