//! What the daemons of a table reported, by kind. Must never change the table.

use crate::table::Table;
use pcm_core::reconfiguration::effects::Report;
use pcm_core::reconfiguration::refusal::Refused;
use pcm_proto::event::Reconfigured;
use pcm_proto::reconfiguration::{AbortReason, Loss, Phase};

pub(crate) fn reconfigured(table: &Table) -> Vec<&Reconfigured> {
    let events = table.reports.iter().filter_map(|report| match report {
        Report::Reconfigured { event, .. } => Some(&**event),
        _ => None,
    });
    events.collect()
}

pub(crate) fn aborts(table: &Table) -> Vec<(Phase, &AbortReason, bool)> {
    let aborts = table.reports.iter().filter_map(|report| match report {
        Report::Aborted {
            phase,
            reason,
            followed_by,
            ..
        } => Some((*phase, reason, followed_by.is_some())),
        _ => None,
    });
    aborts.collect()
}

pub(crate) fn losses(table: &Table) -> Vec<&Loss> {
    let losses = table.reports.iter().filter_map(|report| match report {
        Report::JobLost { loss } => Some(loss),
        _ => None,
    });
    losses.collect()
}

pub(crate) fn refusals(table: &Table) -> Vec<&Refused> {
    let refusals = table.reports.iter().filter_map(|report| match report {
        Report::Refused(refused) => Some(refused),
        _ => None,
    });
    refusals.collect()
}
