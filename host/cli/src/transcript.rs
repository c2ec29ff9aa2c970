//! Transcript of a job on standard error, in words for newcomers.
use crate::short_text::{plain_start, shortened};
use peal_core::{owner::Owner, termination::TerminationRequest};
use peal_model::{ChainResult, Event, Proc, code, counted};
use peal_server::{ChainResults, Notice, RequestedTermination};
use std::io::Write;

/// Returns true for notices that the transcript shows.
pub fn is_shown(notice: &Notice) -> bool {
    !matches!(notice, Notice::EventEntered(_) | Notice::Decided(_))
}

/// Prints one notice.
pub fn print(notice: &Notice) {
    let text = match notice {
        Notice::JobStarted { nspace, size, .. } => {
            format!("job {nspace} starts with {}\n", counted(*size, "proc"))
        }
        Notice::ProcStarted { proc, pid } => format!("{} started as process {pid}\n", rank(proc)),
        Notice::ProcConnected(proc) => format!("{} connected\n", rank(proc)),
        Notice::ProcFinalized(proc) => format!("{} left in order\n", rank(proc)),
        Notice::ProcEnded { proc, end } => format!("{} {end}\n", rank(proc)),
        // The transcript shows only the result of an event, and no decisions.
        Notice::EventEntered(_) | Notice::Decided(_) => return,
        Notice::Passed { event, results, .. } => passed(event, results),
        Notice::TerminationRequested {
            nspace,
            termination,
        } => format!("job {nspace} {}\n", decided(termination)),
        Notice::Controlled {
            requester,
            operation,
            targets,
            status,
        } => {
            let targets = targets.iter().map(rank).collect::<Vec<_>>().join(", ");
            let requester = requester
                .as_ref()
                .map_or_else(|| "a module".to_owned(), rank);
            format!("{operation} for {targets}, requested by {requester}: {status}\n")
        }
        Notice::JobEnded {
            nspace,
            exit_status,
        } => format!("job {nspace} ended with status {exit_status}\n"),
        Notice::JobEnding { nspace, because } => {
            format!("job {nspace} is being ended: {because}\n")
        }
    };
    let lines: String = text.lines().map(|line| format!("peal: {line}\n")).collect();
    // A write error has no other place to be reported.
    let _ = std::io::stderr().write_all(lines.as_bytes());
}

fn rank(proc: &Proc) -> String {
    format!("rank {}", proc.rank)
}

fn headline(event: &Event) -> String {
    let source = match &event.source {
        Some(source) => rank(source),
        None => "the resource manager".to_owned(),
    };
    format!(
        "event {} from {source}, range {}",
        event.code,
        event.range.name()
    )
}

fn passed(event: &Event, results: &[ChainResults]) -> String {
    if results.is_empty() {
        return format!("{}: no handler is registered for it\n", headline(event));
    }
    results
        .iter()
        .map(|chain| handled(&chain.owner, event, &chain.steps))
        .collect()
}

fn handled(owner: &Owner, event: &Event, steps: &[ChainResult]) -> String {
    let mut text = format!(
        "{}, through {}'s chain:\n",
        headline(event),
        owner_name(owner)
    );
    for step in steps {
        text.push_str(&format!("  {} answers {}", name(step), step.status));
        for info in &step.infos {
            text.push_str(&format!(
                ", {}={}",
                plain_start(info.key.as_str()),
                shortened(&info.value)
            ));
        }
        if step.status == code::PMIX_EVENT_ACTION_COMPLETE {
            text.push_str(", which ends the chain");
        }
        text.push('\n');
    }
    text
}

fn owner_name(owner: &Owner) -> &'static str {
    match owner {
        Owner::Site => "the site",
        Owner::User(_) => "the user",
        Owner::Namespace(_) => "the job",
    }
}

fn decided(termination: &RequestedTermination) -> String {
    let by = format!(
        "handler \"{}\" of {}",
        plain_start(&termination.handler),
        owner_name(&termination.owner)
    );
    match termination.request {
        TerminationRequest::Termination => format!("will end: {by} requests termination"),
        TerminationRequest::NoTermination => format!("continues: {by} requests no termination"),
    }
}

fn name(step: &ChainResult) -> String {
    if step.name.is_empty() {
        "(no name)".to_owned()
    } else {
        plain_start(&step.name)
    }
}
