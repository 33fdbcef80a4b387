//! Output and standard input of jobs: how far each stream has come, been passed on and been taken. The pipes and files are
//! the driver's.

pub mod effect;
pub mod job_output;
pub mod job_stdin;
pub mod part_output;
pub mod part_stdin;

use crate::job::coordinator::Coordinator;
use crate::node::requester::LinkId;

/// What the streams of a job need to know of it on its coordinator.
#[derive(Clone, Copy, Debug)]
pub struct JobView<'a> {
    pub coordinator: &'a Coordinator,
    /// The attached `pcmctl`.
    pub reader: Option<LinkId>,
}
