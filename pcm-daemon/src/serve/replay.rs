//! Takes in the records of the journal, one after another. A record at which a job's machine panics costs that job
//! only: a daemon that died of it would die of it again at each start, until its keeper gave up. Decides nothing else.

use pcm_core::node::record::{Past, Record};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Takes in the next record.
pub(super) fn take(past: &mut Past, record: Record) {
    let Record::Job { job, .. } = record else {
        return past.take(record);
    };
    // A record of a job changes nothing but that job, and what a panic leaves of it is dropped.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| past.take(record))) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no reason given");
        let reason = format!("its node's daemon was started again and cannot read what it wrote about the job: {text}");
        past.lose(job, reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_core::job::at_node::{Beginning, Decided, Entry, JobAtNode};
    use pcm_core::job::participant::Input;
    use pcm_core::moment::Moment;
    use pcm_core::reconfiguration::limits::Limits;
    use pcm_proto::ids::{Epoch, JobId, NodeName, ProcessId, WorldId};
    use pcm_proto::job::JobSpec;
    use pcm_proto::peer::{RankRun, StartOrder, WorldStart};

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    /// A world of one process, on the node of this index.
    fn world(number: u32, index: u32) -> WorldStart {
        WorldStart {
            world: WorldId(number),
            nodes: vec![node("n0")],
            runs: vec![RankRun {
                node: index,
                first: ProcessId(0),
                count: 1,
            }],
            process_mapping: String::new(),
            commands: Vec::new(),
            preset: Vec::new(),
            spawned: false,
            parent: None,
            spare: false,
        }
    }

    /// What the journal of node n0 says of a job that n1 leads.
    fn begun(job: JobId) -> Record {
        let spec = JobSpec {
            name: "test".to_owned(),
            size: 1,
            min: 1,
            max: 1,
            program: b"a.out".to_vec(),
            cwd: "/".into(),
            ..JobSpec::default()
        };
        let order = StartOrder {
            number: 0,
            coordinator: node("n1"),
            tree: vec![node("n1"), node("n0")],
            spec: Box::new(spec),
            epoch: Epoch(0),
            is_crowded: false,
            layout: vec![(ProcessId(0), WorldId(0))],
            worlds: vec![world(0, 0)],
            life: Epoch(0),
            restarts: 0,
            restores: None,
            keeper_since_us: 0,
        };
        let mut machine = JobAtNode::new(job, node("n0"), Limits::default());
        let step = machine.begin(Moment(1), &node("n1"), Box::new(order), Beginning::default());
        let entry = Box::new(step.entry.expect("a beginning is written down"));
        Record::Job { job, entry }
    }

    /// A step at which the machine panics: a process on a node that the world does not have.
    fn poison(job: JobId) -> Record {
        let start = Input::StartWorld {
            start: world(1, 7),
            places: Vec::new(),
            epoch: Epoch(0),
            size: 1,
            is_restored: false,
        };
        let entry = Entry::Step {
            now_us: 2,
            inputs: vec![Decided::Run(start)],
            change: None,
        };
        let entry = Box::new(entry);
        Record::Job { job, entry }
    }

    #[test]
    fn a_record_that_its_job_cannot_take_costs_that_job_and_no_other() {
        let (poisoned, sound) = (JobId(1), JobId(2));
        let mut past = Past::new(node("n0"), Limits::default());
        let later = Record::HighestJob(JobId(9));
        for record in [begun(poisoned), begun(sound), poison(poisoned), begun(poisoned), later] {
            take(&mut past, record);
        }
        assert_eq!(past.jobs.keys().copied().collect::<Vec<_>>(), [sound]);
        assert_eq!(past.lost.keys().copied().collect::<Vec<_>>(), [poisoned]);
        let lost = &past.lost[&poisoned];
        assert_eq!((lost.leader.as_ref(), lost.led.as_ref()), (Some(&node("n1")), None));
        assert!(lost.reason.contains("index out of bounds"), "{}", lost.reason);
        assert_eq!(past.numbers.highest(), JobId(9));
        take(&mut past, Record::PartOver { job: poisoned });
        assert!(past.lost.is_empty(), "it was over, and its leader heard of it");
    }
}
