//! How far the ranks of a job had come before they are ended here, for the job's coordinator. Only asks for it.

use crate::node::machine::Node;
use crate::node::ranks::pages::{PageQuestion, Reader};
use pcm_proto::ids::JobId;

impl Node {
    /// The ranks of a job are about to be ended: how far they had come.
    pub(in crate::node) fn say_reached(&mut self, job: JobId) {
        let Some(part) = self.jobs.part(job) else { return };
        let node = part.coordinator().clone();
        let reader = Reader::Coordinator { job, node };
        self.page_questions
            .ask(reader, PageQuestion::Reached { job }, &mut self.out);
    }
}
