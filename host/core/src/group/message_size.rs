//! Memory of messages about groups, as far as it grows with what procs ask for.
use super::{
    Contribution, CoordinatorRequest, DepartureReason, Formed, GroupDecision, GroupFailure,
    GroupMessage, GroupTransition, Participation, TakeoverReport,
};
use crate::server_message::{bytes_of_data, bytes_of_procs};
use peal_model::{Info, JobEntry, Size};

impl GroupMessage {
    /// Returns the approximate memory of the lists in the message, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            GroupMessage::Job { ranks, .. } => size_of_val(ranks.runs()),
            GroupMessage::JobGone(_) | GroupMessage::Watch(_) | GroupMessage::Lost(_) => 0,
            GroupMessage::Upward(request) => bytes_of_request(request),
            GroupMessage::Report(report) => bytes_of_report(report),
            GroupMessage::Down(decision) => bytes_of_decision(decision),
            GroupMessage::Refuse { calls, failure, .. } => {
                bytes_of_procs(calls.len()).saturating_add(bytes_of_failure(failure))
            }
            GroupMessage::Notify { procs, infos, .. } => {
                bytes_of_procs(procs.len()).saturating_add(bytes_of_infos(infos))
            }
        }
    }
}

fn bytes_of_request(request: &CoordinatorRequest) -> usize {
    match request {
        CoordinatorRequest::Brings(contribution) => bytes_of_parts(contribution),
        CoordinatorRequest::Leave { notified, .. } => bytes_of_procs(notified.len()),
        CoordinatorRequest::Announce { announced, .. } => bytes_of_procs(announced.members.len()),
        CoordinatorRequest::Ended(_)
        | CoordinatorRequest::Back(_)
        | CoordinatorRequest::Respond { .. } => 0,
    }
}

fn bytes_of_parts(contribution: &Contribution) -> usize {
    let construct = |part: &Participation| {
        let Some(construct) = &part.construct else {
            return 0;
        };
        let named = part.names().map_or(0, |named| named.len());
        let ordered = construct.order.as_ref().map_or(0, Vec::len);
        let procs = [named, ordered, construct.additions.len()];
        let procs = bytes_of_procs(procs.into_iter().sum());
        let data = construct.data.as_ref().map_or(0, bytes_of_data);
        let infos = bytes_of_infos(&construct.infos);
        procs.saturating_add(infos).saturating_add(data)
    };
    let parts = contribution.parts.iter();
    let sizes = parts.map(|part| size_of::<Participation>().saturating_add(construct(part)));
    sizes.fold(0, usize::saturating_add)
}

fn bytes_of_decision(decision: &GroupDecision) -> usize {
    match &decision.transition {
        GroupTransition::Formed(formed) => bytes_of_formed(formed),
        GroupTransition::NotFormed {
            failure,
            late,
            called,
        } => {
            let late = late.as_ref().map_or(0, |late| late.len());
            bytes_of_procs(late + called.len()).saturating_add(bytes_of_failure(failure))
        }
        GroupTransition::NotDissolved(failure) => bytes_of_failure(failure),
        GroupTransition::Changed(_, DepartureReason::Left(notified)) => {
            bytes_of_procs(notified.len())
        }
        GroupTransition::Changed(_, DepartureReason::Failed) | GroupTransition::Dissolved => 0,
    }
}

fn bytes_of_formed(formed: &Formed) -> usize {
    let infos = formed.infos.iter().map(|(_, infos)| bytes_of_infos(infos));
    let data = formed.data.iter().map(bytes_of_data);
    let entries = formed.jobs.iter().flat_map(|job| &job.entries);
    let entries = entries.map(JobEntry::bytes);
    let sizes = infos.chain(data).chain(entries);
    let around = [
        bytes_of_procs(formed.members.len()),
        bytes_of_infos(&formed.host_infos),
    ];
    sizes.chain(around).fold(0, usize::saturating_add)
}

fn bytes_of_report(report: &TakeoverReport) -> usize {
    let jobs = report.jobs.values();
    let jobs = jobs.map(|job| size_of_val(job.ranks.runs()) + size_of_val(&job.ended));
    let known = report.known.values();
    let known = known.map(|(_, formed, left)| {
        bytes_of_formed(formed).saturating_add(bytes_of_procs(left.len()))
    });
    let decisions = report.recent_decisions.iter().map(bytes_of_decision);
    let open = report.open.iter().map(bytes_of_parts);
    let sizes = jobs.chain(known).chain(decisions).chain(open);
    sizes.fold(0, usize::saturating_add)
}

fn bytes_of_failure(failure: &GroupFailure) -> usize {
    let reasons = failure.refusal.as_ref();
    let reasons = reasons.map_or(0, |refusal| bytes_of_infos(&refusal.reasons));
    failure.reason.len().saturating_add(reasons)
}

fn bytes_of_infos(infos: &[Info]) -> usize {
    let sizes = infos.iter().map(|info| Size::of_info(info).bytes);
    sizes.fold(0, usize::saturating_add)
}
