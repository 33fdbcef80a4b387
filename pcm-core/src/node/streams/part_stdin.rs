//! Standard input on the node of the first process: from the coordinator into the process's pipe.

use crate::node::outbox::Outbox;
use crate::node::ranks::effect::RankEffect;
use pcm_proto::ids::{JobId, ProcessId};
use pcm_proto::keeper::{DaemonToKeeper, ProcessKey};
use std::collections::VecDeque;

/// Standard input of the one process here that has any.
#[derive(Debug)]
pub struct PartStdin {
    job: JobId,
    process: Option<ProcessId>,
    /// Pieces that came before the process, with the offset of their end.
    waiting: VecDeque<(u64, Vec<u8>)>,
    next: u64,
    is_ended: bool,
}

impl PartStdin {
    pub fn new(job: JobId) -> Self {
        Self {
            job,
            process: None,
            waiting: VecDeque::new(),
            next: 0,
            is_ended: false,
        }
    }

    /// The process is there.
    pub fn on_attached(&mut self, process: ProcessId, out: &mut Outbox) {
        self.process = Some(process);
        for (end, bytes) in std::mem::take(&mut self.waiting) {
            self.write(end, bytes, out);
        }
        if self.is_ended {
            self.end(out);
        }
    }

    /// The coordinator sends a piece; an empty one is the end.
    pub fn on_piece(&mut self, offset: u64, bytes: Vec<u8>, out: &mut Outbox) {
        if self.is_ended || offset < self.next {
            return;
        }
        self.next = offset + bytes.len() as u64;
        if bytes.is_empty() {
            return self.end(out);
        }
        self.write(self.next, bytes, out);
    }

    fn write(&mut self, end: u64, bytes: Vec<u8>, out: &mut Outbox) {
        match self.process {
            Some(process) => {
                let key = ProcessKey { job: self.job, process };
                out.rank(RankEffect::WriteStdin { key, end, bytes });
            }
            None => self.waiting.push_back((end, bytes)),
        }
    }

    /// Nothing more will come; what is on its way still arrives.
    fn end(&mut self, out: &mut Outbox) {
        self.is_ended = true;
        if let Some(process) = self.process {
            let key = ProcessKey { job: self.job, process };
            out.rank(RankEffect::EndStdin { key });
            out.keeper(DaemonToKeeper::CloseStdin { key });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Moment;
    use crate::node::outbox::Effect;
    use pcm_proto::ids::NodeName;

    fn stdin() -> (PartStdin, Outbox) {
        let out = Outbox::new(NodeName::new("n0").unwrap(), Moment(0));
        (PartStdin::new(JobId(1)), out)
    }

    /// Ends of the pieces written, and whether the input was ended after them.
    fn written(out: &mut Outbox) -> (Vec<u64>, bool) {
        let (mut ends, mut is_ended) = (Vec::new(), false);
        for effect in out.take() {
            match effect {
                Effect::Rank(RankEffect::WriteStdin { end, .. }) => {
                    assert!(!is_ended, "a piece after the end");
                    ends.push(end);
                }
                Effect::Rank(RankEffect::EndStdin { .. }) => is_ended = true,
                Effect::Keeper(DaemonToKeeper::CloseStdin { .. }) => assert!(is_ended),
                other => panic!("{other:?}"),
            }
        }
        (ends, is_ended)
    }

    #[test]
    fn input_that_came_before_its_process_is_written_in_order_and_then_ended() {
        let (mut stdin, mut out) = stdin();
        stdin.on_piece(0, b"ab".to_vec(), &mut out);
        stdin.on_piece(2, b"c".to_vec(), &mut out);
        stdin.on_piece(3, Vec::new(), &mut out);
        assert_eq!(written(&mut out), (vec![], false));
        stdin.on_attached(ProcessId(0), &mut out);
        assert_eq!(written(&mut out), (vec![2, 3], true));
    }

    #[test]
    fn a_piece_that_comes_twice_or_after_the_end_is_not_written() {
        let (mut stdin, mut out) = stdin();
        stdin.on_attached(ProcessId(0), &mut out);
        stdin.on_piece(0, b"ab".to_vec(), &mut out);
        stdin.on_piece(0, b"ab".to_vec(), &mut out);
        stdin.on_piece(2, Vec::new(), &mut out);
        stdin.on_piece(2, b"c".to_vec(), &mut out);
        assert_eq!(written(&mut out), (vec![2], true));
    }
}
