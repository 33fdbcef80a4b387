//! Questions about the shared pages of this node's ranks, with their askers, until the driver has read the pages.

use super::effect::RankEffect;
use super::pages::{PageQuestion, Reader};
use crate::node::outbox::Outbox;
use std::collections::BTreeMap;

/// Questions that the driver has not answered.
#[derive(Debug, Default)]
pub(in crate::node) struct PageQuestions {
    count: u64,
    open: BTreeMap<u64, Reader>,
}

impl PageQuestions {
    /// Has the pages read.
    pub(in crate::node) fn ask(&mut self, reader: Reader, question: PageQuestion, out: &mut Outbox) {
        self.count += 1;
        let number = self.count;
        self.open.insert(number, reader);
        out.rank(RankEffect::Read { number, question });
    }

    /// The source of an answered question.
    pub(in crate::node) fn on_read(&mut self, number: u64) -> Option<Reader> {
        self.open.remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Moment;
    use crate::node::outbox::Effect;
    use pcm_proto::ids::{JobId, NodeName};

    #[test]
    fn each_question_is_answered_once_to_its_own_reader() {
        let node = NodeName::new("n0").unwrap();
        let mut out = Outbox::new(node.clone(), Moment(0));
        let mut questions = PageQuestions::default();
        let job = JobId(1);
        let readers = [Reader::Agent { about: Vec::new() }, Reader::Node { node, ask: 7 }];
        for reader in &readers {
            questions.ask(reader.clone(), PageQuestion::Ranks { job }, &mut out);
        }
        let numbers = out.take().into_iter().map(|effect| match effect {
            Effect::Rank(RankEffect::Read { number, .. }) => number,
            other => panic!("{other:?}"),
        });
        let numbers: Vec<u64> = numbers.collect();
        assert_eq!(questions.on_read(numbers[1]), Some(readers[1].clone()));
        assert_eq!(questions.on_read(numbers[1]), None);
        assert_eq!(questions.on_read(numbers[0]), Some(readers[0].clone()));
    }
}
