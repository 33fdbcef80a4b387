//! The jobs that an earlier daemon of this node knew.

use super::led::{Audience, Led, RETURN_AFTER_RESTART_WITHIN};
use super::local::Local;
use super::machine::Jobs;
use crate::job::at_node::JobAtNode;
use crate::node::context::Context;
use crate::node::streams::job_output::JobOutput;
use pcm_proto::control::Stream;
use pcm_proto::ids::{JobId, ProcessId};
use std::collections::BTreeMap;

/// How far each stream of each job had come.
type Offsets = BTreeMap<JobId, BTreeMap<(ProcessId, Stream), u64>>;

impl Jobs {
    /// Takes in the jobs of the journal, with output that was passed on and output that was written to files.
    pub(in crate::node) fn restore(
        &mut self,
        known: BTreeMap<JobId, JobAtNode>,
        (mut printed, mut written): (Offsets, Offsets),
        spans_hosts: bool,
        cx: &mut Context<'_>,
    ) {
        for (job, machine) in known {
            let is_local = machine.part().is_some();
            let coordinator = machine.coordinator().cloned();
            let known = self.table.insert(job, machine);
            if is_local {
                let mut local = Local::new(job);
                for ((process, stream), bytes) in printed.remove(&job).unwrap_or_default() {
                    local.output.go_on_at(process, stream, bytes);
                }
                known.local = Some(local);
            }
            let Some(coordinator) = coordinator else { continue };
            let (is_detached, is_inherited) = (coordinator.spec().detached, coordinator.reign() > 0);
            let output = if is_detached {
                JobOutput::to_files(job, written.remove(&job).unwrap_or_default(), cx.out)
            } else {
                JobOutput::to_absent_control(job)
            };
            let mut led = Led::new(&coordinator, Audience::Detached, output, cx.now());
            led.leading.take_over(job, Vec::new(), cx);
            if is_inherited && spans_hosts && !is_detached {
                led.seek(job, RETURN_AFTER_RESTART_WITHIN, cx);
            } else if !is_detached {
                led.await_return(job, RETURN_AFTER_RESTART_WITHIN, cx);
            }
            known.led = Some(led);
        }
    }
}
